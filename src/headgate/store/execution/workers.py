"""Workers and agents: their lease, and what is asked of the tasks they hold."""

import json
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import datetime

from headgate.core.errors import Invalid, WorkerLost
from headgate.core.task import check_name
from headgate.store.db.database import Database
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement, moment
from headgate.store.events.audit import record_system
from headgate.store.execution.revoke import REAPER, UNLEASED
from headgate.store.wakeup.wakeups import Wakeups

OWN_NAMES = "headgate:"  # how the names of the engine's own rows begin
DISPATCHER = f"{OWN_NAMES}dispatcher"  # the row under which tasks are handed to the broker
BY_BROKER = "broker"  # a worker that says so in its detail takes what the broker delivers
BEAT_SHARE = 0.5  # of a lease: a beat that takes longer has failed, and there is time for another


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """An executor of tasks, under a lease."""

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
    asked_at: datetime | None = None  # when an agent last asked for work; None: not known
    running: int = 0
    stuck: tuple[int, ...] = ()  # tasks whose handlers do not stop; it claims nothing until they do

    @property
    def kind(self) -> str:
        """`worker`, `agent`, or `dispatcher`, which executes nothing itself."""
        if self.agent_id is not None:
            return "agent"
        return "dispatcher" if self.name == DISPATCHER else "worker"

    @property
    def has_lease(self) -> bool:
        """Whether it keeps its tasks by its lease; an agent that asked for none keeps them until their deadlines."""
        return self.agent_id is None or self.detail != UNLEASED


def stuck_tasks(detail: str | None) -> tuple[int, ...]:
    """The tasks of which a worker said at its last beat that their handlers do not stop."""
    return tuple(json.loads(detail).get("stuck", ())) if detail else ()


