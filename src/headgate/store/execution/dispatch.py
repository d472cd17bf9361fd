"""The dispatcher: the one process at a time that hands queued tasks to the broker, and what it has handed over."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import NamedTuple

from headgate.core.dispatch import Budget, budgets
from headgate.core.queues import Pair, queue_name, queues_of, routes
from headgate.core.task import Execution
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import pairs_of
from headgate.store.claim.contract import Claimed, ClaimRequest, Claims, execution_of
from headgate.store.db.columns import CLAIMED
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.deferred import Deferred, settled
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Statement, moment
from headgate.store.execution.agents import ONE_AT_A_TIME
from headgate.store.execution.workers import DISPATCHER, register
from headgate.store.reading.pools import WorkerPool, ask_pools, pools_in

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
    """What may be handed over now; `busy` and `token_in` as for a claim.

    `slots_left`: all consumers have free slots even so, which means that nothing more waits for one.
    """

    handovers: list[Handover]
    busy: bool = False
    token_in: float | None = None
    slots_left: bool = False


class Dispatch(Noun):
    """Who dispatches, and which tasks are in the broker: those that are `scheduling` under the dispatcher's row."""

    def __init__(self, database: Database, catalog: Catalog, claims: Claims) -> None:
        super().__init__(database)
        self._catalog = catalog
        self._claims = claims
        self._routes: tuple[int, dict[Pair, str]] = (-1, {})  # of a version of the catalog
        self._spare: Budget | None = None  # what the last claim left free, and the next one may expect

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
    def take(self, db: Db, worker_id: int) -> Dispatched | Deferred[Dispatched]:
        """Claim for the broker, as `scheduling`: only what live consumers serve, and no more than their free slots."""
        load, claims = _Load(db), dict[frozenset[str], Claimed | Deferred[Claimed]]()
        for types, expected in self._budgets(load):
            claims = {each: settled(claimed) for each, claimed in claims.items()}
            request = ClaimRequest(worker_id, expected, types=types, confirm=True)
            claims[types] = self._claims.take_in(db, request, partial(load.free, types))
        return Deferred(lambda: self._dispatched(load, {each: settled(claimed) for each, claimed in claims.items()}))

    def _budgets(self, load: "_Load") -> Iterator[Budget]:
        """What to claim for. First, as a guess, what the last claim left free: so the heads of the queues are asked for
        together with how much is free now."""
        expected = self._spare
        if expected is not None:
            yield expected
        yield from (each for each in load.budgets if expected is None or each.types != expected.types)

    def _dispatched(self, load: "_Load", claims: Mapping[frozenset[str], Claimed]) -> Dispatched:
        left = [Budget(types, load.free(types) - len(claimed.executions)) for types, claimed in claims.items()]
        self._spare = max((each for each in left if each.free > 0), key=attrgetter("free"), default=None)
        taken = claims.values()
        found = [pair for each in taken for pair in zip(each.executions, each.submitted_at, strict=True)]
        return Dispatched(
            self._handovers(found),
            any(each.busy for each in taken),
            min((each.token_in for each in taken if each.token_in is not None), default=None),
            all(each.free > 0 for each in left),
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
        return frozenset(type_code for pool in _Load(db).consumers for type_code in pool.types or ())

    @reads
    def types_with_room(self, db: Db) -> frozenset[str]:
        """The types for which a live consumer of the broker has a free slot, whatever is on its way there."""
        return frozenset(type_code for types, free in _Load(db).slots if free > 0 for type_code in types)

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


class _Load:
    """The slots of live consumers of the broker, and what is in them: asked for at once, read when it is needed."""

    def __init__(self, db: Db) -> None:
        self._pools = ask_pools(db)
        self._held = db.send(HELD, name=DISPATCHER)

    @cached_property
    def consumers(self) -> list[WorkerPool]:
        return [pool for pool in pools_in(self._pools.rows()) if pool.by_broker and not pool.stuck]

    @cached_property
    def slots(self) -> list[tuple[frozenset[str], int]]:
        """The free slots of each, whatever is on its way there."""
        held = self._held.rows()

        def taken(pool: WorkerPool) -> int:
            return sum(count for holder, type_code, count, _ in held if pool.holds(holder, type_code))

        return [(pool.types or frozenset(), (pool.slots or 0) - taken(pool)) for pool in self.consumers]

    @cached_property
    def budgets(self) -> list[Budget]:
        in_broker: Counter[str] = Counter()
        for _, type_code, count, is_dispatchers in self._held.rows():
            if is_dispatchers:
                in_broker[type_code] += count
        return budgets(self.slots, in_broker)

    def free(self, types: frozenset[str]) -> int:
        """How much may be claimed for consumers that serve these types."""
        return next((each.free for each in self.budgets if each.types == types), 0)
