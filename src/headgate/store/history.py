"""Finished tasks leave the hot table for history, and history leaves after its time. In bounded batches."""

from headgate.core.states import State
from headgate.store.rows import SELECTED
from headgate.store.sql import Db, Statement
from headgate.store.tasks import _OPEN

_ALL = f"{SELECTED}, stream_id, uses, claim_no"

# A child stays until its parent has ended, which asks how its children did.
FINISHED = Statement(
    sqlite=f"""
    SELECT t.id FROM task t
     WHERE t.finished_at IS NOT NULL AND t.finished_at <= {{now - :seconds}}
       AND (t.parent_id IS NULL
            OR (SELECT p.id FROM task p WHERE p.id = t.parent_id AND p.status IN {_OPEN} LIMIT 1) IS NULL)
     ORDER BY t.finished_at, t.id LIMIT :limit
    """,
    postgres=f"""
    SELECT t.id FROM task t
     WHERE t.finished_at IS NOT NULL AND t.finished_at <= {{now - :seconds}}
       AND (t.parent_id IS NULL
            OR (SELECT p.id FROM task p WHERE p.id = t.parent_id AND p.status IN {_OPEN} LIMIT 1) IS NULL)
     ORDER BY t.finished_at, t.id LIMIT :limit FOR UPDATE SKIP LOCKED
    """,
)
COPY = Statement(f"INSERT INTO task_his ({_ALL}) SELECT {_ALL} FROM task WHERE id {{in ids}}")
REMOVE = Statement("DELETE FROM task WHERE id {in ids}")
OLD = Statement(
    sqlite="""
    SELECT id FROM task_his WHERE status {in states} AND finished_at <= {now - :seconds}
     ORDER BY finished_at, id LIMIT :limit
    """,
    postgres="""
    SELECT id FROM task_his WHERE status = ANY(:states::text[]) AND finished_at <= {now - :seconds}
     ORDER BY finished_at, id LIMIT :limit FOR UPDATE SKIP LOCKED
    """,
)
FORGET = (
    Statement("DELETE FROM task_event WHERE task_id {in ids}"),
    Statement("DELETE FROM task_log WHERE task_id {in ids}"),
    Statement("DELETE FROM checkpoint WHERE task_id {in ids}"),
    Statement("DELETE FROM task_his WHERE id {in ids}"),
)


def archive(db: Db, seconds: float, limit: int) -> int:
    """Move a batch of tasks that finished more than `seconds` ago to history; how many."""
    ids = [row[0] for row in db.rows(FINISHED, seconds=seconds, limit=limit)]
    if ids:
        db.send(COPY, ids=ids)
        db.send(REMOVE, ids=ids)
    return len(ids)


def purge(db: Db, states: list[State], seconds: float, limit: int) -> int:
    """Remove a batch of history that ended so, more than `seconds` ago, with all that was kept about it."""
    ids = [row[0] for row in db.rows(OLD, states=[state.value for state in states], seconds=seconds, limit=limit)]
    if ids:
        for statement in FORGET:
            db.send(statement, ids=ids)
    return len(ids)
