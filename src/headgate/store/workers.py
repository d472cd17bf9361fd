"""Workers and agents: their lease, and what is asked of the tasks they hold."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import WorkerLost
from headgate.core.task import check_name
from headgate.store.audit import record_system
from headgate.store.sql import Db, Statement, moment


@dataclass(frozen=True, slots=True)
class Worker:
    """Somebody who executes tasks, under a lease."""

    id: int
    name: str
    agent_id: str | None
    tenant_id: int | None
    types: tuple[str, ...] | None  # None: whatever comes
    lease_seconds: float
    lease_until: datetime
    lost: bool
    started_at: datetime
    detail: str | None = None  # JSON: what it said of itself at its last beat
    running: int = 0


REGISTER = Statement(
    """
    INSERT INTO headgate_worker (name, agent_id, tenant_id, types, lease_seconds, lease_until, started_at, detail)
    VALUES (:name, :agent_id, :tenant_id, :types, :lease, {now + :lease}, {now}, :detail)
    RETURNING id
    """
)
BEAT = Statement(
    """
    UPDATE headgate_worker SET lease_until = {now + lease_seconds}, detail = coalesce(:detail, detail)
     WHERE id = :worker_id AND NOT lost RETURNING id
    """
)
ASKED = Statement(
    """
    SELECT id, exec_id, cancel_requested, pause_requested FROM headgate_task
     WHERE id {in held} AND worker_id = :worker_id AND (cancel_requested OR pause_requested)
    """
)
OWNED = Statement(
    "SELECT exec_id FROM headgate_task WHERE id {in held} AND worker_id = :worker_id AND exec_id IS NOT NULL"
)
LEAVE = Statement("UPDATE headgate_worker SET lost = true, lease_until = {now} WHERE id = :worker_id")
MARK_LOST = Statement(
    """
    UPDATE headgate_worker SET lost = true WHERE id = :worker_id AND NOT lost AND lease_until = :lease_until
    RETURNING name
    """
)
WORKERS = Statement(
    """
    SELECT id, name, agent_id, tenant_id, types, lease_seconds, lease_until, lost, started_at, detail
      FROM headgate_worker
     WHERE NOT lost OR :all ORDER BY id
    """
)
LOADS = Statement(
    "SELECT worker_id, count(*) FROM headgate_task WHERE status IN ('scheduling', 'running') GROUP BY worker_id"
)
LOST_HOLDERS = Statement(
    """
    SELECT DISTINCT w.id FROM headgate_worker w
      JOIN headgate_task t ON t.worker_id = w.id AND t.status IN ('scheduling', 'running')
     WHERE w.lost
    """
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one running task."""

    task_id: int
    exec_id: str
    cancel: bool
    pause: bool


def register(
    db: Db,
    name: str,
    types: Collection[str] | None,
    lease: float,
    agent_id: str | None,
    tenant_id: int | None,
    detail: str | None = None,
) -> int:
    """A new worker with a fresh lease; its id."""
    check_name("worker", name)
    if agent_id is not None:
        check_name("agent_id", agent_id)
    for code in types or ():
        check_name("type", code)
    said = json.dumps(None if types is None else sorted(types))
    [[worker_id]] = db.rows(
        REGISTER, name=name, agent_id=agent_id, tenant_id=tenant_id, types=said, lease=lease, detail=detail
    )
    return int(worker_id)


def beat(db: Db, worker_id: int, held: Collection[int], detail: str | None) -> list[Asked]:
    """Renew the lease, once for all the worker's tasks; what is asked of them. `WorkerLost`: stop everything."""
    if not db.rows(BEAT, worker_id=worker_id, detail=detail):
        raise WorkerLost(f"worker {worker_id} was declared lost")
    return asked(db, worker_id, held)


def asked(db: Db, worker_id: int, held: Collection[int]) -> list[Asked]:
    rows = db.rows(ASKED, worker_id=worker_id, held=list(held)) if held else []
    return [Asked(task_id, str(exec_id), bool(cancel), bool(pause)) for task_id, exec_id, cancel, pause in rows]


def owned(db: Db, worker_id: int, held: Collection[int]) -> set[str]:
    """The exec_ids among what a worker believes to hold that still own their task."""
    return {str(exec_id) for (exec_id,) in db.rows(OWNED, worker_id=worker_id, held=list(held))} if held else set()


def leave(db: Db, worker_id: int) -> None:
    """The worker goes, holding nothing any more."""
    db.send(LEAVE, worker_id=worker_id)


def mark_lost(db: Db, worker_id: int, lease_until: datetime, actor: str) -> bool:
    """Declare a worker lost whose lease still is the one that was seen; False if it has beaten since.

    In a transaction of its own, before any of its tasks is touched: a beat that commits in between would otherwise
    leave a live worker robbed.
    """
    marked = db.rows(MARK_LOST, worker_id=worker_id, lease_until=lease_until)
    for (name,) in marked:
        record_system(db, "worker_lost", actor, json.dumps({"worker": worker_id, "name": name}))
    return bool(marked)


def workers(db: Db, *, lost_too: bool = False) -> list[Worker]:
    rows = db.rows(WORKERS, all=lost_too)
    loads: dict[int, int] = dict(db.rows(LOADS)) if rows else {}
    return [
        Worker(
            row[0], row[1], row[2], row[3], None if (types := json.loads(row[4])) is None else tuple(types), row[5],
            moment(row[6]), bool(row[7]), moment(row[8]), row[9], loads.get(row[0], 0),
        )
        for row in rows
    ]  # fmt: skip


def lost_holders(db: Db) -> list[int]:
    """Workers that were declared lost and still hold tasks: a rescue that was cut short goes on here."""
    return [row[0] for row in db.rows(LOST_HOLDERS)]
