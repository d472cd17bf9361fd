"""Tasks whose time has come are queued."""

from headgate.core.machine import Due, decide
from headgate.core.states import TIMED
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, Statement, clock
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import MUTEXES, hold
from headgate.store.tasks.transitions import Write, apply

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


class DueTasks:
    """Tasks that wait for their time."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog

    def bring(self, limit: int = 1000) -> int:
        """Queue tasks whose time has come; how many."""
        return self._database.write(lambda db: bring(db, self._catalog.fresh(db), limit))

    def next_in(self) -> float | None:
        """Seconds until the next task's time comes, 0 or less if it has; None if none waits for its time."""
        seconds: float | None = self._database.read(lambda db: db.rows(NEXT_DUE)[0][0])
        return seconds


def bring(db: Db, catalog: Catalog, limit: int) -> int:
    """Move due tasks on to the line, oldest first; how many."""
    ids = [row[0] for row in db.rows(DUE, limit=limit)]
    if not ids:
        return 0
    keys = [(tenant, mutex) for tenant, mutex in db.rows(MUTEXES, ids=ids)]
    lock(db, keys)
    tasks = hold(db, ids)
    now = clock(db)
    writes = [
        Write(task.id, task.status, decide(task, Due(), catalog.type(task.type)), task.seq)
        for task in tasks
        if task.status in TIMED and task.start_time <= now
    ]
    done = apply(db, writes, "system:due")
    settle_queues(db, keys)
    return len(done)