REGISTER = Statement(
    """
    INSERT INTO headgate_worker (name, agent_id, tenant_id, types, lease_seconds, lease_until, started_at, detail)
    VALUES (:name, :agent_id, :tenant_id, :types, :lease, {now + :lease}, {now}, :detail)
    RETURNING id
    """
)
BEAT = Statement(
    """
    UPDATE headgate_worker
       SET lease_until = {now + lease_seconds}, detail = coalesce(:detail, detail),
           asked_at = CASE WHEN :asks THEN {now} ELSE asked_at END
     WHERE id = :worker_id AND NOT lost RETURNING id
    """
)
REQUESTS = Statement(
    """
    SELECT id, exec_id, cancel_requested, pause_requested FROM headgate_task
     WHERE id {in held} AND worker_id = :worker_id AND (cancel_requested OR pause_requested)
    """
)
OWNED = Statement(
    "SELECT exec_id FROM headgate_task WHERE id {in held} AND worker_id = :worker_id AND exec_id IS NOT NULL"
)
HELD_BY_TENANT = Statement(
    "SELECT id FROM headgate_task WHERE id {in ids} AND tenant_id = :tenant_id AND exec_id IS NOT NULL ORDER BY id"
)
LEAVE = Statement("UPDATE headgate_worker SET lost = true, lease_until = {now} WHERE id = :worker_id")
MARK_LOST = Statement(
    """
    UPDATE headgate_worker SET lost = true WHERE id = :worker_id AND NOT lost AND lease_until = :lease_until
    RETURNING name
    """
)
_COLUMNS = tuple(field.name for field in fields(WorkerRecord) if field.name not in ("running", "stuck"))
WORKERS = Statement(f"SELECT {', '.join(_COLUMNS)} FROM headgate_worker WHERE NOT lost OR :all ORDER BY id")
LIVE_WORKERS = Statement(
    f"SELECT {', '.join(_COLUMNS)} FROM headgate_worker WHERE NOT lost AND lease_until >= {{now}} ORDER BY id"
)
LOADS = Statement(f"SELECT worker_id, count(*) FROM headgate_task WHERE status IN {HELD_STATES} GROUP BY worker_id")
LOADS_OF_TENANT = Statement(
    f"""
    SELECT worker_id, count(*) FROM headgate_task
     WHERE status IN {HELD_STATES} AND tenant_id = :tenant_id GROUP BY worker_id
    """
)
LOST_HOLDERS = Statement(
    f"""
    SELECT DISTINCT w.id FROM headgate_worker w
      JOIN headgate_task t ON t.worker_id = w.id AND t.status IN {HELD_STATES}
     WHERE w.lost
    """
)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one running task."""

    task_id: int
    exec_id: str
    cancel: bool
    pause: bool


class Workers:
    """All executors, agents too: each has a row with a lease."""

    def __init__(self, database: Database, wakeups: Wakeups) -> None:
        self._database = database
        self._wakeups = wakeups
        self._beat_seconds: dict[int, float] = {}

    def register(
        self,
        name: str,
        *,
        types: Collection[str] | None = None,
        lease_seconds: float = 30.0,
        agent_id: str | None = None,
        tenant_id: int | None = None,
        detail: str | None = None,
    ) -> int:
        """A new worker, or agent, with a fresh lease; its id. `detail` is what it tells of itself, as for `beat`."""
        if name.startswith(OWN_NAMES):
            raise Invalid(f"worker {name}: names that begin with {OWN_NAMES} are reserved")
        worker_id = self._database.write(
            lambda db: register(db, name, types, lease_seconds, agent_id, tenant_id, detail)
        )
        self._wakeups.workers.add(worker_id)
        self._beat_seconds[worker_id] = BEAT_SHARE * lease_seconds
        return worker_id

    def beat(
        self, worker_id: int, held: Collection[int] = (), detail: str | None = None, *, asks: bool = False
    ) -> list[Request]:
        """Renew a worker's lease; what is asked of the tasks it holds. `WorkerLost`: stop everything, register anew.

        `detail` is what the worker tells of itself, as JSON; None leaves what it told before. An agent `asks` for work.
        """

        def beat(db: Db) -> list[Request]:
            if not db.rows(BEAT, worker_id=worker_id, detail=detail, asks=asks):
                raise WorkerLost.of("worker-lost", worker_id=worker_id)
            return _requests(db, worker_id, held)

        return self._database.write(beat, self._beat_seconds.get(worker_id))

    def requests(self, worker_id: int, held: Collection[int]) -> list[Request]:
        """What is asked of the tasks a worker holds."""
        return self._database.read(lambda db: _requests(db, worker_id, held))

    def owned(self, worker_id: int, held: Collection[int]) -> set[str]:
        """The exec_ids of the tasks `held` that are still this worker's; whatever else it runs must stop."""
        if not held:
            return set()
        rows = self._database.read(lambda db: db.rows(OWNED, worker_id=worker_id, held=list(held)))
        return {str(exec_id) for (exec_id,) in rows}

    def leave(self, worker_id: int) -> None:
        """Sign off a worker that holds nothing."""
        self._database.write(lambda db: db.rows(LEAVE, worker_id=worker_id))
        self._wakeups.workers.discard(worker_id)

    def all(self, *, lost_too: bool = False) -> list[WorkerRecord]:
        """Every worker and agent that was not declared lost, or those too."""
        return self._database.read(lambda db: workers(db, lost_too=lost_too))

    def seen_by(self, tenant_id: int | None, *, lost_too: bool = False) -> list[WorkerRecord]:
        """Those that serve a tenant (None: any), with the tenant's own tasks counted and named, and no others."""
        if tenant_id is None:
            return self.all(lost_too=lost_too)

        def see(db: Db) -> list[WorkerRecord]:
            seen = [each for each in workers(db, lost_too=lost_too) if each.tenant_id in (None, tenant_id)]
            own = held_by_tenant(db, [task_id for each in seen for task_id in each.stuck], tenant_id)
            loads: dict[int, int] = dict(db.rows(LOADS_OF_TENANT, tenant_id=tenant_id))
            return [_as_seen(each, tenant_id, own, loads.get(each.id, 0)) for each in seen]

        return self._database.read(see)

    def mark_lost(self, worker_id: int, lease_until: datetime) -> bool:
        """Declare a worker lost if its lease is still `lease_until`; False if it has beaten since.

        In its own transaction, before any of its tasks is touched: otherwise a beat that commits in between would leave
        a live worker without its tasks.
        """

        def mark(db: Db) -> bool:
            marked = db.rows(MARK_LOST, worker_id=worker_id, lease_until=lease_until)
            for (name,) in marked:
                record_system(db, "worker_lost", REAPER, json.dumps({"worker": worker_id, "name": name}))
            return bool(marked)

        return self._database.write(mark)

    def lost_holders(self) -> list[int]:
        """Lost workers that still hold tasks, so that an interrupted rescue can continue."""
        return self._database.read(lambda db: [row[0] for row in db.rows(LOST_HOLDERS)])


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
    stored_types = json.dumps(None if types is None else sorted(types))
    [[worker_id]] = db.rows(
        REGISTER, name=name, agent_id=agent_id, tenant_id=tenant_id, types=stored_types, lease=lease, detail=detail
    )
    return int(worker_id)


