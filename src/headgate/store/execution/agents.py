"""Remote agents: their rows and leases, the tasks they get and hold, and why they no longer hold one."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from headgate.core.errors import WorkerLost
from headgate.core.states import State
from headgate.core.task import Execution, Task, check_name
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import (
    READY_STREAMS,
    Claimed,
    ClaimRequest,
    Claims,
    earlier_answer,
    execution_of,
    keep_answer,
)
from headgate.store.db.columns import CLAIMED, listed
from headgate.store.db.database import Database
from headgate.store.db.deferred import settled
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import SPACE, Db, Statement
from headgate.store.execution.revoke import UNLEASED
from headgate.store.execution.workers import BY_BROKER, register


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The row under which an agent holds its tasks."""

    worker_id: int
    lease_seconds: float
    types: frozenset[str] | None  # None: whatever comes


@dataclass(frozen=True, slots=True)
class Holding:
    """A task that is being executed: the execution, what is requested of it, and who holds it."""

    execution: Execution
    cancel: bool
    pause: bool
    worker_id: int | None
    agent_id: str | None
    lease_seconds: float


# Two servers may sign on one agent at once: the second waits here, and finds the first one's row.
ONE_AT_A_TIME = Statement(sqlite="SELECT 1", postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -2)")
FIND = Statement(
    sqlite="""
    SELECT id, types FROM headgate_worker
     WHERE NOT lost AND agent_id = :agent_id AND name = :name AND tenant_id IS :tenant_id
     ORDER BY id DESC LIMIT 1
    """,
    postgres="""
    SELECT id, types FROM headgate_worker WHERE NOT lost AND agent_id = :agent_id AND name = :name
       AND tenant_id IS NOT DISTINCT FROM :tenant_id::bigint
     ORDER BY id DESC LIMIT 1
    """,
)
SET_TYPES = Statement("UPDATE headgate_worker SET types = :types WHERE id = :worker_id AND types <> :types")
SET_DETAIL = Statement("UPDATE headgate_worker SET detail = :detail WHERE id = :worker_id")
SET_LEASE = Statement(
    """
    UPDATE headgate_worker SET lease_seconds = :lease
     WHERE id {in ids} AND NOT lost AND (lease_seconds < :lease OR (lease_seconds > :lease AND NOT id {in holders}))
    """
)
RENEW = Statement(
    """
    UPDATE headgate_worker SET lease_until = {now + lease_seconds}, asked_at = {now}
     WHERE id {in ids} AND NOT lost RETURNING id, lease_seconds
    """
)
ASKED = Statement("UPDATE headgate_worker SET asked_at = {now} WHERE id = :worker_id")
OUTLIVE = Statement(
    """
    UPDATE headgate_worker SET lease_seconds = :lease, lease_until = {now + :lease}
     WHERE id = :worker_id AND NOT lost AND lease_seconds < :lease
    """
)
NOTE_UNLEASED = Statement(
    f"UPDATE headgate_worker SET detail = '{UNLEASED}' WHERE id = :worker_id AND detail IS NULL AND NOT lost"
)
# A claim under way locks its worker's row: a transaction that waits for it here then sees what it took.
LOCK = Statement(
    sqlite="SELECT 1", postgres="SELECT id FROM headgate_worker WHERE id {in ids} ORDER BY id FOR NO KEY UPDATE"
)
HOLDERS = Statement(f"SELECT DISTINCT worker_id FROM headgate_task WHERE status IN {HELD_STATES}")
_TAKEN = listed(CLAIMED, "t.{name}")
HOLDINGS = Statement(
    f"""
    SELECT {_TAKEN}, t.cancel_requested, t.pause_requested, t.worker_id, w.agent_id, coalesce(w.lease_seconds, 0)
      FROM headgate_task t LEFT JOIN headgate_worker w ON w.id = t.worker_id
     WHERE t.id {{in ids}} AND t.exec_id IS NOT NULL
    """
)
LAST_OF = Statement(
    """
    SELECT kind FROM headgate_task_event
     WHERE task_id = :id AND seq > 0 AND CAST(exec_id AS text) = :exec_id ORDER BY seq DESC LIMIT 1
    """
)


