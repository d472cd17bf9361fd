"""Finished tasks leave the hot table for history, and history leaves after its time. In bounded batches."""

from datetime import datetime

from headgate.core.states import State
from headgate.store.keys import OUTDATED as OUTDATED_NONCES
from headgate.store.rows import SELECTED
from headgate.store.sql import Db, Statement, moment_or_none
from headgate.store.tasks import _OPEN
from headgate.store.uniques import OUTDATED_KEYS

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
    Statement("DELETE FROM callback_attempt WHERE task_id {in ids}"),
    Statement("DELETE FROM callback_delivery WHERE task_id {in ids}"),
    Statement("DELETE FROM task_his WHERE id {in ids}"),
)

# What is kept for a while and belongs to no task, a batch of each.
OUTDATED = (
    Statement(
        """
        DELETE FROM idempotency WHERE (tenant_id, key) IN (
               SELECT tenant_id, key FROM idempotency WHERE at < {now - :seconds} ORDER BY at LIMIT :limit)
        RETURNING 1
        """
    ),
    Statement(
        """
        DELETE FROM claim_answer WHERE (worker_id, claim_id) IN (
               SELECT worker_id, claim_id FROM claim_answer WHERE at < {now - :seconds} ORDER BY at LIMIT :limit)
        RETURNING 1
        """
    ),
    Statement(  # a last start that holds up nothing any more says nothing
        """
        DELETE FROM agent_start WHERE (agent_id, tenant_id) IN (
               SELECT agent_id, tenant_id FROM agent_start
                WHERE started_at < {now - :seconds} AND started_at < {now - seconds} LIMIT :limit)
        RETURNING 1
        """
    ),
    Statement(
        """
        DELETE FROM worker WHERE id IN (
               SELECT id FROM worker
                WHERE lost AND lease_until < {now - :seconds}
                  AND id NOT IN (SELECT worker_id FROM task
                                  WHERE status IN ('scheduling', 'running') AND worker_id IS NOT NULL)
                LIMIT :limit)
        RETURNING 1
        """
    ),
)
OLD_ACTS = Statement(
    """
    DELETE FROM task_event WHERE id IN (
           SELECT id FROM task_event WHERE task_id IS NULL AND at < {now - :seconds} LIMIT :limit)
    RETURNING 1
    """
)
LAST_ACT = Statement("SELECT max(at) FROM task_event WHERE task_id IS NULL AND kind = :kind")


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


def forget_outdated(db: Db, seconds: float, limit: int) -> int:
    """Forget a batch of idempotency keys, answers to claims, last starts and workers that have gone, older than that.

    And of nonces that no request may carry any more, and keys under which nobody has asked for a task since; how many.
    """
    statements = (*OUTDATED, OUTDATED_NONCES, OUTDATED_KEYS)
    return sum(len(db.rows(statement, seconds=seconds, limit=limit)) for statement in statements)


def forget_acts(db: Db, seconds: float, limit: int) -> int:
    """Remove a batch of audit rows that belong to no task and are older than that; how many."""
    return len(db.rows(OLD_ACTS, seconds=seconds, limit=limit))


def last_act(db: Db, kind: str) -> datetime | None:
    """When something of this kind was last done to the system."""
    return moment_or_none(db.rows(LAST_ACT, kind=kind)[0][0])
