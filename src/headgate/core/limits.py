"""Token buckets, as arithmetic: the generic cell rate algorithm on plain numbers.

A bucket is one number, `tat`: the time in seconds at which it would be full again. It is compared, never counted
down, so there is nothing to refill and nothing to drift.
"""

import math
from dataclasses import dataclass

from headgate.core.errors import Invalid

MAX_RATE = 100_000.0  # a second; finer than that the clock cannot tell
_EPSILON = 1e-6  # times are kept to the microsecond


@dataclass(frozen=True, slots=True)
class Rate:
    """`rate` tokens a second, `burst` at most at once."""

    rate: float = 10.0
    burst: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.rate <= MAX_RATE or self.burst < 1:
            raise Invalid(f"a rate limit needs a rate above 0, {MAX_RATE:g} at most, and a burst of at least 1")


def bounded(limit: Rate, tat: float, now: float) -> float:
    """A bucket's `tat`, never further ahead than an empty bucket takes to fill: only a clock set back leaves it there.

    Whoever finds it beyond writes the bound back, or it would be found there again and again.
    """
    return min(tat, now + limit.burst / limit.rate)


def tokens(limit: Rate, tat: float, now: float) -> int:
    """How many may start now."""
    ahead = max(bounded(limit, tat, now) - now, 0.0)
    return max(math.floor(limit.burst - ahead * limit.rate + _EPSILON * limit.rate), 0)


def take(limit: Rate, tat: float, now: float, count: int) -> float:
    """The bucket's `tat` after `count` more have started."""
    return max(bounded(limit, tat, now), now) + count / limit.rate


def next_token_at(limit: Rate, tat: float, now: float) -> float:
    """When the next one may start; `now` if at once."""
    return max(now, bounded(limit, tat, now) - (limit.burst - 1) / limit.rate)
