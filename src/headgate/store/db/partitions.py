"""The days of `headgate_task_event` on PostgreSQL: made ahead of time, dropped when their time is over."""

from datetime import datetime, timedelta

from headgate.store.db.statement import SPACE, Db, Statement, clock

DAYS_AHEAD = 3
_LATE_ROWS = Statement("SELECT 1 FROM headgate_task_event_default WHERE at >= :first AND at < :next LIMIT 1")
# Both take a lock that makes all writers wait: give up soon and try again later.
_PATIENCE = Statement(postgres="SELECT set_config('lock_timeout', '500ms', true)")
_ONE_AT_A_TIME = Statement(postgres=f"SELECT pg_advisory_xact_lock({SPACE}, -4)")
_NAMES = Statement(
    postgres="""
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'headgate_task_event'::regclass
    """
)


def make_partitions(db: Db) -> list[str]:
    """Make the partitions of today and the next days; those made. What has no day of its own stays in the default."""
    if db.dialect == "sqlite":
        return []
    db.send(_PATIENCE)
    db.send(_ONE_AT_A_TIME)  # of processes that start together the first makes them, and the others find them
    present = {row[0] for row in db.rows(_NAMES)}
    today = clock(db).replace(hour=0, minute=0, second=0, microsecond=0)
    made = []
    for first in (today + timedelta(days=number) for number in range(DAYS_AHEAD)):
        name, following = _name(first), first + timedelta(days=1)
        if name not in present and not db.rows(_LATE_ROWS, first=first, next=following):
            bounds = f"FROM ('{first.isoformat()}') TO ('{following.isoformat()}')"
            db.send(
                Statement(
                    postgres=f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF headgate_task_event FOR VALUES {bounds}"
                )
            )
            made.append(name)
    return made


def drop_partitions(db: Db, before: datetime) -> list[str]:
    """Drop the oldest empty day that ended before `before`; returns what was dropped.

    Only one per call: no audit row can be written while it runs.
    """
    if db.dialect == "sqlite":
        return []
    db.send(_PATIENCE)
    old = sorted(
        row[0] for row in db.rows(_NAMES) if row[0] != "headgate_task_event_default" and row[0] < _name(before)
    )
    for name in old:
        if not db.rows(Statement(postgres=f"SELECT 1 FROM {name} LIMIT 1")):
            db.send(Statement(postgres=f"DROP TABLE {name}"))
            return [name]
    return []


def _name(day: datetime) -> str:
    return f"headgate_task_event_{day:%Y%m%d}"
