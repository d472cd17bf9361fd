"""The claim on PostgreSQL: lock first, read after, never wait.

Under READ COMMITTED a statement's snapshot is older than the lock it takes, so a limit is locked in one statement and
what it limits is counted in a later one. A claim takes every lock with SKIP LOCKED (or a try), so it never waits and
cannot deadlock: what another transaction holds is `busy`, not empty.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from headgate.core.choice import Choice, choose
from headgate.core.turns import Turns
from headgate.environment import new_ids
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.version import VERSION
from headgate.store.claim.agent_starts import note_starts
from headgate.store.claim.contract import (
    LIVE_WORKER,
    Claimed,
    ClaimRequest,
    Claims,
    earlier_answer,
    execution_of,
    held_by,
    keep_answer,
    require_live,
    take_rows,
)
from headgate.store.claim.cursors import Cursors
from headgate.store.claim.heads import Heads, held_up
from headgate.store.claim.limits import Limits
from headgate.store.claim.visits import Visit, worth_a_visit
from headgate.store.db.columns import CLAIMED, listed
from headgate.store.db.database import Database
from headgate.store.db.deferred import Deferred
from headgate.store.db.indexes import LINE_STATES
from headgate.store.db.statement import SPACE, Db, Statement, moment
from headgate.store.tasks.mutex_queue import stripe

_LOCKED = "FOR NO KEY UPDATE SKIP LOCKED"
TRY_STRIPES = Statement(
    postgres=f"SELECT s FROM unnest(:stripes::int[]) AS s WHERE pg_try_advisory_xact_lock({SPACE}, s)"
)
# A lookup per task, not NOT EXISTS, which the planner may turn into one scan of the whole table.
_FREE = f"""
    (t.mutex IS NULL OR (
        SELECT h.id FROM headgate_task h WHERE h.tenant_id = t.tenant_id AND h.mutex = t.mutex AND h.exec_id IS NOT NULL
         LIMIT 1) IS NULL
    AND (
        SELECT h.id FROM headgate_task h WHERE h.tenant_id = t.tenant_id AND h.mutex = t.mutex AND h.status = :waiting
           AND h.status IN {LINE_STATES} AND h.scheduling_time IS NOT NULL
           AND coalesce(h.root_id, h.id) <> coalesce(t.root_id, t.id)
         LIMIT 1) IS NULL)