class Agents:
    """Agents, for the server that acts for them."""

    def __init__(self, database: Database, catalog: Catalog, claims: Claims) -> None:
        self._database = database
        self._catalog = catalog
        self._claims = claims

    def sign_on(
        self,
        agent_id: str,
        *,
        tenant_id: int | None,
        types: Collection[str] | None,
        lease_seconds: float,
        instance: str = "",
        detail: str | None = None,
    ) -> AgentRecord:
        """An agent's row with a fresh lease: its old one while that lives, on whichever server it was made.

        Each `instance` of an agent has a row of its own: one that comes back does not keep alive what it lost. The
        types it has asked for add up: an agent that asks for one after the other serves them all. `detail` is what it
        tells of itself, as JSON; None leaves what it told before.
        """
        check_name("agent_id", agent_id)
        for code in types or ():
            check_name("type", code)
        name = _name(agent_id, instance)

        def sign_on(db: Db) -> AgentRecord:
            db.rows(ONE_AT_A_TIME)
            for worker_id, stored_types in db.rows(FIND, agent_id=agent_id, name=name, tenant_id=tenant_id):
                known = json.loads(stored_types)
                all_types = None if known is None or types is None else sorted({*known, *types})
                db.send(SET_TYPES, worker_id=worker_id, types=json.dumps(all_types))
                if detail is not None:
                    db.send(SET_DETAIL, worker_id=worker_id, detail=detail)
                for lasts in _renew(db, [worker_id], lease_seconds).values():
                    return AgentRecord(worker_id, lasts, None if all_types is None else frozenset(all_types))
            worker_id = register(db, name, types, lease_seconds, agent_id, tenant_id, detail)
            db.send(ASKED, worker_id=worker_id)
            return AgentRecord(worker_id, lease_seconds, None if types is None else frozenset(types))

        return self._database.write(sign_on)

    def consume(
        self, agent_id: str, types: Collection[str], slots: int, *, lease_seconds: float, instance: str
    ) -> AgentRecord:
        """Let an agent take up to `slots` tasks at once from the broker, as long as its lease lives; 0: none for now.

        It belongs to no tenant: a queue of the broker holds the tasks of all tenants.
        """
        pools = {"pools": [{"types": sorted(types), "slots": slots}]} if slots else {}
        detail = json.dumps({BY_BROKER: slots > 0} | pools)
        return self.sign_on(
            agent_id, tenant_id=None, types=types, lease_seconds=lease_seconds, instance=instance, detail=detail
        )

    def consumer(self, agent_id: str, instance: str) -> int:
        """The row under which a process of an agent consumes; `WorkerLost` if it has none, or none that lives."""
        name = _name(agent_id, instance)
        found = self._database.read(lambda db: db.rows(FIND, agent_id=agent_id, name=name, tenant_id=None))
        if not found:
            raise WorkerLost.of("worker-lost", worker_id=name)
        return int(found[0][0])

    def renew(self, worker_ids: Collection[int], lease_seconds: float) -> dict[int, float]:
        """Renew the leases of agents that ask for work; returns the leases that still live.

        Sets their length to `lease_seconds`, but never shortens the lease of an agent that holds tasks.
        """
        return self._database.write(lambda db: _renew(db, worker_ids, lease_seconds))

    def hand_over(self, request: ClaimRequest, *, beyond_the_deadline: float | None = None) -> Claimed:
        """A claim for an agent: first tasks assigned to it, as `scheduling`, then tasks assigned to no agent.

        With `beyond_the_deadline` the agent asked for no lease: only its deadlines bind it, and its lease is made to
        outlive them by that many seconds.
        """

        def hand_over(db: Db) -> Claimed:
            claimed = self._claim(db, request)
            if beyond_the_deadline is not None and claimed.executions:
                longest = max(execution.timeout_seconds for execution in claimed.executions)
                db.send(NOTE_UNLEASED, worker_id=request.worker_id)
                db.send(OUTLIVE, worker_id=request.worker_id, lease=longest + beyond_the_deadline)
            return claimed

        return self._database.write(hand_over)

    def _claim(self, db: Db, request: ClaimRequest) -> Claimed:
        catalog, take = self._catalog.fresh(db), self._claims.take_in
        assigned, free = replace(request, assigned=True, confirm=True), replace(request, agent_id=None)
        if not any(assigned.serves(stream) for stream in catalog.streams.values()):
            return settled(take(db, free))
        if (before := earlier_answer(db, catalog, request)) is not None:
            return before
        mine = settled(take(db, replace(assigned, claim_id=None)))
        left = request.limit - len(mine.executions)
        rest = settled(take(db, replace(free, limit=left, claim_id=None))) if left else Claimed([])
        executions = [*mine.executions, *rest.executions]
        keep_answer(db, request, [(execution.id, execution.exec_id) for execution in executions])
        tokens = [each.token_in for each in (mine, rest) if each.token_in is not None]
        return Claimed(executions, mine.busy or rest.busy, min(tokens, default=None), mine.start_in)

    def ready_streams(self) -> list[Stream]:
        """The streams in which something waits for its gates."""

        def look(db: Db) -> list[Stream]:
            streams = self._catalog.fresh(db).streams
            return [streams[row[0]] for row in db.rows(READY_STREAMS) if row[0] in streams]

        return self._database.read(look)

    def stream(self, stream_id: int) -> Stream | None:
        """A stream as far as this process knows it."""
        return self._catalog.streams.get(stream_id)

    def holdings(self, ids: Sequence[int], tenant_id: int | None = None) -> dict[int, Holding]:
        """Those of the tasks that are being executed, by id; another tenant's are as absent as any."""

        def look(db: Db) -> dict[int, Holding]:
            catalog, found = self._catalog.fresh(db), {}
            for *row, cancel, pause, worker_id, agent_id, lease_seconds in db.rows(HOLDINGS, ids=list(ids)):
                execution = execution_of(tuple(row), catalog)
                if tenant_id in (None, execution.tenant_id):
                    asked = bool(cancel), bool(pause)
                    found[execution.id] = Holding(execution, *asked, worker_id, agent_id, lease_seconds)
            return found

        return self._database.read(look)

    def last_of(self, task_id: int, exec_id: str) -> str | None:
        """The kind of the last event of an execution; None if there was no such one."""
        found = self._database.read(lambda db: db.rows(LAST_OF, id=task_id, exec_id=exec_id))
        return str(found[0][0]) if found else None


def _name(agent_id: str, instance: str) -> str:
    return f"{agent_id} {instance}" if instance else agent_id


def _renew(db: Db, worker_ids: Collection[int], lease: float) -> dict[int, float]:
    ids = sorted(worker_ids)
    db.send(LOCK, ids=ids)
    holders = [row[0] for row in db.rows(HOLDERS) if row[0] is not None]
    db.send(SET_LEASE, ids=ids, holders=holders, lease=lease)
    return {row[0]: row[1] for row in db.rows(RENEW, ids=ids)}


def stale(task: Task, exec_id: str) -> Execution:
    """An execution that does not own its task any more, for the record of what it reported."""
    values = {name: getattr(task, name) for name in Execution._fields}
    return Execution(
        **values
        | {
            "exec_id": exec_id, "ext": "{}", "executing_deadline": task.update_date, "mutex": None, "parent_id": None,
            "root_id": None, "timeout_seconds": 0.0, "status": State.RUNNING,
        }
    )  # fmt: skip
