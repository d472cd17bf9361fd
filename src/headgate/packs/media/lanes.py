"""The two lanes of the request queue."""

from headgate.packs import Lane

COOKIE = "requires_cookie"
NO_COOKIE = "no_cookie"
LANES = (
    Lane(COOKIE, 1, variable="QUEUE_COOKIE_LANE_CONCURRENCY", channel="cookie"),
    Lane(NO_COOKIE, 2, variable="QUEUE_NOCOOKIE_LANE_CONCURRENCY", channel="nocookie"),
)
NAMES = tuple(lane.name for lane in LANES)


def lane_for(requires_cookie: bool) -> str:
    return COOKIE if requires_cookie else NO_COOKIE