"""


_AT = "width_bucket(t.id, :id::bigint[])"
_TAKEN = listed(CLAIMED, "t.{name}").replace("t.exec_id", "t.exec_id::text")  # which is quicker read than a uuid


def _take(mine: str, ids: str, condition: str) -> Statement:
    """No join: one planned for a small table walks the whole primary key of a large one."""
    return Statement(
        postgres=f"""
        WITH {mine} number AS MATERIALIZED (SELECT nextval('headgate_claim_no') AS claim_no), taken AS (
            UPDATE headgate_task t
               SET status = :after, exec_id = (:exec_id::uuid[])[{_AT}], uses = (:uses::text[])[{_AT}],
                   attempt = t.attempt + 1, worker_id = :worker_id, claim_no = (SELECT claim_no FROM number),
                   scheduling_time = {{now}}, started_at = CASE WHEN :after = 'running' THEN {{now}} END,
                   executing_deadline = {{now + coalesce(t.timeout_seconds, (:timeout::float8[])[{_AT}])}},
                   update_date = {{now}}, seq = t.seq + 1
             WHERE t.id = ANY({ids}) AND t.status = :before {condition}
            RETURNING {_TAKEN}, CASE WHEN :after = 'scheduling' THEN t.create_date END AS submitted_at,
                      t.seq, t.claim_no
        ), noted AS (
            INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)
            SELECT id, tenant_id, seq, {{now}}, :kind, :before, status, :actor, exec_id::uuid FROM taken
        )
        SELECT * FROM taken
        """
    )


# Rows that are locked already are updated at once. Heads read without a lock are locked here, without waiting.
TAKE_LOCKED = _take("", ":id::bigint[]", "")
TAKE = _take(
    f"""
    mine AS MATERIALIZED (
        SELECT t.id FROM unnest(:id::bigint[]) AS o(id)
          CROSS JOIN LATERAL (SELECT t.id FROM headgate_task t WHERE t.id = o.id AND t.status = :before {_LOCKED}) t),
    """,
    "ARRAY(SELECT id FROM mine)",
    f"AND {_FREE}",
)
# A head that another claim has locked is left alone; if it is still a head when it is chosen, it goes back then.
SEND_BACK = Statement(
    postgres=f"""
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM unnest(:tenants::bigint[], :mutexes::text[]) AS k(tenant_id, mutex)
          CROSS JOIN LATERAL (SELECT id FROM headgate_task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                                 AND t.status = :queued AND t.status IN {LINE_STATES}
                                 FOR NO KEY UPDATE SKIP LOCKED) t
         WHERE (SELECT h.id FROM headgate_task h WHERE h.tenant_id = k.tenant_id AND h.mutex = k.mutex
                   AND h.exec_id IS NOT NULL LIMIT 1) IS NOT NULL
    ), changed AS (
        UPDATE headgate_task t SET status = 'blocked', update_date = {{now}}, seq = t.seq + 1
         WHERE t.id = ANY(ARRAY(SELECT id FROM mine))
        RETURNING t.id, t.tenant_id, t.seq
    )
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor)
    SELECT id, tenant_id, seq, {{now}}, 'sent_back', 'queued', 'blocked', :actor FROM changed
    """
)


class PostgresClaims(Claims):
    """Claims on PostgreSQL."""

    def __init__(self, database: Database, catalog: Catalog, cursors: Cursors) -> None:
        super().__init__(database)
        self._catalog = catalog
        self._cursors = cursors

    @property
    def turns(self) -> Turns:
        return self._cursors.turns

    def take_in(
        self, db: Db, request: ClaimRequest, allowed: Callable[[], int] | None = None
    ) -> Claimed | Deferred[Claimed]:
        catalog, cursors = self._catalog, self._cursors
        alive = db.send(LIVE_WORKER, worker_id=request.worker_id)
        version = db.send(VERSION)
        visit = worth_a_visit(db, catalog, request, cursors)
        streams = visit.streams
        limits = Limits.of(catalog, streams, request)
        heads = Heads(db, catalog, request, cursors, limits)
        limits.ask(db, cursors)
        heads.ask_free(streams)
        require_live(alive.rows(), request.worker_id)
        if not alive.rows()[0][0]:  # a limit or a pause is just being edited
            return Claimed([], busy=True)
        if version.rows()[0][0] != catalog.version:  # the request was made with an outdated catalog
            catalog.refresh(db)
            cursors.forget()
            return self.take_in(db, request, allowed)
        if (before := earlier_answer(db, catalog, request)) is not None:
            return before
        if allowed is not None:
            if (most := allowed()) < 1:
                return Claimed([])
            request = heads.request = replace(request, limit=most)
        limits.learn(db, cursors)
        if held := held_by(limits.pauses, streams):
            streams = [stream for stream in streams if stream.id not in held]
            cursors.shut(held)
        heads.read(streams)
        choice = choose(heads.candidates, limits.room, request.limit, cursors.turns, catalog.weights, limits.asked)
        heads.remember(choice, streams)
        self._lock_queues(db, choice, limits)
        if not choice.chosen:
            start_in = min([*limits.waits.values(), *held_up(catalog, request, cursors)], default=None)
            token_in = visit.token_in(False, cursors.next_token_in(catalog, request))
            return Claimed([], limits.busy, token_in, start_in)
        return self._take_chosen(db, request, visit, limits, choice)

    def _lock_queues(self, db: Db, choice: Choice, limits: Limits) -> None:
        """Drop tasks from the choice whose mutex queue another transaction is changing."""
        keyed = {c: stripe((c.tenant_id, c.mutex)) for c in choice.chosen if c.mutex is not None}
        if not keyed:
            return
        ours = {row[0] for row in db.rows(TRY_STRIPES, stripes=sorted(set(keyed.values())))}
        for candidate, number in keyed.items():
            if number not in ours:
                choice.drop(candidate)
                limits.busy = True
                self._cursors.woken({candidate.stream_id: (candidate.priority, candidate.id)})

    def _take_chosen(
        self, db: Db, request: ClaimRequest, visit: Visit, limits: Limits, choice: Choice
    ) -> Deferred[Claimed]:
        catalog, cursors = self._catalog, self._cursors
        keys = sorted({(c.tenant_id, c.mutex) for c in choice.chosen if c.mutex is not None})
        unlocked = any(limits.guards(catalog.streams[c.stream_id], catalog) for c in choice.chosen)
        wanted = take_rows(choice, new_ids(len(choice.chosen)), catalog)
        answer = db.each(
            TAKE if keys or unlocked else TAKE_LOCKED,
            ("id", "exec_id", "timeout", "uses"),
            wanted,
            before="queued",
            waiting="waiting",
            after="scheduling" if request.confirm else "running",
            kind="scheduled" if request.confirm else "started",
            worker_id=request.worker_id,
            actor=f"worker:{request.worker_id}",
        )
        if keys:
            tenants, mutexes = [tenant_id for tenant_id, _ in keys], [mutex for _, mutex in keys]
            db.send(SEND_BACK, tenants=tenants, mutexes=mutexes, queued="queued", actor="system:line")
        limits.take_tokens(db, choice)
        note_starts(db, choice, wanted, request.start_seconds)
        if request.claim_id is not None:
            taken_ids = {row[0] for row in answer.rows()}
            keep_answer(db, request, [(task_id, exec_id) for task_id, exec_id, *_ in wanted if task_id in taken_ids])

        def finish() -> Claimed:
            taken = {row[0]: row for row in answer.rows()}
            left = [candidate for candidate in choice.chosen if candidate.id not in taken]
            for candidate in left:  # another transaction has locked them
                cursors.woken({candidate.stream_id: (candidate.priority, candidate.id)})
            rows = [taken[candidate.id] for candidate in choice.chosen if candidate.id in taken]
            cursors.use_turns(choice.turns_of(row[0] for row in rows))
            if rows:
                _remember_started(choice, limits, cursors, taken.keys(), claim_no=rows[0][-1])
            executions = [execution_of(row[:-3], catalog) for row in rows]
            submitted_at = [moment(row[-3]) for row in rows] if request.confirm else []
            busy = limits.busy or bool(left)
            enough = len(executions) == request.limit
            token_in = visit.token_in(enough, cursors.next_token_in(catalog, request))
            return Claimed(executions, busy, token_in, submitted_at=submitted_at)

        return Deferred(finish)


def _remember_started(
    choice: Choice, limits: Limits, cursors: Cursors, taken: Collection[int], *, claim_no: int
) -> None:
    for gate in limits.room:
        ids = [candidate.id for candidate in choice.chosen if gate in candidate.gates and candidate.id in taken]
        if ids and gate.startswith(("lane ", "resource ")):
            cursors.started(gate, ids, claim_no)
