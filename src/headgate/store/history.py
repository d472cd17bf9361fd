"""Finished tasks leave the hot table for history, and history leaves after its time. In bounded batches."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.core.states import State
from headgate.store.ground import Ground
from headgate.store.keys import OUTDATED as OUTDATED_NONCES
from headgate.store.rows import SELECTED
from headgate.store.sql import Db, Row, Statement, moment, moment_or_none
from headgate.store.tasks import _OPEN
from headgate.store.uniques import OUTDATED_KEYS

_ALL = f"{SELECTED}, stream_id, uses, claim_no"

Place = tuple[datetime, int]  # finished_at, id
FIRST: Place = (datetime(1970, 1, 1, tzinfo=UTC), 0)

# A page is so many that have finished, whether or not they may go: a child stays until its parent has ended, which asks
# how its children did, and a hundred thousand such children are not to be read in one go.
_FINISHED = """
SELECT t.id, t.finished_at,
       (SELECT p.id FROM headgate_task p WHERE p.id = t.parent_id AND p.status IN {open} LIMIT 1) IS NULL
  FROM (SELECT f.id, f.finished_at, f.parent_id FROM headgate_task f
         WHERE f.finished_at IS NOT NULL AND f.finished_at <= {now - :seconds}
           AND (f.finished_at, f.id) > (:at, :id)
         ORDER BY f.finished_at, f.id LIMIT :limit {lock}) t
 ORDER BY t.finished_at, t.id
""".replace("{open}", _OPEN)
FINISHED = Statement(
    sqlite=_FINISHED.replace("{lock}", ""), postgres=_FINISHED.replace("{lock}", "FOR UPDATE SKIP LOCKED")
)
COPY = Statement(f"INSERT INTO headgate_task_his ({_ALL}) SELECT {_ALL} FROM headgate_task WHERE id {{in ids}}")
REMOVE = Statement("DELETE FROM headgate_task WHERE id {in ids}")
_OLD = """
SELECT id, finished_at FROM headgate_task_his
 WHERE status = :status AND finished_at <= {now - :seconds} AND (finished_at, id) > (:at, :id)
 ORDER BY finished_at, id LIMIT :limit {lock}
"""
OLD = Statement(sqlite=_OLD.replace("{lock}", ""), postgres=_OLD.replace("{lock}", "FOR UPDATE SKIP LOCKED"))
FORGET = (
    Statement("DELETE FROM headgate_task_event WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_log WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_checkpoint WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_usage WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_callback_attempt WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_callback_delivery WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_his WHERE id {in ids}"),
)

# What is kept for a while and belongs to no task, a batch of each.
OUTDATED = (
    Statement(
        """
        DELETE FROM headgate_idempotency WHERE (tenant_id, key) IN (
               SELECT tenant_id, key FROM headgate_idempotency WHERE at < {now - :seconds} ORDER BY at LIMIT :limit)
        RETURNING 1
        """
    ),
    Statement(
        """
        DELETE FROM headgate_claim_answer WHERE (worker_id, claim_id) IN (
               SELECT worker_id, claim_id FROM headgate_claim_answer WHERE at < {now - :seconds}
                ORDER BY at LIMIT :limit)
        RETURNING 1
        """
    ),
    Statement(  # a last start that holds up nothing any more says nothing
        """
        DELETE FROM headgate_agent_start WHERE (agent_id, tenant_id) IN (
               SELECT agent_id, tenant_id FROM headgate_agent_start
                WHERE started_at < {now - :seconds} AND started_at < {now - seconds} LIMIT :limit)
        RETURNING 1
        """
    ),
    Statement(
        """
        DELETE FROM headgate_worker WHERE id IN (
               SELECT id FROM headgate_worker
                WHERE lost AND lease_until < {now - :seconds}
                  AND id NOT IN (SELECT worker_id FROM headgate_task
                                  WHERE status IN ('scheduling', 'running') AND worker_id IS NOT NULL)
                LIMIT :limit)
        RETURNING 1
        """
    ),
)
OLD_ACTS = Statement(
    """
    DELETE FROM headgate_task_event WHERE id IN (
           SELECT id FROM headgate_task_event WHERE task_id IS NULL AND at < {now - :seconds} LIMIT :limit)
    RETURNING 1
    """
)
LAST_ACT = Statement("SELECT max(at) FROM headgate_task_event WHERE task_id IS NULL AND kind = :kind")


@dataclass(frozen=True, slots=True)
class Page:
    """How many tasks a batch took along, behind which to go on, and whether there is more at once."""

    count: int
    after: Place | None
    more: bool


class History:
    """Finished tasks on their way out, page by page. A page that goes on behind another walks over nothing twice."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def move(self, *, seconds: float, limit: int = 1000, after: Place | None = None) -> Page:
        """Look at tasks finished more than `seconds` ago, from `after` on, and move those to history that may go."""
        return self._ground.write(lambda db: archive(db, seconds, limit, after))

    def move_some(self, seconds: float, limit: int) -> int:
        """Move a batch from the start; how many. One transaction a page."""
        page = self.move(seconds=seconds, limit=limit)
        while not page.count and page.more:  # children of parents that are still open
            page = self.move(seconds=seconds, limit=limit, after=page.after)
        return page.count

    def remove(self, state: State, *, seconds: float, limit: int = 1000, after: Place | None = None) -> Page:
        """Remove history that ended so more than `seconds` ago, from `after` on, with all that is kept about it."""
        return self._ground.write(lambda db: purge(db, state, seconds, limit, after))

    def remove_some(self, states: Collection[State], seconds: float, limit: int) -> int:
        """Remove a batch from the start; how many. One transaction a state."""
        removed = 0
        for state in sorted(states):
            if removed < limit:
                removed += self.remove(state, seconds=seconds, limit=limit - removed).count
        return removed


def archive(db: Db, seconds: float, limit: int, after: Place | None) -> Page:
    """Look at a page of tasks that finished more than `seconds` ago, and move those to history that may go."""
    at, task_id = after or FIRST
    rows = db.rows(FINISHED, seconds=seconds, limit=limit, at=at, id=task_id)
    ids = [row[0] for row in rows if row[2]]
    if ids:
        db.send(COPY, ids=ids)
        db.send(REMOVE, ids=ids)
    return _page(len(ids), rows, limit, after)


def purge(db: Db, state: State, seconds: float, limit: int, after: Place | None) -> Page:
    """Remove a page of history that ended so, more than `seconds` ago, with all that was kept about it."""
    at, task_id = after or FIRST
    rows = db.rows(OLD, status=state.value, seconds=seconds, limit=limit, at=at, id=task_id)
    ids = [row[0] for row in rows]
    if ids:
        for statement in FORGET:
            db.send(statement, ids=ids)
    return _page(len(ids), rows, limit, after)


def _page(count: int, rows: list[Row], limit: int, after: Place | None) -> Page:
    return Page(count, (moment(rows[-1][1]), rows[-1][0]) if rows else after, len(rows) == limit)


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
