"""What handlers really did, kept outside the store, as a careful outside system would: it knows the attempts."""

from collections.abc import Callable

from headgate.simulation.evidence import LedgerEntry


class Ledger:
    """Refuses an effect of an attempt that is older than the newest it has seen of the task."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._newest: dict[int, int] = {}
        self.entries: list[LedgerEntry] = []

    def write(self, what: str, task_id: int, exec_id: str, attempt: int) -> bool:
        """Note it; whether it was accepted."""
        newest = self._newest[task_id] = max(attempt, self._newest.get(task_id, 0))
        accepted = what != "effect" or attempt == newest
        self.entries.append(LedgerEntry(self._clock(), what, task_id, exec_id, attempt, accepted))
        return accepted
