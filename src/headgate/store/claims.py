"""Everything under an exec_id: how an execution begins, ends, or is taken away."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.core.errors import Invalid, StaleExecution, WorkerLost
from headgate.core.gates import Candidate, Choice, choose
from headgate.core.machine import (
    CancelReached,
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    PauseReached,
    Raised,
    Returned,
    Snoozed,
    decide,
)
from headgate.core.states import HELD, State
from headgate.core.task import Execution, Task, check_json
from headgate.store import line
from headgate.store.catalog import Catalog, Stream
from headgate.store.rows import MUTEXES, hold
from headgate.store.sql import Db, Row, Statement, moment
from headgate.store.transitions import Write, apply, finish


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Who asks for work, how much, and of which kind. None means any."""

    worker_id: int
    limit: int
    types: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    tenant_id: int | None = None
    creator: int | None = None
    agent_id: str | None = None  # an agent also gets what is assigned to it, and nobody else does
    claim_id: str | None = None
    confirm: bool = False  # hand over as `scheduling`: the start is confirmed by `try_start`

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise Invalid("a claim asks for at least one task")

    def serves(self, stream: Stream) -> bool:
        return (
            (self.types is None or stream.type in self.types)
            and (self.categories is None or stream.category in self.categories)
            and (self.tenant_id is None or stream.tenant_id == self.tenant_id)
            and stream.agent_id in ("", self.agent_id)
        )


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed; `busy` says that somebody else was claiming where there may be more: ask again at once."""

    executions: list[Execution]
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended."""

    execution: Execution
    event: Event


LIVE_WORKER = Statement(
    sqlite="SELECT 1 FROM worker WHERE id = :worker_id AND NOT lost",
    # Shared, so that nobody declares the worker lost while it takes on more.
    postgres="SELECT 1 FROM worker WHERE id = :worker_id AND NOT lost FOR SHARE",
)
TAKEN_COLUMNS = (
    "id, exec_id, ext, attempt, executing_deadline, error_count, lost_count, max_error_count, creator, parent_id, "
    "root_id, correlation_id, name, priority, mutex, stream_id, status"
)
ANSWERED = Statement("SELECT task_ids FROM claim_answer WHERE worker_id = :worker_id AND claim_id = :claim_id")
KEEP_ANSWER = Statement(
    "INSERT INTO claim_answer (worker_id, claim_id, task_ids, at) VALUES (:worker_id, :claim_id, :task_ids, {now})"
)
STILL_HELD = Statement(
    f"""
    SELECT {TAKEN_COLUMNS} FROM task
     WHERE id {{in ids}} AND worker_id = :worker_id AND exec_id IS NOT NULL ORDER BY id
    """
)


def answered(db: Db, catalog: Catalog, request: ClaimRequest) -> Claimed | None:
    """What a claim with this claim_id was answered before, as far as it is still held."""
    if request.claim_id is None:
        return None
    found = db.rows(ANSWERED, worker_id=request.worker_id, claim_id=request.claim_id)
    if not found:
        return None
    rows = db.rows(STILL_HELD, ids=json.loads(found[0][0]), worker_id=request.worker_id)
    return Claimed([execution_of(row, catalog) for row in rows])


def keep_answer(db: Db, request: ClaimRequest, task_ids: Sequence[int]) -> None:
    """Remember an answer, in case it gets lost on its way and the claim is repeated."""
    if request.claim_id is not None:
        told = json.dumps(task_ids)
        db.send(KEEP_ANSWER, worker_id=request.worker_id, claim_id=request.claim_id, task_ids=told)


def require_live(found: list[Row], worker_id: int) -> None:
    if not found:
        raise WorkerLost(f"worker {worker_id} is unknown or was declared lost")


def execution_of(row: Row, catalog: Catalog) -> Execution:
    """The execution a claimed row (`TAKEN_COLUMNS`) is."""
    (
        task_id, exec_id, ext, attempt, deadline, error_count, lost_count, max_error_count, creator, parent_id, root_id,
        correlation_id, name, priority, mutex, stream_id, status,
    ) = row  # fmt: skip
    stream = catalog.streams[stream_id]
    return Execution(
        task_id, exec_id if type(exec_id) is str else str(exec_id), stream.tenant_id, stream.type, ext, attempt,
        moment(deadline), error_count, lost_count, max_error_count, stream.lane, mutex, priority, creator, parent_id,
        root_id, correlation_id, name, stream.category, State(status),
    )  # fmt: skip


def take_rows(choice: Choice, exec_ids: Sequence[str], catalog: Catalog) -> list[Row]:
    """(id, exec_id, timeout, uses) of everything chosen, by id."""
    rows = []
    for candidate, exec_id in zip(choice.chosen, exec_ids, strict=False):
        kind = catalog.type(catalog.streams[candidate.stream_id].type)
        rows.append((candidate.id, exec_id, kind.timeout_seconds, ",".join(kind.uses) or None))
    return sorted(rows)


