"""How many wrong keys came from each address lately."""

from collections import OrderedDict

from headgate.environment import monotonic

ALLOWED = 20.0
FORGIVEN_PER_SECOND = 1 / 3
MOST_ADDRESSES = 10_000


class Failures:
    """A leaky count per address: a burst, and one more every three seconds."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def too_many(self, address: str) -> bool:
        return self._count(address) >= ALLOWED

    def add(self, address: str, weight: float = 1.0) -> None:
        self._counts[address] = min(self._count(address) + weight, ALLOWED + 1), monotonic()
        self._counts.move_to_end(address)
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)

    def _count(self, address: str) -> float:
        count, at = self._counts.get(address, (0.0, 0.0))
        return max(0.0, count - (monotonic() - at) * FORGIVEN_PER_SECOND)
