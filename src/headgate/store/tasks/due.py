"""Tasks that are due are queued."""

from headgate.core.machine import Due
from headgate.core.states import TIMED
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database
from headgate.store.db.indexes import TIMED_STATES
from headgate.store.db.statement import Db, Statement, clock
from headgate.store.tasks.transitions import happen, locked

DUE = Statement(
    f"""
    SELECT id FROM headgate_task WHERE status IN {TIMED_STATES} AND start_time <= {{now}} ORDER BY start_time, id
     LIMIT :limit
    """
)
NEXT_DUE = Statement(
    sqlite=f"""
    SELECT (min(start_time) - :now) / 1000000.0 FROM headgate_task WHERE status IN {TIMED_STATES}
    """,
    postgres=f"""
    SELECT extract(epoch FROM min(start_time) - {{now}})::float8
      FROM headgate_task WHERE status IN {TIMED_STATES}
    """,
)


class DueTasks:
    """Tasks that wait for their time."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog

    def bring(self, limit: int = 1000) -> int:
        """Queue tasks that are due, oldest first; how many."""

        def bring(db: Db) -> int:
            with locked(db, [row[0] for row in db.rows(DUE, limit=limit)]) as found:
                now = clock(db)
                due = [task for task in found if task.status in TIMED and task.start_time <= now]
                happen(db, self._catalog.fresh(db), due, Due(), "system:due")
            return len(due)

        return self._database.write(bring)

    def next_in(self) -> float | None:
        """Seconds until the next task is due, 0 or less if one is; None if none waits for its time."""
        seconds: float | None = self._database.read(lambda db: db.rows(NEXT_DUE)[0][0])
        return seconds
