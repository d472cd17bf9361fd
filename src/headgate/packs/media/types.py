"""The types of requests and of upkeep, each with its limits and its retries."""

from headgate.packs import EventField, TaskType, exponential, fixed
from headgate.packs.media.lanes import COOKIE, NO_COOKIE

REQUEST = "request"
UPKEEP = "upkeep"
_LIGHT = exponential(3, factor=2, cap=60, jitter=0.1, retries=3)

# A request may call several programs, each under a limit of its own: these are for all of them together.
REQUESTS = (
    TaskType("expected_total", "Expected total", REQUEST, NO_COOKIE, retry=_LIGHT, timeout_seconds=120),
    TaskType("parse", "Parse a collection", REQUEST, NO_COOKIE, retry=_LIGHT, timeout_seconds=300),
    TaskType("list_fetch", "Fetch a list", REQUEST, NO_COOKIE, retry=_LIGHT, timeout_seconds=1800),
    TaskType(
        "download", "Download", REQUEST, COOKIE,
        retry=exponential(60, factor=2, cap=300, jitter=0, retries=3), timeout_seconds=1800,
    ),
)  # fmt: skip
BEHIND = 8  # upkeep starts after what people wait for
UPKEEPS = (
    TaskType("scan", "Scan", UPKEEP, priority=BEHIND, retry=fixed(30, retries=2), timeout_seconds=300),
    TaskType("associate", "Associate", UPKEEP, priority=BEHIND, retry=fixed(10, retries=2), timeout_seconds=120),
    TaskType("check", "Check", UPKEEP, priority=BEHIND, retry=fixed(5, retries=1), timeout_seconds=60),
)
TYPES = (*REQUESTS, *UPKEEPS)
SUBSCRIPTION = EventField("subscription_id", int)
