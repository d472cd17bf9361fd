"""What a dispatcher takes for the broker, compared at each commit with the slots that are free then."""

import json
from typing import Any

from headgate.simulation.database import SharedDatabase
from headgate.simulation.evidence import Handover
from headgate.store.events.feed import newest
from headgate.store.execution.workers import BY_BROKER, WorkerRecord, workers

TAKE = "Dispatch.take"


class Handovers:
    """Looks at the store whenever a claim for the broker has been committed."""

    def __init__(self, real: Any, database: SharedDatabase) -> None:
        self.entries: list[Handover] = []
        self._real = real
        self._row: int | None = None
        database.on_commit = self._committed

    def last_row(self) -> int:
        """The last audit row that there is."""
        if self._row is None:
            self._row = self._real.read(newest).high
        return self._row

    def _committed(self, what: str) -> None:
        self._row = None
        if what != TAKE:
            return
        there: list[WorkerRecord] = self._real.read(workers)
        dispatchers = [worker for worker in there if worker.kind == "dispatcher"]
        in_broker, free = sum(each.running for each in dispatchers), sum(map(_free_slots, there))
        actors = tuple(f"worker:{each.id}" for each in dispatchers)
        self.entries.append(Handover(self.last_row(), in_broker, free, actors))


def _free_slots(worker: WorkerRecord) -> int:
    detail = json.loads(worker.detail or "{}")
    if detail.get(BY_BROKER) is not True or worker.stuck:
        return 0
    slots: int = sum(pool["slots"] for pool in detail["pools"])
    return max(slots - worker.running, 0)
