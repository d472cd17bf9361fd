"""An execution under way: its start confirmed, its reports taken, each under its exec_id."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import StaleExecution
from headgate.core.task import Execution, check_json, check_name, clip
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.contract import Control, execution_of
from headgate.store.db.columns import CLAIMED
from headgate.store.db.statement import Db, Statement, moment

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
TYPE_OF = Statement("SELECT type FROM headgate_task WHERE id = :id")


def start(db: Db, catalog: Catalog, task_id: int, exec_id: str, actor: str) -> Execution | None:
    """Confirm the start of a task that was handed over as `scheduling`; None if it is not this exec_id's to start."""
    kinds = db.rows(TYPE_OF, id=task_id)
    if not kinds:
        return None
    timeout = catalog.type(kinds[0][0]).timeout_seconds
    started = db.rows(START, id=task_id, exec_id=exec_id, before="scheduling", timeout=timeout, actor=actor)
    if not started:
        return None
    *row, seq = started[0]
    execution = execution_of(tuple(row), catalog)
    db.note(lambda: [(task_id, execution.tenant_id, seq, "started", "scheduling", "running", exec_id, None)], actor)
    return execution


# Whoever has an exec_id runs or is about to: that is what the schema says, and an index by status is not asked.
OWNED = Statement(
    "SELECT cancel_requested, pause_requested, attempt FROM headgate_task"
    " WHERE id = :id AND CAST(exec_id AS text) = :exec_id"
)


def owned(db: Db, task_id: int, exec_id: str) -> tuple[Control, int]:
    """What is asked of the execution, and its attempt; `StaleExecution` if it owns the task no more."""
    found = db.rows(OWNED, id=task_id, exec_id=exec_id)
    if not found:
        raise StaleExecution(f"exec_id {exec_id} does not own task {task_id}")
    cancel, pause, attempt = found[0]
    return Control(bool(cancel), bool(pause)), attempt


SET_PROGRESS = Statement(
    """
    UPDATE headgate_task SET progress = :progress, update_date = {now}
     WHERE id = :id AND CAST(exec_id AS text) = :exec_id
    RETURNING id
    """
)
NOTE_PROGRESS = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT id, tenant_id, 0, {now}, 'progress', :actor, :exec_id, :progress FROM headgate_task WHERE id = :id
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


def report_progress(db: Db, task_id: int, exec_id: str, progress: str, actor: str) -> Control:
    """Note how far the execution is, as JSON."""
    check_json("progress", progress)
    control, _ = owned(db, task_id, exec_id)
    if not db.rows(SET_PROGRESS, id=task_id, exec_id=exec_id, progress=progress):
        raise StaleExecution(f"exec_id {exec_id} does not own task {task_id}")
    db.send(NOTE_PROGRESS, id=task_id, exec_id=exec_id, progress=progress, actor=actor)
    return control


def add_log(db: Db, task_id: int, exec_id: str, lines: Sequence[tuple[str, str]]) -> Control:
    """Keep log lines (level, message) with the task."""
    control, attempt = owned(db, task_id, exec_id)
    db.each(
        ADD_LOG,
        ("task_id", "attempt", "level", "message"),
        [(task_id, attempt, clip(level), clip(text)) for level, text in lines],
    )
    return control


def save_checkpoint(db: Db, task_id: int, exec_id: str, name: str, state: str) -> Control:
    """Keep a named state that outlives the execution."""
    check_name("checkpoint", name)
    check_json("checkpoint", state)
    control, _ = owned(db, task_id, exec_id)
    db.send(SAVE_CHECKPOINT, task_id=task_id, name=name, state=state)
    return control


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


def log_of(db: Db, task_id: int, after: int, limit: int) -> list[LogLine]:
    rows = db.rows(LOG, task_id=task_id, after=after, limit=limit)
    return [LogLine(number, moment(at), attempt, level, message) for number, at, attempt, level, message in rows]


def checkpoints_of(db: Db, ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """What executions of these tasks have saved, by name, as JSON; whoever has saved nothing is left out."""
    found: dict[int, dict[str, str]] = {}
    for task_id, name, state in db.rows(CHECKPOINTS, ids=list(ids)):
        found.setdefault(task_id, {})[name] = state
    return found