def held_by_tenant(db: Db, task_ids: Collection[int], tenant_id: int) -> list[int]:
    """Those of the tasks that are a tenant's and that somebody holds."""
    rows = db.rows(HELD_BY_TENANT, ids=list(task_ids), tenant_id=tenant_id) if task_ids else []
    return [task_id for (task_id,) in rows]


def name_for(tenant_id: int | None, name: str, worker_id: int, owner: int | None) -> str:
    """An executor's name as a tenant sees it (None: as operators do): of one that is not its own it sees the id."""
    return name if tenant_id in (None, owner) or name.startswith(OWN_NAMES) else str(worker_id)


def _as_seen(worker: WorkerRecord, tenant_id: int, own: Collection[int], running: int) -> WorkerRecord:
    """An executor as a tenant sees it: how loaded the machine is tells of other tenants."""
    stuck = tuple(task_id for task_id in worker.stuck if task_id in own)
    detail = worker.detail
    if worker.tenant_id is None and detail is not None:
        detail = json.dumps({name: value for name, value in json.loads(detail).items() if name in ("pools", BY_BROKER)})
    name = name_for(tenant_id, worker.name, worker.id, worker.tenant_id)
    return replace(worker, name=name, stuck=stuck, running=running, detail=detail)


def _requests(db: Db, worker_id: int, held: Collection[int]) -> list[Request]:
    rows = db.rows(REQUESTS, worker_id=worker_id, held=list(held)) if held else []
    return [Request(task_id, str(exec_id), bool(cancel), bool(pause)) for task_id, exec_id, cancel, pause in rows]


def workers(db: Db, *, lost_too: bool = False) -> list[WorkerRecord]:
    rows = db.rows(WORKERS, all=lost_too)
    loads: dict[int, int] = dict(db.rows(LOADS)) if rows else {}
    return [record_of(row, loads.get(row[0], 0)) for row in rows]


def record_of(row: Row, running: int = 0) -> WorkerRecord:
    """What a row of `WORKERS` or `LIVE_WORKERS` says of an executor."""
    values = dict(zip(_COLUMNS, row, strict=True))
    types = json.loads(values["types"])
    made = {
        "types": None if types is None else tuple(types),
        "lease_until": moment(values["lease_until"]),
        "lost": bool(values["lost"]),
        "started_at": moment(values["started_at"]),
        "stuck": stuck_tasks(values["detail"]),
        "asked_at": None if values["asked_at"] is None else moment(values["asked_at"]),
    }
    return WorkerRecord(**values | made, running=running)
