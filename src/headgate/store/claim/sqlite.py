"""The claim on SQLite: one writer at a time, so what is read stands until it is written."""

from datetime import datetime
from typing import NamedTuple

from headgate.core.gates import Candidate, Choice, choose
from headgate.core.limits import Rate, bounded, next_token_at, take, tokens
from headgate.core.starts import start_gate
from headgate.core.states import State
from headgate.core.task import EVERYTHING, Execution
from headgate.environment import new_ids
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.agent_starts import LAST_STARTS, note_starts, room_of, waits_of
from headgate.store.claim.contract import (
    FIRST,
    LIVE_WORKER,
    READY_STREAMS,
    TAKEN_COLUMNS,
    Claimed,
    ClaimRequest,
    ask_again,
    candidate_of,
    earlier_answer,
    first_share,
    has_room,
    keep_answer,
    require_live,
    timeout_of,
)
from headgate.store.claim.cursors import Cursors
from headgate.store.db.statement import Db, Statement, clock, moment
from headgate.store.tasks.mutex_queue import settle_queues

LANES = Statement("SELECT name, capacity, paused FROM headgate_lane")
RESOURCES = Statement("SELECT name, capacity FROM headgate_resource")
RATES = Statement("SELECT name, rate, burst, tat FROM headgate_rate_limit")
HELD_IN_LANE = Statement(
    "SELECT count(*) FROM headgate_task WHERE lane = :lane AND status IN ('scheduling', 'running')"
)
USING = Statement("SELECT uses FROM headgate_task WHERE uses IS NOT NULL AND status IN ('scheduling', 'running')")
# All that an execution is made of is read with the head: the update then needs no answer.
_HEAD = f"{TAKEN_COLUMNS}, stream_id, seq"
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


def claim(db: Db, catalog: Catalog, request: ClaimRequest, cursors: Cursors) -> Claimed:
    """Take what every gate lets through, in order, and hand it to the worker."""
    now, last_tenant = clock(db).timestamp(), cursors.last_tenant
    require_live(db.rows(LIVE_WORKER, worker_id=request.worker_id), request.worker_id)
    catalog.refresh(db)
    if (before := earlier_answer(db, catalog, request)) is not None:
        return before
    streams = [
        stream
        for (stream_id,) in db.rows(READY_STREAMS)
        if (stream := catalog.streams.get(stream_id)) is not None and request.serves(stream)
    ]
    if not streams:
        return Claimed([])
    lanes = {name: (capacity, paused) for name, capacity, paused in db.rows(LANES)}
    if lanes[EVERYTHING][1]:
        return Claimed([])
    room, buckets = _room(db, {stream.lane for stream in streams}, lanes, now)
    starts, waits = _starts(db, request, streams)
    room |= starts
    open_streams = [stream.id for stream in streams if has_room(catalog.gates(stream), room)]
    heads, candidates = _heads(db, catalog, request, open_streams, room, last_tenant)
    choice = choose(candidates, room, request.limit, last_tenant)
    executions = _start(db, catalog, request, [heads[candidate.id] for candidate in choice.chosen], now)
    for name, (limit, tat) in buckets.items():
        if count := choice.taken.get(f"rate {name}"):
            db.send(SET_TAT, name=name, tat=take(limit, tat, now, count))
    taken = [(execution.id, execution.exec_id) for execution in executions]
    note_starts(db, choice, taken, request.start_seconds)
    settle_queues(db, [(c.tenant_id, c.mutex) for c in choice.chosen if c.mutex is not None])
    keep_answer(db, request, taken)
    if executions:
        cursors.last_tenant = executions[-1].tenant_id
    start_in = None if executions else min(waits.values(), default=None)
    return Claimed(executions, token_in=_next_token_in(catalog, streams, buckets, choice, now), start_in=start_in)


