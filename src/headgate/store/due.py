"""Tasks whose time has come, and lines that nobody settled."""

from headgate.core.machine import Due, decide
from headgate.core.states import TIMED
from headgate.store.catalog import Catalog
from headgate.store.line import Key, lock, settle_lines
from headgate.store.rows import MUTEXES, hold
from headgate.store.sql import Db, Statement, moment
from headgate.store.tasks import NOW
from headgate.store.transitions import Write, apply

DUE = Statement(
    """
    SELECT id FROM headgate_task WHERE status IN ('pending', 'retrying') AND start_time <= {now} ORDER BY start_time, id
     LIMIT :limit
    """
)
NEXT_DUE = Statement(
    sqlite="""
    SELECT (min(start_time) - :now) / 1000000.0 FROM headgate_task WHERE status IN ('pending', 'retrying')
    """,
    postgres="""
    SELECT extract(epoch FROM min(start_time) - {now})::float8
      FROM headgate_task WHERE status IN ('pending', 'retrying')
    """,
)
# Keys in line, hopping from one to the next.
LINES = Statement(
    """
    SELECT tenant_id, mutex FROM headgate_task
     WHERE mutex IS NOT NULL AND status IN ('queued', 'blocked', 'waiting')
       AND (tenant_id, mutex) > (:tenant_id, :mutex)
     ORDER BY tenant_id, mutex LIMIT 1
    """
)


def bring_due(db: Db, catalog: Catalog, limit: int) -> int:
    """Move due tasks on to the line, oldest first; how many."""
    ids = [row[0] for row in db.rows(DUE, limit=limit)]
    if not ids:
        return 0
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=ids)]
    lock(db, keys)
    tasks = hold(db, ids)
    [[now]] = db.rows(NOW)
    writes = [
        Write(task.id, task.status, decide(task, Due(), catalog.type(task.type)), task.seq)
        for task in tasks
        if task.status in TIMED and task.start_time <= moment(now)
    ]
    done = apply(db, writes, "system:due")
    settle_lines(db, keys)
    return len(done)


def next_due(db: Db) -> float | None:
    """Seconds until the next task's time comes, 0 or less if it has; None if none waits for its time."""
    seconds: float | None = db.rows(NEXT_DUE)[0][0]
    return seconds


def repair_lines(db: Db, after: Key, limit: int) -> Key | None:
    """Put a page of lines in order, whatever a bug or a crash left; where to go on, or None at the end."""
    keys: list[Key] = []
    while len(keys) < limit and (found := db.rows(LINES, tenant_id=after[0], mutex=after[1])):
        after = (found[0][0], found[0][1])
        keys.append(after)
    lock(db, keys)
    settle_lines(db, keys)
    return after if len(keys) == limit else None
