"""For how long things have stood still, by this process's own clock and no other."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Standstill(Generic[K]):
    """Adds up over several looks how long each thing was there unchanged.

    One look counts for two periods at most. So a process that was frozen itself, perhaps together with those it
    watches, looks again before it acts.
    """

    def __init__(self) -> None:
        self.looked_at = float("-inf")
        self._seconds: dict[K, float] = {}

    def look(self, seen: Iterable[K], period: float, began: float, ended: float) -> dict[K, float]:
        """How long each thing seen in a look is known to have stood still. The look took from `began` to `ended`."""
        passed = min(began - self.looked_at, 2 * period)
        self.looked_at = ended  # a thing that is seen for the first time was there at the latest now
        self._seconds = {thing: self._seconds.get(thing, -passed) + passed for thing in seen}
        return self._seconds
