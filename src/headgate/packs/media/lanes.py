"""The two lanes of the request queue, and how much room each begins with."""

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.errors import Invalid

COOKIE = "requires_cookie"
NO_COOKIE = "no_cookie"
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class RequestLane:
    """A lane, the variable that says how many of it run at once, and how many if it says nothing."""

    name: str
    variable: str
    default: int

    def capacity(self, environment: Mapping[str, str]) -> int:
        """What the environment asks for; `Invalid`, naming the variable, for what is no capacity."""
        text = environment.get(self.variable, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST)) and int(text) <= MOST):
            raise Invalid(f"{self.variable} is a whole number from 0 to {MOST}")
        return int(text)


LANES = (
    RequestLane(COOKIE, "QUEUE_COOKIE_LANE_CONCURRENCY", 1),
    RequestLane(NO_COOKIE, "QUEUE_NOCOOKIE_LANE_CONCURRENCY", 2),
)
NAMES = tuple(lane.name for lane in LANES)


def lane_for(requires_cookie: bool) -> str:
    return COOKIE if requires_cookie else NO_COOKIE
