"""The statements behind what an execution reports: its start, progress, log and checkpoints."""

from dataclasses import dataclass
from datetime import datetime

from headgate.store.db.columns import CLAIMED
from headgate.store.db.statement import Statement

_EXECUTION = ", ".join(CLAIMED)
START = Statement(
    sqlite=f"""
    UPDATE headgate_task SET status = 'running', started_at = :now,
           executing_deadline = {{now + coalesce(timeout_seconds, :timeout)}}, update_date = :now, seq = seq + 1
     WHERE id = :id AND status = :before AND exec_id = :exec_id
       AND NOT cancel_requested AND NOT pause_requested
    RETURNING {_EXECUTION}, seq
    """,
    postgres=f"""
    WITH changed AS (
        UPDATE headgate_task SET status = 'running', started_at = {{now}},
               executing_deadline = {{now + coalesce(timeout_seconds, :timeout)}}, update_date = {{now}}, seq = seq + 1
         WHERE id = :id AND status = :before AND exec_id::text = :exec_id
           AND NOT cancel_requested AND NOT pause_requested
        RETURNING *
    ), noted AS (
        INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)
        SELECT id, tenant_id, seq, {{now}}, 'started', 'scheduling', 'running', :actor, exec_id FROM changed
    )
    SELECT {_EXECUTION}, seq FROM changed
    """,
)
# A start that the broker delivered: the worker that received it now owns the task. It never waits: a row that another
# transaction has locked stays `scheduling`, and is tried again.


def _start_handed(guard: str, known: str, timeout: str) -> str:
    """PostgreSQL: only if `guard` holds, only tasks that are `known`, which may run for `timeout` by their type."""
    return f"""
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM unnest(:id::bigint[], :exec_id::uuid[]) AS o(id, exec_id)
          CROSS JOIN LATERAL (
            SELECT t.id FROM headgate_task t WHERE t.id = o.id AND t.status = :before AND t.exec_id = o.exec_id
               AND NOT t.cancel_requested AND NOT t.pause_requested {known} FOR NO KEY UPDATE SKIP LOCKED) t
         {guard}
    ), changed AS (
        UPDATE headgate_task t SET status = 'running', started_at = {{now}}, worker_id = :worker_id,
               executing_deadline = {{now + coalesce(t.timeout_seconds, {timeout})}},
               update_date = {{now}}, seq = t.seq + 1
         WHERE t.id = ANY(ARRAY(SELECT id FROM mine))
        RETURNING t.*
    ), noted AS (
        INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)
        SELECT id, tenant_id, seq, {{now}}, 'started', 'scheduling', 'running', :actor, exec_id FROM changed
    )
    SELECT {_EXECUTION}, seq FROM changed
    """


START_HANDED = Statement(
    sqlite=f"""
    UPDATE headgate_task SET status = 'running', started_at = :now, worker_id = :worker_id,
           executing_deadline = {{now + coalesce(timeout_seconds, :timeout)}}, update_date = :now, seq = seq + 1
     WHERE id = :id AND status = :before AND exec_id = :exec_id
       AND NOT cancel_requested AND NOT pause_requested
    RETURNING {_EXECUTION}, seq
    """,
    postgres=_start_handed("", "", "(:timeout::float8[])[width_bucket(t.id, :id::bigint[])]"),
)
# What a process knows of the catalog is passed with its version, and means nothing to any other version. Each lookup
# is a subquery: a join may be planned the other way round.
START_KNOWN = Statement(
    postgres=_start_handed(
        """
        WHERE (SELECT version FROM headgate_catalog WHERE one = 1) = :version
           AND (SELECT NOT lost FROM headgate_worker WHERE id = :worker_id)
        """,
        "AND (SELECT s.id FROM headgate_stream s WHERE s.id = t.stream_id) IS NOT NULL",
        "(:timeouts::float8[])[array_position(:types::text[], t.type)], :timeout::float8",
    )
)
HOLD_LIVE_WORKER = Statement("SELECT 1 FROM headgate_worker WHERE id = :worker_id AND NOT lost {lock FOR SHARE}")
HANDED = Statement("SELECT id, exec_id, type, stream_id FROM headgate_task WHERE id {in ids} AND status = :before")
TYPE_AND_STREAM = Statement("SELECT type, stream_id FROM headgate_task WHERE id = :id")
# A task with an exec_id is running or about to run, as the schema ensures, so no index by status is needed.
# The row is locked to the end: what an execution writes beside it must not come after the next one's.
OWNED = Statement(
    "SELECT cancel_requested, pause_requested, attempt FROM headgate_task"
    " WHERE id = :id AND CAST(exec_id AS text) = :exec_id {lock FOR NO KEY UPDATE}"
)
SET_PROGRESS = Statement(
    "UPDATE headgate_task SET progress = :progress, update_date = {now}"
    " WHERE id = :id AND CAST(exec_id AS text) = :exec_id"
)
# The audit keeps only the newest progress event of an execution, so that the timeline stays short.
DROP_PROGRESS = Statement(
    """
    DELETE FROM headgate_task_event WHERE task_id = :id AND seq = 0 AND kind = 'progress'
       AND CAST(exec_id AS text) = :exec_id AND at <= {now - :seconds}
       AND EXISTS (SELECT 1 FROM headgate_task t WHERE t.id = :id AND CAST(t.exec_id AS text) = :exec_id)
    """
)
NOTE_PROGRESS = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT t.id, t.tenant_id, 0, {now}, 'progress', :actor, t.exec_id, :progress FROM headgate_task t
     WHERE t.id = :id AND CAST(t.exec_id AS text) = :exec_id
       AND NOT EXISTS (SELECT 1 FROM headgate_task_event e
                        WHERE e.task_id = t.id AND e.seq = 0 AND e.kind = 'progress' AND e.exec_id = t.exec_id)
    """
)
# For a report whose execution has ended elsewhere before its event was written.
NOTE_LATE_PROGRESS = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT t.id, t.tenant_id, 0, {now}, 'progress', :actor, :exec_id, :progress FROM headgate_task t
     WHERE t.id = :id AND t.progress = :progress
       AND NOT EXISTS (SELECT 1 FROM headgate_task_event e
                        WHERE e.task_id = t.id AND e.seq = 0 AND e.kind = 'progress' AND e.detail = :progress)
    """
)
ADD_LOG = Statement(
    sqlite="""
    INSERT INTO headgate_task_log (task_id, at, attempt, level, message)
    VALUES (:task_id, :now, :attempt, :level, :message)
    """,
    postgres="""
    INSERT INTO headgate_task_log (task_id, at, attempt, level, message)
    SELECT o.task_id, {now}, o.attempt, o.level, o.message
      FROM unnest(:task_id::bigint[], :attempt::int[], :level::text[], :message::text[])
           AS o(task_id, attempt, level, message)
    """,
)
SAVE_CHECKPOINT = Statement(
    """
    INSERT INTO headgate_checkpoint (task_id, name, state, at) VALUES (:task_id, :name, :state, {now})
    ON CONFLICT (task_id, name) DO UPDATE SET state = excluded.state, at = excluded.at
    """
)
LOG = Statement(
    """
    SELECT id, at, attempt, level, message FROM headgate_task_log WHERE task_id = :task_id AND id > :after
     ORDER BY id LIMIT :limit
    """
)
CHECKPOINTS = Statement(
    "SELECT task_id, name, state FROM headgate_checkpoint WHERE task_id {in ids} ORDER BY task_id, name"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a task's own log."""

    id: int
    at: datetime
    attempt: int
    level: str
    message: str