def _next_token_in(
    catalog: Catalog, streams: list[Stream], buckets: dict[str, tuple[Rate, float]], choice: Choice, now: float
) -> float | None:
    """Seconds until a stream that had something, and whose buckets are empty by now, has tokens again."""
    if not buckets:
        return None
    empty = {}
    for name, (limit, tat) in buckets.items():
        after = take(limit, tat, now, choice.taken.get(f"rate {name}", 0))
        if not tokens(limit, after, now):
            empty[f"rate {name}"] = next_token_at(limit, after, now) - now
    waits = [[empty[gate] for gate in catalog.gates(stream) if gate in empty] for stream in streams]
    return min((max(each) for each in waits if each), default=None)


class _Head(NamedTuple):
    """The first of a stream, as it would be executed."""

    execution: Execution
    stream_id: int
    seq: int


def _start(db: Db, catalog: Catalog, request: ClaimRequest, heads: list[_Head], now: float) -> list[Execution]:
    """Hand these to the worker, in this order."""
    after = State.SCHEDULING if request.confirm else State.RUNNING
    kind = "scheduled" if request.confirm else "started"
    executions, rows, events = [], [], []
    deadlines: dict[float, tuple[int, datetime]] = {}
    for (head, _, seq), exec_id in zip(heads, new_ids(len(heads)), strict=True):
        rules = catalog.type(head.type)
        timeout = timeout_of(head.timeout_seconds, rules)
        if timeout not in deadlines:
            microsecond = round((now + timeout) * 1_000_000)
            deadlines[timeout] = microsecond, moment(microsecond)
        deadline, deadline_time = deadlines[timeout]
        rows.append((head.id, exec_id, deadline, ",".join(rules.uses) or None))
        events.append((head.id, head.tenant_id, seq + 1, kind, "queued", after.value, exec_id, None))
        executions.append(head.begun(exec_id, head.attempt + 1, deadline_time, timeout, after))
    db.many(TAKE, ("id", "exec_id", "deadline", "uses"), rows, after=after.value, worker_id=request.worker_id)
    db.note(lambda: events, f"worker:{request.worker_id}")
    return executions


def _room(
    db: Db, names: set[str], lanes: dict[str, tuple[int | None, bool]], now: float
) -> tuple[dict[str, int], dict[str, tuple[Rate, float]]]:
    """How much of every limited thing is left, and the buckets as they stand."""
    room: dict[str, int] = {}
    for name in names:
        capacity, paused = lanes.get(name, (None, False))
        if paused:
            room[f"lane {name}"] = 0
        elif capacity is not None:
            [[held]] = db.rows(HELD_IN_LANE, lane=name)
            room[f"lane {name}"] = max(capacity - held, 0)
    for name, capacity in db.rows(RESOURCES):
        room[f"resource {name}"] = capacity
    for (uses,) in db.rows(USING):
        for name in uses.split(","):
            room[f"resource {name}"] = max(room.get(f"resource {name}", 0) - 1, 0)
    buckets = {}
    for name, rate, burst, tat in db.rows(RATES):
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


def _heads(
    db: Db, catalog: Catalog, request: ClaimRequest, stream_ids: list[int], room: dict[str, int], last_tenant: int
) -> tuple[dict[int, _Head], list[Candidate]]:
    """The first of every open stream, a few at a time, until nothing unread could be chosen: by id, and judged."""
    by_id: dict[int, _Head] = {}
    candidates: list[Candidate] = []
    heads = {None: HEADS, 0: HEADS_OF_NOBODY}.get(request.creator, HEADS_OF_CREATOR)
    share = first_share(request.limit, len(stream_ids))
    floors = dict.fromkeys(stream_ids, FIRST)
    while floors:
        for stream_id, (priority, task_id) in list(floors.items()):
            rows = db.rows(
                heads, stream_id=stream_id, priority=priority, id=task_id, creator=request.creator, limit=share
            )
            found = [_Head(Execution._make(row[:-2]), *row[-2:]) for row in rows]
            candidates += [candidate_of((e.priority, e.id, stream_id, e.mutex), catalog) for e, _, _ in found]
            by_id |= {head.execution.id: head for head in found}
            if len(rows) < share:
                del floors[stream_id]
            else:
                floors[stream_id] = (found[-1].execution.priority, found[-1].execution.id)
        again = ask_again(catalog, candidates, floors, room, request, last_tenant)
        floors = {stream_id: floors[stream_id] for stream_id in again}
    return by_id, candidates
