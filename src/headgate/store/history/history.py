"""Finished tasks leave the hot table for history, and history leaves after its time. In bounded batches."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.core.states import State
from headgate.store.access.keys import OUTDATED as OUTDATED_NONCES
from headgate.store.db.columns import EVERYTHING
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.pages import EXACT_UP_TO, LAST_ID
from headgate.store.db.statement import Db, Row, Statement, moment
from headgate.store.events.subscriptions import lowest_floor
from headgate.store.tasks.unique import OPEN, OUTDATED_KEYS

_ALL = ", ".join(EVERYTHING)

ArchiveCursor = tuple[datetime, int]  # finished_at, id
FIRST: ArchiveCursor = (datetime(1970, 1, 1, tzinfo=UTC), 0)

# `limit` counts finished tasks, whether or not they may leave: a child stays until its parent has ended, since the
# parent reads how its children ended, and a hundred thousand such children must not be read at once.
FINISHED = Statement(
    f"""
    SELECT t.id, t.finished_at,
           (SELECT p.id FROM headgate_task p WHERE p.id = t.parent_id AND p.status IN {OPEN} LIMIT 1) IS NULL
      FROM (SELECT f.id, f.finished_at, f.parent_id FROM headgate_task f
             WHERE f.finished_at IS NOT NULL AND f.finished_at <= {{now - :seconds}}
               AND (f.finished_at, f.id) > (:at, :id)
             ORDER BY f.finished_at, f.id LIMIT :limit {{lock FOR UPDATE SKIP LOCKED}}) t
     ORDER BY t.finished_at, t.id
    """
)
COPY = Statement(f"INSERT INTO headgate_task_his ({_ALL}) SELECT {_ALL} FROM headgate_task WHERE id {{in ids}}")
REMOVE = Statement("DELETE FROM headgate_task WHERE id {in ids}")
OLD = Statement(
    """
    SELECT id, finished_at FROM headgate_task_his
     WHERE status = :status AND finished_at <= {now - :seconds} AND (finished_at, id) > (:at, :id)
     ORDER BY finished_at, id LIMIT :limit {lock FOR UPDATE SKIP LOCKED}
    """
)
# Each uses the index of what has ended, and stops at what people are told exactly.
COUNT_FINISHED = Statement(
    """
    SELECT count(*) FROM (SELECT 1 FROM headgate_task
                           WHERE status = :status AND finished_at IS NOT NULL AND finished_at <= {now - :seconds}
                           LIMIT :most) f
    """
)
COUNT_OLD = Statement(
    """
    SELECT count(*) FROM (SELECT 1 FROM headgate_task_his
                           WHERE status = :status AND finished_at IS NOT NULL AND finished_at <= {now - :seconds}
                           LIMIT :most) f
    """
)
FORGET = (
    Statement("DELETE FROM headgate_task_event WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_log WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_checkpoint WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_attempt WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_usage WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_callback_attempt WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_callback_delivery WHERE task_id {in ids}"),
    Statement("DELETE FROM headgate_task_his WHERE id {in ids}"),
)

# Events that a subscription may not have handled stay, with everything stored about their tasks.
NOT_HANDLED = Statement("SELECT DISTINCT task_id FROM headgate_task_event WHERE task_id {in ids} AND id >= :floor")
# A callback whose receiver the policy blocks may never be delivered.
OWED_SECONDS = 7 * 86400.0
OWED = Statement(
    """
    SELECT DISTINCT task_id FROM headgate_callback_delivery
     WHERE task_id {in ids} AND status = 'pending' AND created_at > {now - :seconds}
    """
)
OLD_ACTS = Statement(
    """
    DELETE FROM headgate_task_event WHERE id IN (
           SELECT id FROM headgate_task_event
            WHERE task_id IS NULL AND at < {now - :seconds} AND id < :floor LIMIT :limit)
    RETURNING 1
    """
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
    Statement(  # last starts that no longer delay anything
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


@dataclass(frozen=True, slots=True)
class Batch:
    """How many tasks a batch moved or removed, the cursor to continue from, and whether there is more now."""

    count: int
    after: ArchiveCursor | None
    more: bool


class History(Noun):
    """Finished tasks on their way out, page by page. A page continues behind the last one and reads no row twice."""

    @writes
    def move(self, db: Db, *, seconds: float, limit: int = 1000, after: ArchiveCursor | None = None) -> Batch:
        """Look at tasks finished more than `seconds` ago, from `after` on, and move those to history that may go."""
        at, task_id = after or FIRST
        rows = db.rows(FINISHED, seconds=seconds, limit=limit, at=at, id=task_id)
        ids = [row[0] for row in rows if row[2]]
        if ids:
            db.send(COPY, ids=ids)
            db.send(REMOVE, ids=ids)
        return _batch(len(ids), rows, limit, after)

    def archive(self, *, seconds: float = 0.0, limit: int = 1000) -> int:
        """Move a batch of tasks finished more than `seconds` ago, from the start; how many. One transaction a page."""
        page = self.move(seconds=seconds, limit=limit)
        while not page.count and page.more:  # children of parents that are still open
            page = self.move(seconds=seconds, limit=limit, after=page.after)
        return page.count

    @writes
    def remove(
        self, db: Db, state: State, *, seconds: float, limit: int = 1000, after: ArchiveCursor | None = None
    ) -> Batch:
        """Remove history that ended in `state` more than `seconds` ago, from `after` on, with all that belongs to it.

        Tasks whose events a subscription has not handled stay; tasks with an undelivered callback stay for a week.
        """
        at, task_id = after or FIRST
        rows = db.rows(OLD, status=state.value, seconds=seconds, limit=limit, at=at, id=task_id)
        ids = [row[0] for row in rows]
        if ids:
            stay = {row[0] for row in db.rows(OWED, ids=ids, seconds=OWED_SECONDS)}
            if (floor := lowest_floor(db)) is not None:
                stay |= {row[0] for row in db.rows(NOT_HANDLED, ids=ids, floor=floor)}
            ids = [task_id for task_id in ids if task_id not in stay]
        for statement in FORGET if ids else ():
            db.send(statement, ids=ids)
        return _batch(len(ids), rows, limit, after)

    @reads
    def count(self, db: Db, seconds: Mapping[State, float]) -> dict[State, int]:
        """How many tasks ended in each state that long ago; 10,001 stands for anything above 10,000.

        Some may stay when they are removed: a child of an open parent, an event that is not handled yet.
        """
        most = EXACT_UP_TO + 1
        counts = {}
        for state, age in seconds.items():
            sent = [db.send(each, status=state.value, seconds=age, most=most) for each in (COUNT_FINISHED, COUNT_OLD)]
            counts[state] = min(sum(count for each in sent for (count,) in each.rows()), most)
        return counts

    def purge(self, states: Collection[State], *, seconds: float, limit: int = 1000) -> int:
        """Remove a batch of history in `states` that ended more than `seconds` ago; how many. A transaction a state."""
        removed = 0
        for state in sorted(states):
            if removed < limit:
                removed += self.remove(state, seconds=seconds, limit=limit - removed).count
        return removed

    @writes
    def forget_acts(self, db: Db, *, seconds: float, limit: int = 1000) -> int:
        """Remove a batch of events that belong to no task and are older than that; how many."""
        floor = lowest_floor(db)
        return len(db.rows(OLD_ACTS, seconds=seconds, limit=limit, floor=LAST_ID if floor is None else floor))

    @writes
    def forget_outdated(self, db: Db, *, seconds: float, limit: int = 1000) -> int:
        """Forget a batch of idempotency keys, answers to claims, last starts and gone workers, older than `seconds`.

        Also nonces that no request may carry any more, and unique keys that have not been used since.
        """
        statements = (*OUTDATED, OUTDATED_NONCES, OUTDATED_KEYS)
        return sum(len(db.rows(statement, seconds=seconds, limit=limit)) for statement in statements)


def _batch(count: int, rows: list[Row], limit: int, after: ArchiveCursor | None) -> Batch:
    return Batch(count, (moment(rows[-1][1]), rows[-1][0]) if rows else after, len(rows) == limit)
