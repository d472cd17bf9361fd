"""The types of requests and of upkeep, each with its limits and its retries."""

from dataclasses import replace

from headgate.packs import EventField, TaskType, exponential, fixed
from headgate.packs.media.lanes import COOKIE, NO_COOKIE
from headgate.packs.media.settings import MediaSettings

REQUEST = "request"
UPKEEP = "upkeep"
_LIGHT = exponential(3, factor=2, cap=60, jitter=0.1, retries=3)

# Requests of one subscription run one after the other, whichever way they come in.
_IN_TURN = "subscription:{subscription_id?}"
_ONCE = "subscription:{subscription_id?}"  # one open request of the type for each subscription
_ONCE_PER_ITEM = "subscription:{subscription_id?} item:{item?}"

# The time limits are for a whole task; what it runs has a limit of its own, and a type never less than that.
REQUESTS = (
    TaskType(
        "expected_total", "Expected total", REQUEST, NO_COOKIE, mutex=_IN_TURN, unique_key=_ONCE,
        retry=_LIGHT, timeout_seconds=120,
    ),
    TaskType("parse", "Parse a collection", REQUEST, NO_COOKIE, mutex=_IN_TURN, retry=_LIGHT, timeout_seconds=300),
    TaskType(
        "list_fetch", "Fetch a list", REQUEST, NO_COOKIE, mutex=_IN_TURN, unique_key=_ONCE,
        retry=_LIGHT, timeout_seconds=1800,
    ),
    TaskType(
        "download", "Download", REQUEST, COOKIE, mutex=_IN_TURN, unique_key=_ONCE_PER_ITEM,
        retry=exponential(60, factor=2, cap=300, jitter=0, retries=3), timeout_seconds=1800,
    ),
)  # fmt: skip
EXPECTED_TOTAL, PARSE, LIST_FETCH, DOWNLOAD = REQUESTS
BUTTON = 3  # what a person asked for just now starts before what a schedule did
BEHIND = 8  # upkeep starts after what people wait for
UPKEEPS = (
    TaskType("scan", "Scan", UPKEEP, priority=BEHIND, retry=fixed(30, retries=2), timeout_seconds=300),
    TaskType("associate", "Associate", UPKEEP, priority=BEHIND, retry=fixed(10, retries=2), timeout_seconds=120),
    TaskType("check", "Check", UPKEEP, priority=BEHIND, retry=fixed(5, retries=1), timeout_seconds=60),
)
SCAN, ASSOCIATE, CHECK = UPKEEPS
TYPES = (*REQUESTS, *UPKEEPS)
START_SECONDS = 30.0  # for the rest of an execution: to load yt-dlp, to end it, to write down what came of it
_COMMANDS = {  # the command that each type runs, once in an execution, and how many resources it waits for in turn
    "expected_total": ("expected_total_timeout", 1),
    "parse": ("meta_cmd_timeout", 1),
    "list_fetch": ("list_fetch_cmd_timeout", 1),
    "download": ("download_cmd_timeout", 2),
}
SUBSCRIPTION = EventField("subscription_id", int)


def tuned(task_type: TaskType, settings: MediaSettings) -> TaskType:
    """A type with at least the time that the settings give to its command, after the longest wait for its turn."""
    if task_type.code not in _COMMANDS:
        return task_type
    command, turns = _COMMANDS[task_type.code]
    least = getattr(settings, command) + turns * settings.yt_dlp_turn_seconds + START_SECONDS
    return replace(task_type, timeout_seconds=max(task_type.timeout_seconds, least))
