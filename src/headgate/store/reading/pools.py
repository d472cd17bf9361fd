"""The slots of live workers and agents: who could run a task."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from headgate.store.db.statement import Db, PendingRows, Row
from headgate.store.execution.workers import BY_BROKER, LIVE_WORKERS, WorkerRecord, name_for, record_of


class WorkerPool(NamedTuple):
    """The slots of a live worker for some types; None: whatever comes, and as many as it holds."""

    worker_id: int
    name: str
    agent_id: str | None
    tenant_id: int | None
    types: frozenset[str] | None
    slots: int | None
    stuck: tuple[int, ...]  # tasks whose handlers do not stop: it claims nothing more
    asked_at: datetime | None  # when an agent last asked for work; None: not known
    awaited: frozenset[int] = frozenset()  # tasks that its handlers wait for
    lent: int = 0  # slots that only those may use
    by_broker: bool = False  # it takes what the broker delivers

    def serves(self, tenant_id: int, type_code: str, agent_id: str | None) -> bool:
        """Whether it may get such a task: one assigned to an agent is claimed by it, never delivered by the broker."""
        return (
            (self.types is None or type_code in self.types)
            and self.tenant_id in (None, tenant_id)
            and (not agent_id or (agent_id == self.agent_id and not self.by_broker))
        )

    def name_for(self, tenant_id: int | None) -> str:
        """Its name as a tenant sees it (None: as operators do)."""
        return name_for(tenant_id, self.name, self.worker_id, self.tenant_id)

    def holds(self, worker_id: int | None, type_code: str) -> bool:
        """Whether an execution of this worker and type is in one of the slots."""
        return worker_id == self.worker_id and (self.types is None or type_code in self.types)


def live_pools(db: Db) -> list[WorkerPool]:
    """The pools of all workers and agents whose lease has not run out."""
    return pools_in(ask_pools(db).rows())


def ask_pools(db: Db) -> PendingRows:
    """Ask for `live_pools` without waiting for the answer, which `pools_in` reads."""
    return db.send(LIVE_WORKERS)


def pools_in(rows: Iterable[Row]) -> list[WorkerPool]:
    return [pool for row in rows for pool in _pools_of(record_of(row))]


def _pools_of(worker: WorkerRecord) -> list[WorkerPool]:
    detail = json.loads(worker.detail or "{}")
    whole = WorkerPool(
        worker.id, worker.name, worker.agent_id, worker.tenant_id,
        types=None if worker.types is None else frozenset(worker.types),
        slots=None,
        stuck=worker.stuck,
        asked_at=worker.asked_at,
        awaited=frozenset(detail.get("awaited", ())),
        lent=detail.get("lent", 0),
        by_broker=detail.get(BY_BROKER) is True,
    )  # fmt: skip
    pools = detail.get("pools", [])
    return [whole._replace(types=frozenset(pool["types"]), slots=pool["slots"]) for pool in pools] or [whole]
