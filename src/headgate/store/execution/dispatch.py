"""The dispatcher: the one process at a time that hands queued tasks to the broker, and what it has handed over."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from headgate.core.dispatch import budgets
from headgate.core.queues import Pair, queue_name, queues_of, routes
from headgate.core.task import Execution
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import pairs_of
from headgate.store.claim.contract import Claimed, ClaimRequest, Claims, execution_of
from headgate.store.db.columns import CLAIMED
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.deferred import settled
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement, clock, moment
from headgate.store.execution.agents import ONE_AT_A_TIME
from headgate.store.execution.workers import DISPATCHER, register
from headgate.store.reading.pools import WorkerPool, live_pools

_NAMED = "name = :name AND agent_id IS NULL AND NOT lost"
END_OLD = Statement(f"UPDATE headgate_worker SET lost = true WHERE {_NAMED} AND lease_until <= {{now}}")
LEADER = Statement(f"SELECT id FROM headgate_worker WHERE {_NAMED} AND lease_until > {{now}} LIMIT 1")
# A dispatcher that was lost may still have tasks in the broker, until the reaper has been there.
HELD = Statement(
    f"""
    SELECT held.*, coalesce(w.name = :name AND w.agent_id IS NULL, false)
      FROM (SELECT worker_id, type, count(*) FROM headgate_task WHERE status IN {HELD_STATES} GROUP BY worker_id, type)
           AS held
      LEFT JOIN headgate_worker w ON w.id = held.worker_id
    """
)
UNSTARTED = Statement(
    f"""
    SELECT {", ".join(CLAIMED)}, create_date FROM headgate_task
     WHERE status IN {HELD_STATES} AND status = 'scheduling' AND worker_id = :worker_id
    """
)
_STREAM = CLAIMED.index("stream_id")
STALLED = Statement(
    f"""
    SELECT 1 FROM headgate_task t JOIN headgate_worker w ON w.id = t.worker_id AND w.name = :name
     WHERE t.status IN {HELD_STATES} AND t.status = 'scheduling' AND t.type {{in types text}}
       AND t.scheduling_time < {{now - :seconds}} LIMIT 1
    """
)
SUBMITTED_AT = Statement("SELECT id, create_date FROM headgate_task WHERE id {in ids}")


class Handover(NamedTuple):
    """A task that is handed to the broker, and what its message says besides."""

    execution: Execution
    submitted_at: datetime
    queue: str

    @property
    def exec_id(self) -> str:
        return self.execution.exec_id


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What may be handed over now; `busy` and `token_in` as for a claim."""

    handovers: list[Handover]
    busy: bool = False
    token_in: float | None = None


class Dispatch(Noun):
    """Who dispatches, and which tasks are in the broker: those that are `scheduling` under the dispatcher's row."""

    def __init__(self, database: Database, catalog: Catalog, claims: Claims) -> None:
        super().__init__(database)
        self._catalog = catalog
        self._claims = claims
        self._routes: tuple[int, dict[Pair, str]] = (-1, {})  # of a version of the catalog

    @writes
    def lead(self, db: Db, lease_seconds: float, detail: str | None = None) -> int | None:
        """Become the dispatcher: the id of its row, to be kept by `Workers.beat`; None while another one is alive.

        Whatever an earlier one still holds goes back to its queue by the reaper, like the tasks of any lost worker.
        """
        db.rows(ONE_AT_A_TIME)
        db.send(END_OLD, name=DISPATCHER)
        if db.rows(LEADER, name=DISPATCHER):
            return None
        return register(db, DISPATCHER, [], lease_seconds, None, None, detail)

    @reads
    def is_live(self, db: Db) -> bool:
        """Whether a dispatcher is alive: without one, workers claim from the store."""
        return bool(db.rows(LEADER, name=DISPATCHER))

    @writes
    def take(self, db: Db, worker_id: int) -> Dispatched:
        """Claim for the broker, as `scheduling`: only what live consumers serve, and no more than their free slots."""
        pools = _consumers(db)
        held = db.rows(HELD, name=DISPATCHER) if pools else []
        claims = []
        for types, free in budgets(_free_slots(pools, held), _in_broker(held)):
            request = ClaimRequest(worker_id, free, types=types, confirm=True)
            claims.append(settled(self._claims.take_in(db, request)))
        executions = [execution for claimed in claims for execution in claimed.executions]
        times: dict[int, Any] = dict(db.rows(SUBMITTED_AT, ids=[each.id for each in executions])) if executions else {}
        return Dispatched(
            self._handovers((each, times[each.id]) for each in executions),
            any(claimed.busy for claimed in claims),
            _first_token(claims),
        )

    @reads
    def unstarted(self, db: Db, worker_id: int) -> list[Handover]:
        """The tasks that a dispatcher handed over and that have not started, ordered by id."""
        catalog = self._catalog.fresh(db)
        rows = sorted(db.rows(UNSTARTED, worker_id=worker_id), key=itemgetter(0))
        known = (row for row in rows if row[_STREAM] in catalog.streams)  # another one gets a stream again at once
        return self._handovers((execution_of(row[:-1], catalog), row[-1]) for row in known)

    @reads
    def is_stalled(self, db: Db, types: frozenset[str], seconds: float) -> bool:
        """Whether a task of these types has been in the broker for longer than that."""
        return bool(db.rows(STALLED, name=DISPATCHER, types=sorted(types), seconds=seconds))

    @reads
    def served_types(self, db: Db) -> frozenset[str]:
        """The types that live consumers of the broker serve."""
        return frozenset(type_code for pool in _consumers(db) for type_code in pool.types or ())

    @reads
    def types_with_room(self, db: Db) -> frozenset[str]:
        """The types for which a live consumer of the broker has a free slot, whatever is on its way there."""
        free = _free_slots(_consumers(db), db.rows(HELD, name=DISPATCHER))
        return frozenset(type_code for types, slots in free if slots > 0 for type_code in types)

    @reads
    def queues(self, db: Db, types: frozenset[str]) -> list[str]:
        """The names of the queues that tasks of these types go through: their own lanes', and those seen so far."""
        catalog = self._catalog.fresh(db)
        own = {queue_name(catalog.type(code).lane, code) for code in types}
        return sorted(own | queues_of(types, self._queues()))

    def _queues(self) -> dict[Pair, str]:
        """The queue of each lane and type, as far as the catalog is known."""
        version, found = self._routes
        if version != (now := self._catalog.version):
            found = routes(pairs_of(self._catalog.streams))
            self._routes = now, found
        return found

    def _handovers(self, executions: Iterable[tuple[Execution, datetime | int]]) -> list[Handover]:
        queues = self._queues()
        return [Handover(each, moment(at), queues[each.lane, each.type]) for each, at in executions]


def _consumers(db: Db) -> list[WorkerPool]:
    return [pool for pool in live_pools(db, clock(db)) if pool.by_broker and not pool.stuck]


def _free_slots(pools: list[WorkerPool], held: list[Row]) -> list[tuple[frozenset[str], int]]:
    def taken(pool: WorkerPool) -> int:
        return sum(count for holder, type_code, count, _ in held if pool.holds(holder, type_code))

    return [(pool.types or frozenset(), (pool.slots or 0) - taken(pool)) for pool in pools]


def _in_broker(held: list[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, type_code, count, is_dispatchers in held:
        if is_dispatchers:
            found[type_code] += count
    return found


def _first_token(claims: list[Claimed]) -> float | None:
    return min((claimed.token_in for claimed in claims if claimed.token_in is not None), default=None)
