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
_COMMANDS = {  # the command that each type runs, once in an execution
    "expected_total": "expected_total_timeout",
    "parse": "meta_cmd_timeout",
    "list_fetch": "list_fetch_cmd_timeout",
    "download": "download_cmd_timeout",
}
SUBSCRIPTION = EventField("subscription_id", int)


def tuned(task_type: TaskType, settings: MediaSettings) -> TaskType:
    """A type with at least the time that the settings give to its command."""
    command = _COMMANDS.get(task_type.code)
    longest = max(task_type.timeout_seconds, getattr(settings, command) if command else 0)
    return replace(task_type, timeout_seconds=longest)
