"""How long to wait: for an event, and between one attempt and the next."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from headgate.environment import monotonic, random_number

MOST_STEPS = 64  # beyond that a power might not fit a float


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow from `first` to `longest`, `factor` times each; up to `jitter` of each is left out at random."""

    first: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.0

    def pause(self, step: int) -> float:
        """How long to wait after `step` pauses."""
        pause = min(self.first * self.factor ** min(step, MOST_STEPS), self.longest)
        return pause * (1 - self.jitter * random_number())

    def pauses(self, seconds: float | None = None) -> Iterator[float]:
        """Yield pauses, without end or for `seconds`: `for pause in …` tries once more when the time is up."""
        end = None if seconds is None else monotonic() + seconds
        for step in count():
            pause = self.pause(step)
            left = pause if end is None else end - monotonic()
            yield max(min(pause, left), 0.0)
            if left <= 0:
                return


async def wait(event: asyncio.Event, at_most: float) -> bool:
    """Wait until the event is set, for `at_most` seconds; returns whether it was set."""
    try:
        async with asyncio.timeout(at_most):
            return await event.wait()
    except TimeoutError:
        return False
