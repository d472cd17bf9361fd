"""Writing what `decide` decided: the task's row and its audit row, together, guarded.

`FINISH` is the plain success of an execution, `APPLY` everything else. The guard is in the WHERE: the execution that
reports must still own the task, and the row must still be as it was when the decision was made. A row that does not
match was changed first by another transaction; the caller learns which rows were written.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from headgate.core.callbacks import CallbackKind
from headgate.core.machine import Change, Event, decide
from headgate.core.states import HELD, State
from headgate.core.task import Task
from headgate.core.usage import Usage
from headgate.store.callbacks.outbox import call_off, owe
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.freed import give_up
from headgate.store.db.columns import CHANGED, listed, rows_of
from headgate.store.db.indexes import HELD_STATES
from headgate.store.db.statement import Db, Statement
from headgate.store.execution.attempts import FailedAttempt, keep_failed
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import MUTEXES, hold


@dataclass(frozen=True, slots=True)
class Write:
    """One decided change, and what it was decided upon.

    With `seq`, the row must still be the one that was read. Without it, the execution must still own the task, no
    cancel or pause may have been requested and it may have no children: the decision did not take those into account.
    """

    id: int
    before: State
    change: Change
    seq: int | None = None
    exec_id: str | None = None
    attempt: int = 0
    usage: Usage | None = None
    more: dict[str, Any] | None = None  # for the audit row, besides what the change says of itself

    @property
    def detail(self) -> str | None:
        detail = (self.more or {}) | self.change.detail
        return json.dumps(detail, ensure_ascii=False) if detail else None


_FINISH_NAMES = ("id", "exec_id", "result")
# No join on PostgreSQL: one planned for a small table walks the whole primary key of a large one. The ids are sorted,
# so that `width_bucket` finds an id's place by halving: `array_position` walked, and took a third of the time.
# The expected state is a parameter: with a literal, the planner would rather read a whole partial index.
FINISH = Statement(
    sqlite="""
    UPDATE headgate_task
       SET status = :after, result = :result, exec_id = NULL, executing_deadline = NULL, worker_id = NULL,
           finished_at = CASE WHEN :after = 'succeeded' THEN :now END, update_date = :now, seq = seq + 1,
           exec_time = max(:now - started_at, 0) / 1e6
     WHERE id = :id AND status = :before AND exec_id = :exec_id AND NOT has_children
    """,
    postgres="""
    WITH changed AS (
        UPDATE headgate_task t
           SET status = :after, result = (:result::text[])[width_bucket(t.id, :id::bigint[])],
               exec_id = NULL, executing_deadline = NULL, worker_id = NULL,
               finished_at = CASE WHEN :after = 'succeeded' THEN {now} END, update_date = {now}, seq = t.seq + 1,
               exec_time = greatest(extract(epoch FROM {now} - t.started_at), 0)
         WHERE t.id = ANY(:id::bigint[]) AND t.status = :before AND NOT t.has_children
           AND t.exec_id = (:exec_id::uuid[])[width_bucket(t.id, :id::bigint[])]
        RETURNING t.id, t.tenant_id, t.seq, (:exec_id::uuid[])[width_bucket(t.id, :id::bigint[])] AS exec_id
    ), noted AS (
        INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)
        SELECT id, tenant_id, seq, {now}, :kind, :before, :after, :actor, exec_id FROM changed
    )
    SELECT id FROM changed
    """,
)

STILL_OWNED = Statement(
    sqlite=(
        "SELECT id, exec_id, tenant_id, seq FROM headgate_task"
        " WHERE id {in ids} AND status = 'running' AND NOT has_children"
    )
)

_APPLY = ("id", "before", "seq", "exec_id", "after", "kind", "delay", "start_time", *CHANGED, "detail")
_BEFORE_A_START = "('pending', 'blocked', 'queued', 'paused', 'retrying')"
_TIMED = "('running', 'waiting')"  # a parent is timed by its end, as everything is
_FINAL = "('succeeded', 'partial', 'failed', 'resolved', 'cancelled')"


def _set(new: str, old: str, now: str, ran: str) -> str:
    """What a decided change writes: `new` prefixes the names of decided values, `old` those of the row's own."""
    return f"""
           SET status = {new}after,
               start_time = CASE WHEN {new}delay IS NULL THEN coalesce({new}start_time, {old}start_time)
                                 ELSE {{now + {new}delay}} END,
               {listed(CHANGED, "{name} = coalesce(" + new + "{name}, " + old + "{name})")},
               exec_id = CASE WHEN {new}after IN {HELD_STATES} THEN {old}exec_id END,
               executing_deadline = CASE WHEN {new}after IN {HELD_STATES} THEN {old}executing_deadline END,
               worker_id = CASE WHEN {new}after IN {HELD_STATES} THEN {old}worker_id END,
               scheduling_time = CASE WHEN {new}after IN {_BEFORE_A_START} THEN NULL ELSE {old}scheduling_time END,
               exec_time = CASE WHEN {old}status IN {_TIMED} AND {new}after NOT IN {_TIMED}
                                THEN {ran} ELSE {old}exec_time END,
               finished_at = CASE WHEN {new}after IN {_FINAL} THEN {now} END,
               update_date = {now}, seq = {old}seq + 1"""