def candidate_of(row: Row, catalog: Catalog) -> Candidate:
    """A head of a stream (priority, id, stream_id, mutex), with the gates it must pass."""
    stream = catalog.streams[row[2]]
    return Candidate(row[0], row[1], row[2], stream.tenant_id, catalog.gates(stream), row[3])


FIRST = (-(1 << 63), 0)  # before every (priority, id)


def first_share(limit: int, streams: int) -> int:
    """How many heads to read of each stream at first: reading `limit` of each costs five times as much."""
    return limit if streams <= 1 else min(limit, max(4, 2 * limit // streams))


def has_room(gates: tuple[str, ...], room: Mapping[str, int]) -> bool:
    return all(room.get(gate, 1) > 0 for gate in gates)


def ask_again(
    catalog: Catalog,
    candidates: Sequence[Candidate],
    unread: Mapping[int, tuple[int, int]],
    room: Mapping[str, int],
    request: ClaimRequest,
) -> list[int]:
    """The streams whose next heads, behind `unread`, might be chosen before, or besides, what is chosen by now."""
    if not unread:
        return []
    choice = choose(candidates, room, request.limit)
    if len(choice.chosen) < request.limit:
        left = {gate: count - choice.taken.get(gate, 0) for gate, count in room.items()}
        return [stream_id for stream_id in unread if has_room(catalog.gates(catalog.streams[stream_id]), left)]
    if len({candidate.stream_id for candidate in candidates}) == 1:
        return []
    # Only a stream that was chosen to its last head can hold one that goes before another stream's.
    chosen = set(choice.chosen)
    passed_over = {candidate.stream_id for candidate in candidates if candidate not in chosen}
    last = max((candidate.priority, candidate.id) for candidate in chosen)
    return [stream_id for stream_id, place in unread.items() if stream_id not in passed_over and place < last]


# The end of an execution

_ENDS = Raised | Snoozed | PauseReached | CancelReached | GivenBack
_A_RUNNING_TASK = Execution(
    0, "", 0, "", "{}", 1, datetime.max.replace(tzinfo=UTC), 0, 0, None, "", None, 0, 0, None, None, None, None, ""
)


def settle(db: Db, catalog: Catalog, outcomes: Sequence[Outcome], actor: str) -> list[State | None]:
    """Record how executions ended; what each task is now, None if its exec_id does not own it any more."""
    keys = [(o.execution.tenant_id, o.execution.mutex) for o in outcomes if o.execution.mutex is not None]
    line.lock(db, keys)
    plain: dict[tuple[str, bool], list[tuple[int, str, str]]] = defaultdict(list)
    others: list[Write] = []
    for outcome in outcomes:
        execution, event = outcome.execution, outcome.event
        if isinstance(event, Returned):
            plain[execution.type, event.completed].append((execution.id, execution.exec_id, event.result))
        elif isinstance(event, _ENDS):
            change = decide(execution, event, catalog.type(execution.type))
            others.append(Write(execution.id, execution.status, change, exec_id=execution.exec_id))
        else:
            raise Invalid(f"{type(event).__name__} does not end an execution")
    done: dict[int, State] = {}
    for (type_code, completed), ended in plain.items():
        # A plain success is decided once for all of its type: nothing but the result differs.
        change = decide(_A_RUNNING_TASK, Returned(completed=completed), catalog.type(type_code))
        done |= dict.fromkeys(finish(db, change, ended, actor), change.status)
    written = apply(db, others, actor)
    done |= {write.id: write.change.status for write in others if write.id in written}
    if len(done) < len(outcomes):
        done |= _settle_again(db, catalog, [o for o in outcomes if o.execution.id not in done], actor)
    line.settle_lines(db, keys)
    return [done.get(outcome.execution.id) for outcome in outcomes]


def _settle_again(db: Db, catalog: Catalog, missed: Sequence[Outcome], actor: str) -> dict[int, State]:
    """What `decide` could not know: a parent waits for its children, a request comes first. The rest was stale."""
    held = {task.id: task for task in hold(db, [outcome.execution.id for outcome in missed])}
    writes, stale = [], []
    for outcome in missed:
        task = held.get(outcome.execution.id)
        if task is not None and task.status is State.RUNNING and task.exec_id == outcome.execution.exec_id:
            change = decide(task, outcome.event, catalog.type(task.type))
            writes.append(Write(task.id, task.status, change, task.seq, task.exec_id))
        else:
            stale.append(outcome.execution)
    refuse(db, stale, actor)
    written = apply(db, writes, actor)
    return {write.id: write.change.status for write in writes if write.id in written}


REFUSE = Statement(
    """
    INSERT INTO task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT id, tenant_id, 0, {now}, 'refused', :actor, :exec_id, :detail FROM task WHERE id = :id
    """
)


def refuse(db: Db, stale: Sequence[Execution], actor: str) -> None:
    """Put on record that a report came under an exec_id that owns its task no more (seq 0: no transition)."""
    for execution in stale:
        db.send(REFUSE, id=execution.id, exec_id=execution.exec_id, actor=actor, detail="stale exec_id")


# An execution under way

START = Statement(
    sqlite=f"""
    UPDATE task SET status = 'running', started_at = :now,
           executing_deadline = {{now + coalesce(timeout_seconds, :timeout)}}, update_date = :now, seq = seq + 1
     WHERE id = :id AND status = :before AND exec_id = :exec_id
       AND NOT cancel_requested AND NOT pause_requested
    RETURNING {TAKEN_COLUMNS}, tenant_id, seq
    """,
    postgres=f"""
    WITH changed AS (
        UPDATE task SET status = 'running', started_at = {{now}},
               executing_deadline = {{now + coalesce(timeout_seconds, :timeout)}}, update_date = {{now}}, seq = seq + 1
         WHERE id = :id AND status = :before AND exec_id = :exec_id::uuid
           AND NOT cancel_requested AND NOT pause_requested
        RETURNING *
    ), noted AS (
        INSERT INTO task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)
        SELECT id, tenant_id, seq, {{now}}, 'started', 'scheduling', 'running', :actor, exec_id FROM changed
    )
    SELECT {TAKEN_COLUMNS}, tenant_id, seq FROM changed
    """,
)
TYPE_OF = Statement("SELECT type FROM task WHERE id = :id")


def try_start(db: Db, catalog: Catalog, task_id: int, exec_id: str, actor: str) -> Execution | None:
    """Confirm the start of a task that was handed over as `scheduling`; None if it is not this exec_id's to start."""
    kinds = db.rows(TYPE_OF, id=task_id)
    if not kinds:
        return None
    timeout = catalog.type(kinds[0][0]).timeout_seconds
    started = db.rows(START, id=task_id, exec_id=exec_id, before="scheduling", timeout=timeout, actor=actor)
    db.note(
        lambda: [(row[0], row[-2], row[-1], "started", "scheduling", "running", row[1], None) for row in started], actor
    )
    return execution_of(started[0][:-2], catalog) if started else None


# Whoever has an exec_id runs or is about to: that is what the schema says, and an index by status is not asked.
OWNED = Statement("SELECT cancel_requested, pause_requested, attempt FROM task WHERE id = :id AND exec_id = :exec_id")


@dataclass(frozen=True, slots=True)
class Control:
    """What an executor is asked to do, as an answer to its reports."""

    cancel: bool = False
    pause: bool = False


def owned(db: Db, task_id: int, exec_id: str) -> tuple[Control, int]:
    """What is asked of the execution, and its attempt; `StaleExecution` if it owns the task no more."""
    found = db.rows(OWNED, id=task_id, exec_id=exec_id)
    if not found:
        raise StaleExecution(f"exec_id {exec_id} does not own task {task_id}")
    cancel, pause, attempt = found[0]
    return Control(bool(cancel), bool(pause)), attempt


SET_PROGRESS = Statement(
    """
    UPDATE task SET progress = :progress, update_date = {now}
     WHERE id = :id AND exec_id = :exec_id
    RETURNING id
    """
)
NOTE_PROGRESS = Statement(
    """
    INSERT INTO task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT id, tenant_id, 0, {now}, 'progress', :actor, exec_id, :progress FROM task WHERE id = :id
    """
)
ADD_LOG = Statement(
    sqlite="""
    INSERT INTO task_log (task_id, at, attempt, level, message) VALUES (:task_id, :now, :attempt, :level, :message)
    """,
    postgres="""
    INSERT INTO task_log (task_id, at, attempt, level, message)
    SELECT o.task_id, {now}, o.attempt, o.level, o.message
      FROM unnest(:task_id::bigint[], :attempt::int[], :level::text[], :message::text[])
           AS o(task_id, attempt, level, message)
    """,
)
SAVE_CHECKPOINT = Statement(
    """
    INSERT INTO checkpoint (task_id, name, state, at) VALUES (:task_id, :name, :state, {now})
    ON CONFLICT (task_id, name) DO UPDATE SET state = excluded.state, at = excluded.at
    """
)


def report_progress(db: Db, task_id: int, exec_id: str, progress: str, actor: str) -> Control:
    """Note how far the execution is, as JSON."""
    check_json("progress", progress)
    control, _ = owned(db, task_id, exec_id)
    if not db.rows(SET_PROGRESS, id=task_id, exec_id=exec_id, progress=progress):
        raise StaleExecution(f"exec_id {exec_id} does not own task {task_id}")
    db.send(NOTE_PROGRESS, id=task_id, progress=progress, actor=actor)
    return control


def add_log(db: Db, task_id: int, exec_id: str, lines: Sequence[tuple[str, str]]) -> Control:
    """Keep log lines (level, message) with the task."""
    control, attempt = owned(db, task_id, exec_id)
    db.each(
        ADD_LOG, ("task_id", "attempt", "level", "message"), [(task_id, attempt, level, text) for level, text in lines]
    )
    return control


def save_checkpoint(db: Db, task_id: int, exec_id: str, name: str, state: str) -> Control:
    """Keep a named state that outlives the execution."""
    check_json("checkpoint", state)
    control, _ = owned(db, task_id, exec_id)
    db.send(SAVE_CHECKPOINT, task_id=task_id, name=name, state=state)
    return control


# Executions taken away

OVERDUE = Statement(
    """
    SELECT id FROM task WHERE status IN ('scheduling', 'running') AND status = 'running' AND executing_deadline < {now}
     LIMIT :limit
    """
)
MUTEX_OVERDUE = Statement(
    """
    SELECT id FROM task WHERE mutex IS NOT NULL AND status IN ('scheduling', 'running')
       AND scheduling_time < {now - :seconds}
    UNION ALL
    SELECT id FROM task WHERE mutex IS NOT NULL AND status IN ('queued', 'blocked', 'waiting') AND status = 'waiting'
       AND scheduling_time < {now - :seconds} AND NOT cancel_requested
     LIMIT :limit
    """
)
HELD_BY = Statement(
    """
    SELECT id FROM task WHERE status IN ('scheduling', 'running') AND worker_id = :worker_id LIMIT :limit
    """
)


def take_away(db: Db, catalog: Catalog, ids: Sequence[int], event: Event, actor: str, **guard: object) -> list[Task]:
    """End executions from outside, each only if it is still as `guard` (column: value) says; the tasks as they were.

    Fences the holder first: its exec_id is gone with this commit, whatever it reports later changes nothing.
    """
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=list(ids))]
    line.lock(db, keys)
    tasks = [
        task
        for task in hold(db, list(ids))
        if task.status in (*HELD, State.WAITING) and all(getattr(task, name) == value for name, value in guard.items())
    ]
    writes = [
        Write(task.id, task.status, decide(task, event, catalog.type(task.type)), task.seq, task.exec_id)
        for task in tasks
    ]
    apply(db, writes, actor)
    line.settle_lines(db, keys)
    return tasks


