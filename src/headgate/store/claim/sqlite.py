"""The claim on SQLite: one writer at a time, so what is read stands until it is written."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from headgate.core.choice import Candidate, Choice, choose
from headgate.core.holds import Asked
from headgate.core.limits import Rate, bounded, next_token_at, take, tokens
from headgate.core.starts import start_gate
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.core.turns import Turns
from headgate.environment import new_ids
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.agent_starts import LAST_STARTS, note_starts, room_of, waits_of
from headgate.store.claim.contract import (
    FIRST,
    LANES_AND_PAUSES,
    LIVE_WORKER,
    SOME_READY_STREAMS,
    Claimed,
    ClaimRequest,
    Claims,
    ask_again,
    earlier_answer,
    first_share,
    has_room,
    held_by,
    keep_answer,
    lanes_and_pauses,
    require_live,
)
from headgate.store.claim.cursors import LOOK_AGAIN_SECONDS, Cursors
from headgate.store.claim.holds import free_resources
from headgate.store.claim.visits import MOST_STREAMS, Visit, worth_a_visit
from headgate.store.db.columns import OF_ROW
from headgate.store.db.database import Database
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Row, Statement, clock, moment
from headgate.store.tasks.mutex_queue import settle_queues

RATES = Statement("SELECT name, rate, burst, tat FROM headgate_rate_limit WHERE name {in names text}")
HELD_IN_LANE = Statement(f"SELECT count(*) FROM headgate_task WHERE lane = :lane AND status IN {HELD_STATES}")
# All that an execution is made of is read with the head: the update then needs no answer.
_HEAD = ", ".join((*OF_ROW, "attempt", "timeout_seconds", "create_date", "seq"))
_SUBMITTED_AT = -2
HEADS = Statement(
    sqlite=f"""
    SELECT {_HEAD} FROM headgate_task
     WHERE stream_id = :stream_id AND status = 'queued' AND (priority, id) > (:priority, :id)
     ORDER BY priority, id LIMIT :limit
    """
)
HEADS_OF_CREATOR = Statement(
    sqlite=f"""
    SELECT {_HEAD} FROM headgate_task INDEXED BY headgate_task_ready_creator
     WHERE stream_id = :stream_id AND creator <> 0 AND status = 'queued' AND creator = :creator
       AND (priority, id) > (:priority, :id)
     ORDER BY priority, id LIMIT :limit
    """
)
HEADS_OF_NOBODY = Statement(
    sqlite=f"""
    SELECT {_HEAD} FROM headgate_task
     WHERE stream_id = :stream_id AND status = 'queued' AND creator = 0 AND (priority, id) > (:priority, :id)
     ORDER BY priority, id LIMIT :limit
    """
)
# The plus signs keep the planner from reading a whole stream.
HEADS_BY_ID = Statement(
    sqlite=f"""
    SELECT {_HEAD} FROM headgate_task
     WHERE id {{in ids}} AND +stream_id = :stream_id AND +status = 'queued' AND (priority, id) > (:priority, :id)
     ORDER BY priority, id LIMIT :limit
    """
)
TAKE = Statement(
    sqlite="""
    UPDATE headgate_task
       SET status = :after, exec_id = :exec_id, uses = :uses, attempt = attempt + 1, worker_id = :worker_id,
           scheduling_time = :now,
           started_at = CASE WHEN :after = 'running' THEN :now END,
           executing_deadline = :deadline, update_date = :now, seq = seq + 1
     WHERE id = :id AND status = 'queued'
    """
)
SET_TAT = Statement("UPDATE headgate_rate_limit SET tat = :tat WHERE name = :name")


Buckets = dict[str, tuple[Rate, float]]  # by the name of the rate limit: what it allows, and its `tat`


class SqliteClaims(Claims):
    """Claims on SQLite."""

    def __init__(self, database: Database, catalog: Catalog, cursors: Cursors) -> None:
        super().__init__(database)
        self._catalog = catalog
        self._cursors = cursors

    @property
    def turns(self) -> Turns:
        return self._cursors.turns

    def take_in(self, db: Db, request: ClaimRequest, allowed: Callable[[], int] | None = None) -> Claimed:
        if allowed is not None:
            if (most := allowed()) < 1:
                return Claimed([])
            request = replace(request, limit=most)
        catalog, turns, now = self._catalog, self._cursors.turns, clock(db).timestamp()
        require_live(db.rows(LIVE_WORKER, worker_id=request.worker_id), request.worker_id)
        catalog.refresh(db)
        if (before := earlier_answer(db, catalog, request)) is not None:
            return before
        visit = self._visit(db, request)
        if not visit.streams:
            return Claimed([], token_in=visit.again_in)
        streams = visit.streams
        names = sorted({stream.lane for stream in streams})
        lanes, pauses = lanes_and_pauses(db.rows(LANES_AND_PAUSES, names=names))
        held = held_by(pauses, streams)
        streams = [stream for stream in streams if stream.id not in held]
        rates = {name for stream in streams for name in catalog.buckets(stream)}
        room, buckets = _room(db, {stream.lane for stream in streams}, lanes, rates, now)
        uses = {name for stream in streams for name in catalog.type(stream.type).uses}
        free, asked = free_resources(db, sorted(uses)) if uses else ({}, {})
        room |= free
        if full := [gate for gate, left in room.items() if not left and not gate.startswith("rate ")]:
            self._cursors.shut_for(dict.fromkeys(full, LOOK_AGAIN_SECONDS))
        starts, waits = _starts(db, request, streams)
        room |= starts
        open_streams = [stream for stream in streams if has_room(catalog.gates(stream), room)]
        heads, candidates = self._heads(db, request, open_streams, room, asked)
        if not request.skips_some:
            self._cursors.know_empty({stream.id for stream in open_streams} - {c.stream_id for c in candidates})
        choice = choose(candidates, room, request.limit, turns, catalog.weights, asked)
        executions = self._start(db, request, choice, heads, now)
        for name, (limit, tat) in buckets.items():
            if count := choice.taken.get(f"rate {name}"):
                db.send(SET_TAT, name=name, tat=take(limit, tat, now, count))
        taken = [(execution.id, execution.exec_id) for execution in executions]
        note_starts(db, choice, taken, request.start_seconds)
        settle_queues(db, [(c.tenant_id, c.mutex) for c in choice.chosen if c.mutex is not None])
        keep_answer(db, request, taken)
        self._cursors.use_turns(choice.turns_of(task_id for task_id, _ in taken))
        start_in = None if executions else min(waits.values(), default=None)
        token_in = self._next_token_in(streams, buckets, choice, now)
        opens = [wait for wait in (token_in, *held.values()) if wait is not None and wait < math.inf]
        token_in = visit.token_in(len(executions) == request.limit, *opens)
        submitted_at = [moment(heads[each.id][_SUBMITTED_AT]) for each in executions] if request.confirm else []
        return Claimed(executions, token_in=token_in, start_in=start_in, submitted_at=submitted_at)

    def _visit(self, db: Db, request: ClaimRequest) -> Visit:
        """The streams that have something queued; of too many, those that are worth a visit."""
        catalog = self._catalog
        ready = db.rows(SOME_READY_STREAMS, most=MOST_STREAMS + 1)
        if len(ready) > MOST_STREAMS:
            return worth_a_visit(db, catalog, request, self._cursors)
        known = [stream for (stream_id,) in ready if (stream := catalog.streams.get(stream_id)) is not None]
        return Visit([stream for stream in known if request.serves(stream)])

    def _heads(
        self, db: Db, request: ClaimRequest, streams: list[Stream], room: dict[str, int], asked: Asked
    ) -> tuple[dict[int, Row], list[Candidate]]:
        """The first of every open stream, a few at a time, until nothing unread could be chosen: by id, and judged."""
        by_id: dict[int, Row] = {}
        candidates: list[Candidate] = []
        heads = {None: HEADS, 0: HEADS_OF_NOBODY}.get(request.creator, HEADS_OF_CREATOR)
        ids = sorted(request.ids or ())
        if request.ids is not None:
            heads = HEADS_BY_ID
        share = first_share(request.limit, len(streams))
        floors = {stream.id: FIRST for stream in streams}
        while floors:
            for stream_id, (priority, task_id) in list(floors.items()):
                rows = db.rows(
                    heads, stream_id=stream_id, priority=priority, id=task_id, creator=request.creator, limit=share,
                    ids=ids,
                )  # fmt: skip
                stream = self._catalog.streams[stream_id]
                tenant_id, gates = stream.tenant_id, self._catalog.gates(stream)
                for row in rows:
                    task_id, priority, mutex = row[:3]
                    by_id[task_id] = row
                    candidates.append(Candidate(priority, task_id, stream_id, tenant_id, gates, mutex))
                floors[stream_id] = (priority, task_id)
                if len(rows) < share:
                    del floors[stream_id]
            again = ask_again(self._catalog, candidates, floors, room, asked, request.limit, self._cursors.turns)
            floors = {stream_id: floors[stream_id] for stream_id in again}
        return by_id, candidates

    def _start(
        self, db: Db, request: ClaimRequest, choice: Choice, heads: dict[int, Row], now: float
    ) -> list[Execution]:
        """Hand what was chosen to the worker, in this order."""
        status = State.SCHEDULING if request.confirm else State.RUNNING
        after, kind = status.value, "scheduled" if request.confirm else "started"
        executions, rows, events = [], [], []
        deadlines: dict[float, tuple[int, datetime]] = {}
        for chosen, exec_id in zip(choice.chosen, new_ids(len(choice.chosen)), strict=True):
            *own, tenant_id, type_code, attempt, timeout, _, seq = heads[chosen.id]
            stream = self._catalog.streams[chosen.stream_id]
            rules = self._catalog.type(type_code)
            timeout = rules.timeout_seconds if timeout is None else timeout
            if timeout not in deadlines:
                microsecond = round((now + timeout) * 1_000_000)
                deadlines[timeout] = microsecond, moment(microsecond)
            deadline, deadline_time = deadlines[timeout]
            rows.append((chosen.id, exec_id, deadline, ",".join(rules.uses) or None))
            events.append((chosen.id, tenant_id, seq + 1, kind, "queued", after, exec_id, None))
            executions.append(
                Execution._make(
                    (
                        *own, tenant_id, type_code, stream.lane, stream.category,
                        exec_id, attempt + 1, deadline_time, timeout, status,
                    )
                )
            )  # fmt: skip
        db.many(TAKE, ("id", "exec_id", "deadline", "uses"), rows, after=after, worker_id=request.worker_id)
        db.note(lambda: events, f"worker:{request.worker_id}")
        return executions

    def _next_token_in(self, streams: list[Stream], buckets: Buckets, choice: Choice, now: float) -> float | None:
        """Seconds until a stream that had tasks, and whose buckets are now empty, has tokens again."""
        if not buckets:
            return None
        empty = {}
        for name, (limit, tat) in buckets.items():
            after = take(limit, tat, now, choice.taken.get(f"rate {name}", 0))
            if not tokens(limit, after, now):
                empty[f"rate {name}"] = next_token_at(limit, after, now) - now
        waits = [[empty[gate] for gate in self._catalog.gates(stream) if gate in empty] for stream in streams]
        return min((max(each) for each in waits if each), default=None)


def _room(
    db: Db, names: set[str], lanes: dict[str, int | None], rates: set[str], now: float
) -> tuple[dict[str, int], Buckets]:
    """How much of every limited thing is left, and the buckets as they stand."""
    room: dict[str, int] = {}
    for name in names:
        if (capacity := lanes.get(name)) is not None:
            [[held]] = db.rows(HELD_IN_LANE, lane=name)
            room[f"lane {name}"] = max(capacity - held, 0)
    buckets = {}
    for name, rate, burst, tat in db.rows(RATES, names=sorted(rates)) if rates else ():
        limit = Rate(rate, burst)
        if tat > (bound := bounded(limit, tat, now)):
            db.send(SET_TAT, name=name, tat=bound)
        buckets[name] = limit, bound
    room |= {f"rate {name}": tokens(limit, tat, now) for name, (limit, tat) in buckets.items()}
    return room, buckets


def _starts(db: Db, request: ClaimRequest, streams: list[Stream]) -> tuple[dict[str, int], dict[str, float]]:
    """How many may leave the agent's start queue, where one stands before a stream; and those it holds up, how long."""
    gates = {start_gate(stream.tenant_id, stream.agent_id) for stream in streams if stream.agent_id}
    if not gates or request.agent_id is None:
        return {}, {}
    waits = waits_of(request.agent_id, db.rows(LAST_STARTS, agent_id=request.agent_id))
    return room_of(gates, waits, request.start_seconds), {gate: waits[gate] for gate in gates & waits.keys()}
