"""Writing what `decide` decided: the task's row and its audit row, together, guarded.

`FINISH` is the plain success of an execution, `APPLY` everything else. The guard is in the WHERE: the execution that
reports must still own the task, the row must still be as it was when the decision was made. What does not match was
lost to somebody quicker; the caller is told which rows were written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.callbacks import Kind
from headgate.core.machine import Change
from headgate.core.states import State
from headgate.store.owed import call_off, owe
from headgate.store.sql import Db, Statement


@dataclass(frozen=True, slots=True)
class Write:
    """One decided change, and what it was decided upon.

    With `seq`, the row must still be the one that was read; without, the execution must still own the task, nobody
    may have asked anything of it and it may have no children, since whoever decided could not know.
    """

    id: int
    before: State
    change: Change
    seq: int | None = None
    exec_id: str | None = None
    detail: str | None = None


_FINISH_NAMES = ("id", "exec_id", "result")
# No join on PostgreSQL: one planned for a small table walks the whole primary key of a large one. The ids are sorted,
# so that `width_bucket` finds an id's place by halving: `array_position` walked, and took a third of the time.
# What the row must be is a parameter: given as a word, the planner would rather read a whole partial index.
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

_APPLY_NAMES = (
    "id", "before", "seq", "exec_id", "after", "kind", "delay", "start_time", "error_count", "lost_count",
    "error_info", "result", "remark", "priority", "cancel_requested", "pause_requested", "has_children",
    "gave_up", "skip_callback", "detail",
)  # fmt: skip
APPLY = Statement(
    sqlite="""
    UPDATE headgate_task
       SET status = :after,
           start_time = CASE WHEN :delay IS NULL THEN coalesce(:start_time, start_time)
                             ELSE {now + :delay} END,
           error_count = coalesce(:error_count, error_count), lost_count = coalesce(:lost_count, lost_count),
           error_info = coalesce(:error_info, error_info), result = coalesce(:result, result),
           remark = coalesce(:remark, remark), priority = coalesce(:priority, priority),
           cancel_requested = coalesce(:cancel_requested, cancel_requested),
           pause_requested = coalesce(:pause_requested, pause_requested),
           has_children = coalesce(:has_children, has_children), gave_up = coalesce(:gave_up, gave_up),
           skip_callback = coalesce(:skip_callback, skip_callback),
           exec_id = CASE WHEN :after IN ('scheduling', 'running') THEN exec_id END,
           executing_deadline = CASE WHEN :after IN ('scheduling', 'running') THEN executing_deadline END,
           worker_id = CASE WHEN :after IN ('scheduling', 'running') THEN worker_id END,
           scheduling_time = CASE WHEN :after IN ('pending', 'blocked', 'queued', 'paused', 'retrying') THEN NULL
                                  ELSE scheduling_time END,
           exec_time = CASE WHEN status = 'running' AND :after <> 'running'
                            THEN max(:now - started_at, 0) / 1e6 ELSE exec_time END,
           finished_at = CASE WHEN :after IN ('succeeded', 'partial', 'failed', 'resolved', 'cancelled')
                              THEN :now END,
           update_date = :now, seq = seq + 1
     WHERE id = :id AND status = :before
       AND CASE WHEN :seq IS NULL THEN exec_id = :exec_id AND NOT (cancel_requested OR pause_requested OR has_children)
                ELSE seq = :seq END
    RETURNING id, tenant_id, seq, stream_id, priority, worker_id
    """,
    postgres="""
    WITH changed AS (
        UPDATE headgate_task t
           SET status = o.after,
               start_time = CASE WHEN o.delay IS NULL THEN coalesce(o.start_time, t.start_time)
                                 ELSE {now + o.delay} END,
               error_count = coalesce(o.error_count, t.error_count),
               lost_count = coalesce(o.lost_count, t.lost_count),
               error_info = coalesce(o.error_info, t.error_info), result = coalesce(o.result, t.result),
               remark = coalesce(o.remark, t.remark), priority = coalesce(o.priority, t.priority),
               cancel_requested = coalesce(o.cancel_requested, t.cancel_requested),
               pause_requested = coalesce(o.pause_requested, t.pause_requested),
               has_children = coalesce(o.has_children, t.has_children), gave_up = coalesce(o.gave_up, t.gave_up),
               skip_callback = coalesce(o.skip_callback, t.skip_callback),
               exec_id = CASE WHEN o.after IN ('scheduling', 'running') THEN t.exec_id END,
               executing_deadline = CASE WHEN o.after IN ('scheduling', 'running') THEN t.executing_deadline END,
               worker_id = CASE WHEN o.after IN ('scheduling', 'running') THEN t.worker_id END,
               scheduling_time = CASE WHEN o.after IN ('pending', 'blocked', 'queued', 'paused', 'retrying') THEN NULL
                                      ELSE t.scheduling_time END,
               exec_time = CASE WHEN t.status = 'running' AND o.after <> 'running'
                                THEN greatest(extract(epoch FROM {now} - t.started_at), 0) ELSE t.exec_time END,
               finished_at = CASE WHEN o.after IN ('succeeded', 'partial', 'failed', 'resolved', 'cancelled')
                                  THEN {now} END,
               update_date = {now}, seq = t.seq + 1
          FROM unnest(:id::bigint[], :before::text[], :seq::int[], :exec_id::uuid[], :after::text[], :kind::text[],
                      :delay::float8[], :start_time::timestamptz[], :error_count::int[], :lost_count::int[],
                      :error_info::text[], :result::text[], :remark::text[], :priority::bigint[],
                      :cancel_requested::bool[], :pause_requested::bool[], :has_children::bool[],
                      :gave_up::bool[], :skip_callback::bool[], :detail::text[])
               AS o(id, before, seq, exec_id, after, kind, delay, start_time, error_count, lost_count, error_info,
                    result, remark, priority, cancel_requested, pause_requested, has_children, gave_up,
                    skip_callback, detail)
         WHERE t.id = o.id AND t.id = ANY(:id::bigint[]) AND t.status = o.before
           AND CASE WHEN o.seq IS NULL
                    THEN t.exec_id = o.exec_id AND NOT (t.cancel_requested OR t.pause_requested OR t.has_children)
                    ELSE t.seq = o.seq END
        RETURNING t.id, t.tenant_id, t.seq, t.stream_id, t.priority, t.worker_id, o.kind, o.before, o.after, o.exec_id,
                  o.detail
    ), noted AS (
        INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id, detail)
        SELECT id, tenant_id, seq, {now}, kind, before, after, :actor, exec_id, detail FROM changed
    )
    SELECT id, tenant_id, seq, stream_id, priority, worker_id FROM changed
    """,
)


def finish(db: Db, change: Change, ended: Sequence[tuple[int, str, str]], actor: str) -> set[int]:
    """Record plain successes (id, exec_id, result) of one kind; the ids that were still theirs to record.

    A parent is never among them: it has its children to wait for.
    """
    before, after = State.RUNNING.value, change.status.value
    common = {"before": before, "after": after, "kind": change.kind, "actor": actor}
    ended = sorted(ended)
    if db.dialect == "postgres":
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


def apply(db: Db, writes: Sequence[Write], actor: str) -> set[int]:
    """Record decided changes; the ids whose row was still as it was when they were decided."""
    if not writes:
        return set()
    by_id = {write.id: write for write in sorted(writes, key=lambda w: w.id)}  # rows are locked in this order
    changed = db.each(APPLY, _APPLY_NAMES, [_columns(db, write) for write in by_id.values()], actor=actor).rows()
    owed: dict[Kind, list[int]] = {}
    settled: list[int] = []
    for task_id, _, _, stream_id, priority, worker_id in changed:
        change = by_id[task_id].change
        if change.callback is not None:
            owed.setdefault(change.callback, []).append(task_id)
        if by_id[task_id].before is State.NOTIFYING and change.status is not State.NOTIFYING:
            settled.append(task_id)
        if change.status is State.QUEUED:
            db.news.wake(stream_id, priority, task_id)
        elif worker_id is not None and (change.cancel_requested or change.pause_requested):
            db.news.asked.add(worker_id)
    db.note(lambda: [_event(by_id[row[0]], row[1], row[2]) for row in changed], actor)
    for kind, ids in owed.items():
        owe(db, kind, ids)
    if settled:
        call_off(db, settled)
    return {row[0] for row in changed}


def _columns(db: Db, write: Write) -> tuple[object, ...]:
    change = write.change
    start_time = change.start_time
    return (
        write.id, write.before.value, write.seq, write.exec_id, change.status.value, change.kind, change.delay,
        start_time if start_time is None else db.time(start_time), change.error_count, change.lost_count,
        change.error_info, change.result, change.remark, change.priority, change.cancel_requested,
        change.pause_requested, change.has_children, change.gave_up, change.skip_callback, write.detail,
    )  # fmt: skip


def _event(write: Write, tenant_id: int, seq: int) -> tuple[object, ...]:
    change = write.change
    return (
        write.id, tenant_id, seq, change.kind, write.before.value, change.status.value, write.exec_id, write.detail
    )  # fmt: skip