def _unchanged(new: str, old: str) -> str:
    return f"""{old}status = {new}before AND CASE WHEN {new}seq IS NULL
               THEN {old}exec_id = {new}exec_id
                    AND NOT ({old}cancel_requested OR {old}pause_requested OR {old}has_children)
               ELSE {old}seq = {new}seq END"""


APPLY = Statement(
    sqlite=f"""
    UPDATE headgate_task {_set(":", "", ":now", "max(:now - started_at, 0) / 1e6")}
     WHERE id = :id AND {_unchanged(":", "")}
    RETURNING id, tenant_id, seq, stream_id, priority, worker_id
    """,
    postgres=f"""
    WITH changed AS (
        UPDATE headgate_task t {_set("o.", "t.", "{now}", "greatest(extract(epoch FROM {now} - t.started_at), 0)")}
          FROM {rows_of(_APPLY, "o")}
         WHERE t.id = o.id AND t.id = ANY(:id::bigint[]) AND {_unchanged("o.", "t.")}
        RETURNING t.id, t.tenant_id, t.seq, t.stream_id, t.priority, t.worker_id, o.kind, o.before, o.after, o.exec_id,
                  o.detail
    ), noted AS (
        INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id, detail)
        SELECT id, tenant_id, seq, {{now}}, kind, before, after, :actor, exec_id, detail FROM changed
    )
    SELECT id, tenant_id, seq, stream_id, priority, worker_id FROM changed
    """,
)


@contextmanager
def locked(db: Db, ids: Collection[int]) -> Iterator[list[Task]]:
    """The live tasks among `ids`, locked until the commit; their mutex queues are locked first, and settled last."""
    keys = [(tenant_id, mutex) for tenant_id, mutex in db.rows(MUTEXES, ids=list(ids))] if ids else []
    lock(db, keys)
    yield hold(db, ids) if ids else []
    settle_queues(db, keys)


