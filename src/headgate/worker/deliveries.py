"""What the broker has delivered to a pool: executions that wait for their start to be written."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.store.execution.handed import HandedStarts, Report


class Delivery(NamedTuple):
    """An execution that the broker delivered; `settle(True)` acknowledges it, `settle(False)` sends it back."""

    id: int
    exec_id: str
    settle: Callable[[bool], object]

    @property
    def report(self) -> Report:
        return self.id, self.exec_id


class Deliveries:
    """Each delivery takes a slot of its pool, from its arrival until it is answered.

    The caller of `take` then calls either `answer` or `put_back`. After `close` nothing is held: whatever the store
    has not decided goes back to the broker at once, for another worker.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # what came of them
        self._open = False
        self._waiting: list[Delivery] = []
        self._with_store = 0

    def __len__(self) -> int:
        """The slots that they have."""
        return len(self._waiting) + self._with_store

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        self._open = False
        self._release()

    def add(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)

    def take(self) -> list[Delivery]:
        """All that wait, to be started."""
        taken, self._waiting = self._waiting, []
        self._with_store += len(taken)
        return taken

    def put_back(self, taken: Sequence[Delivery]) -> None:
        """They could not be started: the store did not answer."""
        self._with_store -= len(taken)
        self._waiting[:0] = taken
        self._release()

    def answer(self, taken: Sequence[Delivery], started: HandedStarts) -> None:
        """Acknowledge what the store has decided, whatever the outcome; tasks that are busy wait a little longer."""
        decided = [delivery for delivery in taken if delivery.report not in started.busy]
        for delivery in decided:
            delivery.settle(True)
        self._with_store -= len(decided)
        self.put_back([delivery for delivery in taken if delivery.report in started.busy])
        self.counts["started"] += len(started.executions)
        self.counts["stale"] += sum(delivery.report in started.stale for delivery in decided)
        self.counts["held back"] += sum(delivery.report in started.held_back for delivery in decided)

    def _release(self) -> None:
        if not self._open:
            returned, self._waiting = self._waiting, []
            for delivery in returned:
                delivery.settle(False)