def end_overdue(db: Db, catalog: Catalog, limit: int, mutex_seconds: float) -> list[Task]:
    """End what is past its deadline, or has held its mutex too long; the tasks as they were."""
    late = [row[0] for row in db.rows(OVERDUE, limit=limit)]
    ended = take_away(db, catalog, late, Overdue(), "system:reaper") if late else []
    hogs = [row[0] for row in db.rows(MUTEX_OVERDUE, limit=limit, seconds=mutex_seconds)]
    if hogs:
        reason = Overdue(f"it held its mutex for more than {mutex_seconds:g} s")
        ended += take_away(db, catalog, hogs, reason, "system:reaper")
    return ended


def rescue(db: Db, catalog: Catalog, worker_id: int, limit: int) -> list[Task]:
    """Give back a page of what a lost worker held; the tasks as they were."""
    ids = [row[0] for row in db.rows(HELD_BY, worker_id=worker_id, limit=limit)]
    return take_away(db, catalog, ids, LeaseLost(), "system:reaper", worker_id=worker_id) if ids else []


def give_back(db: Db, catalog: Catalog, task_id: int, exec_id: str, actor: str) -> None:
    """Let go of a task without having failed it; what was asked of it meanwhile comes first."""
    if not take_away(db, catalog, [task_id], GivenBack(), actor, exec_id=exec_id):
        raise StaleExecution(f"exec_id {exec_id} does not own task {task_id}")


STUCK = Statement(
    """
    SELECT id FROM task WHERE status IN ('scheduling', 'running') AND status = 'scheduling'
       AND scheduling_time < {now - :seconds}
     LIMIT :limit
    """
)


def return_unstarted(db: Db, catalog: Catalog, seconds: float, limit: int, actor: str) -> list[Task]:
    """Put back in line what was handed over more than `seconds` ago and never confirmed."""
    ids = [row[0] for row in db.rows(STUCK, seconds=seconds, limit=limit)]
    return take_away(db, catalog, ids, GivenBack(), actor, status=State.SCHEDULING) if ids else []