def finish(db: Db, change: Change, ended: Sequence[tuple[int, str, str]], actor: str) -> set[int]:
    """Record plain successes (id, exec_id, result) of one kind; the ids that were still theirs to record.

    A parent is never among them: it has its children to wait for.
    """
    before, after = State.RUNNING.value, change.status.value
    common = {"before": before, "after": after, "kind": change.kind, "actor": actor}
    ended = sorted(ended)
    if not db.one_writer:
        done = {row[0] for row in db.each(FINISH, _FINISH_NAMES, ended, **common).rows()}
        if change.callback is not None:
            owe(db, change.callback, done)
        return done
    # One writer: what is read here stands until it is written, and writing without answers is twice as fast.
    found = {row[0]: row for row in db.rows(STILL_OWNED, ids=[task_id for task_id, _, _ in ended])}
    mine = [row for row in ended if row[0] in found and found[row[0]][1] == row[1]]
    db.many(FINISH, _FINISH_NAMES, mine, **common)
    db.note(
        lambda: [
            (task_id, found[task_id][2], found[task_id][3] + 1, change.kind, before, after, exec_id, None)
            for task_id, exec_id, _ in mine
        ],
        actor,
    )
    done = {task_id for task_id, _, _ in mine}
    if change.callback is not None:
        owe(db, change.callback, done)
    return done


def happen(
    db: Db, catalog: Catalog, tasks: Sequence[Task], event: Event, actor: str, detail: dict[str, Any] | None = None
) -> list[Write]:
    """Let `event` happen to locked tasks, as `decide` says; announces the room of tasks that are no longer held."""
    writes = [write_of(task, decide(task, event, catalog.type(task.type)), more=detail) for task in tasks]
    apply(db, writes, actor)
    pairs = zip(tasks, writes, strict=True)
    give_up(db, catalog, [task for task, write in pairs if write.before in HELD and write.change.status not in HELD])
    return writes


def write_of(task: Task, change: Change, usage: Usage | None = None, more: dict[str, Any] | None = None) -> Write:
    """A change that was decided upon a locked task."""
    return Write(task.id, task.status, change, task.seq, task.exec_id, task.attempt, usage, more)


def apply(db: Db, writes: Sequence[Write], actor: str) -> set[int]:
    """Record decided changes; the ids whose row was still as it was when they were decided."""
    if not writes:
        return set()
    by_id = {write.id: write for write in sorted(writes, key=lambda w: w.id)}  # rows are locked in this order
    changed = db.each(APPLY, _APPLY, [_columns(db, write) for write in by_id.values()], actor=actor).rows()
    callbacks: dict[CallbackKind, list[int]] = {}
    settled: list[int] = []
    failed: list[FailedAttempt] = []
    for task_id, tenant_id, _, stream_id, priority, worker_id in changed:
        write = by_id[task_id]
        change = write.change
        if write.before is State.RUNNING and change.reason is not None and change.error_info is not None:
            again = write.detail if change.runs_again and change.kind != "retrying" else None
            failed.append(
                FailedAttempt(
                    task_id,
                    tenant_id,
                    write.attempt,
                    change.reason,
                    change.error_info,
                    write.usage,
                    again,
                )
            )
        if change.callback is not None:
            callbacks.setdefault(change.callback, []).append(task_id)
        if write.before is State.NOTIFYING and change.status is not State.NOTIFYING:
            settled.append(task_id)
        if change.status is State.QUEUED:
            db.news.wake(stream_id, priority, task_id)
        elif worker_id is not None and (change.cancel_requested or change.pause_requested):
            db.news.requested.add(worker_id)
    db.note(lambda: [_event(by_id[row[0]], row[1], row[2]) for row in changed], actor)
    if failed:
        keep_failed(db, failed, actor)
    for kind, ids in callbacks.items():
        owe(db, kind, ids)
    if settled:
        call_off(db, settled)
    return {row[0] for row in changed}


_changed = attrgetter(*CHANGED)


def _columns(db: Db, write: Write) -> tuple[object, ...]:
    change = write.change
    start_time = None if change.start_time is None else db.time(change.start_time)
    return (
        write.id, write.before.value, write.seq, write.exec_id, change.status.value, change.kind, change.delay,
        start_time, *_changed(change), write.detail,
    )  # fmt: skip


def _event(write: Write, tenant_id: int, seq: int) -> tuple[object, ...]:
    change = write.change
    return (
        write.id, tenant_id, seq, change.kind, write.before.value, change.status.value, write.exec_id, write.detail
    )  # fmt: skip
