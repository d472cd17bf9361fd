"""What happened, interval by interval, for charts: two hours in steps of ten seconds, a week in steps of five minutes.

Any number of processes may count. An interval is counted from the audit once it is over, and the first write wins: all
of them count the same, except for a transaction that commits seconds after it began.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from statistics import quantiles
from typing import Any

from headgate.core.states import FINAL, HELD, TIMED, State
from headgate.store.db.database import Noun, reads
from headgate.store.db.statement import Db, Row, Statement, clock, moment
from headgate.store.reading.statistics import Count, counts

FINE, COARSE = 10, 300
RETENTION = {FINE: 2 * 3600, COARSE: 7 * 86400}
LAG_SECONDS = 2.0  # for commits that are under way when an interval ends
LONGEST_GAP = 600.0  # after a longer gap begin anew: there may be millions of events to go through
MOST_MEASURED = 2_000
AGAIN = frozenset({"retrying", "overdue", "lease_lost"})


@dataclass(frozen=True, slots=True)
class Point:
    """One interval: how often things happened in it, and the state at its end (None: not measured)."""

    at: datetime
    mark: int
    submitted: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    waiting: int | None = None
    later: int | None = None
    running: int | None = None
    dead: int | None = None
    oldest: float | None = None


_NAMES = tuple(field.name for field in fields(Point))
_COLUMNS = ", ".join(_NAMES)
COUNTED = ("submitted", "started", "succeeded", "failed", "retried", "cancelled")
_SUMS = ", ".join(f"sum({name})" for name in COUNTED)
_PEAKS = ", ".join(f"max({name})" for name in _NAMES[_NAMES.index("wait_p50") :])

LAST = Statement("SELECT at, mark FROM headgate_series WHERE step = :step ORDER BY at DESC LIMIT 1")
LAST_EVENT = Statement("SELECT coalesce(max(id), 0) FROM headgate_task_event")
HAPPENED = Statement(
    sqlite=f"""
    SELECT at / {FINE * 1_000_000} * {FINE}, kind, before, after, count(*), max(id) FROM headgate_task_event
     WHERE id > :mark AND at < :end AND task_id IS NOT NULL GROUP BY 1, 2, 3, 4
    """,
    postgres=f"""
    SELECT (floor(extract(epoch FROM at) / {FINE}) * {FINE})::bigint, kind, before, after, count(*), max(id)
      FROM headgate_task_event WHERE id > :mark AND at < :end AND at >= :start AND task_id IS NOT NULL
     GROUP BY 1, 2, 3, 4
    """,
)
_MEASURED = """
    SELECT start_time, started_at, exec_time FROM {table}
     WHERE finished_at IS NOT NULL AND finished_at >= :start AND finished_at < :end
     ORDER BY finished_at DESC LIMIT :limit
"""
MEASURED = tuple(Statement(_MEASURED.format(table=table)) for table in ("headgate_task", "headgate_task_his"))
ADD = Statement(
    f"""
    INSERT INTO headgate_series (step, {_COLUMNS}) VALUES (:step, {", ".join(f":{name}" for name in _NAMES)})
    ON CONFLICT (step, at) DO NOTHING
    """
)
ROLL_UP = Statement(
    f"""
    INSERT INTO headgate_series (step, {_COLUMNS})
    SELECT {COARSE}, :start, max(mark), {_SUMS}, {_PEAKS} FROM headgate_series
     WHERE step = {FINE} AND at >= :start AND at < :end HAVING count(*) > 0
    ON CONFLICT (step, at) DO NOTHING
    """
)
FORGET = Statement("DELETE FROM headgate_series WHERE step = :step AND at < {now - :seconds}")
NEWEST = Statement(f"SELECT {_COLUMNS} FROM headgate_series WHERE step = {FINE} ORDER BY at DESC LIMIT 1")
SINCE = Statement(f"SELECT {_COLUMNS} FROM headgate_series WHERE step = :step AND at >= {{now - :seconds}} ORDER BY at")


class Series(Noun):
    """What happened, interval by interval."""

    def take(self) -> int:
        """Count the intervals that are over and not counted yet; how many there were. In two transactions."""
        points = self._database.read(_counted)
        if points:
            self._database.write(lambda db: _keep(db, points))
        return len(points)

    @reads
    def newest(self, db: Db) -> Point | None:
        """The last interval of ten seconds that was counted."""
        rows = db.rows(NEWEST)
        return _point(rows[0]) if rows else None

    @reads
    def since(self, db: Db, seconds: float) -> tuple[int, list[Point]]:
        """The last `seconds`, oldest first, and how long each interval is: ten seconds, or five minutes."""
        step = FINE if seconds <= RETENTION[FINE] else COARSE
        return step, [_point(row) for row in db.rows(SINCE, step=step, seconds=seconds)]


def _counted(db: Db) -> list[Point]:
    now = clock(db)
    end = _floor(now - timedelta(seconds=LAG_SECONDS), FINE)
    last = db.rows(LAST, step=FINE)
    if not last or (end - moment(last[0][0])).total_seconds() > LONGEST_GAP:
        [[mark]] = db.rows(LAST_EVENT)
        return [Point(end - timedelta(seconds=FINE), mark)]
    start, mark = moment(last[0][0]) + timedelta(seconds=FINE), last[0][1]
    if start >= end:
        return []
    happened: dict[int, list[Row]] = defaultdict(list)
    for row in db.rows(HAPPENED, mark=mark, start=db.time(start - timedelta(seconds=FINE)), end=db.time(end)):
        happened[max(row[0], int(start.timestamp()))].append(row[1:])
    points = []
    while start < end:
        rows = happened[int(start.timestamp())]
        mark = max([mark, *(row[-1] for row in rows)])
        stands = counts(db) if start + timedelta(seconds=FINE) == end else None
        points.append(_summed(db, start, mark, rows, stands, now))
        start += timedelta(seconds=FINE)
    return points


def _summed(
    db: Db, start: datetime, mark: int, rows: Sequence[Row], stands: Sequence[Count] | None, now: datetime
) -> Point:
    figures: dict[str, Any] = dict.fromkeys(COUNTED, 0)
    for kind, before, after, count, _ in rows:
        for name in _meant(kind, before, after):
            figures[name] += count
    waits, runs = _times(db, start, start + timedelta(seconds=FINE))
    return Point(start, mark, **figures | _percentiles("wait", waits) | _percentiles("run", runs) | _stood(stands, now))


def _meant(kind: str, before: str | None, after: str | None) -> list[str]:
    """What an event counts as."""
    if kind in ("submitted", "started"):
        return [kind]
    if kind in AGAIN and after is not None and after not in FINAL:  # else it is told besides the transition
        return ["retried"]
    if before == after or before == State.DEAD:
        return []
    if after in (State.SUCCEEDED, State.PARTIAL):
        return ["succeeded"]
    if after in (State.FAILED, State.DEAD):
        return ["failed"]
    return ["cancelled"] if after == State.CANCELLED else []


def _times(db: Db, start: datetime, end: datetime) -> tuple[list[float], list[float]]:
    """How long tasks that ended then had waited, from when they were due, and how long they ran: the latest of them."""
    waits, runs = [], []
    for statement in MEASURED:
        for due, started, ran in db.rows(statement, start=db.time(start), end=db.time(end), limit=MOST_MEASURED):
            if started is not None and ran is not None:
                waits.append(max(0.0, (moment(started) - moment(due)).total_seconds()))
                runs.append(ran)
    return waits, runs


def _percentiles(name: str, values: list[float]) -> dict[str, float | None]:
    if not values:
        return {f"{name}_p50": None, f"{name}_p95": None}
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return {f"{name}_p50": cuts[9], f"{name}_p95": cuts[18]}


_LINE = frozenset({State.QUEUED, State.BLOCKED})


def _stood(stands: Sequence[Count] | None, now: datetime) -> dict[str, int | float | None]:
    """How many there are, and how old the oldest is that waits. None: not measured; empty: no task is open."""
    if stands is None:
        return {}
    oldest = min((each.oldest for each in stands if each.status in _LINE and each.oldest), default=None)
    meant = {"waiting": _LINE, "later": TIMED, "running": HELD, "dead": {State.DEAD}}
    figures: dict[str, int | float | None] = {
        name: sum(each.count for each in stands if each.status in states) for name, states in meant.items()
    }
    return figures | {"oldest": None if oldest is None else max(0.0, (now - oldest).total_seconds())}


def _keep(db: Db, points: Sequence[Point]) -> None:
    for point in points:
        values = {name: getattr(point, name) for name in _NAMES}
        db.send(ADD, step=FINE, **values | {"at": db.time(point.at)})
    for start in sorted({_floor(point.at, COARSE) for point in points}):
        end = start + timedelta(seconds=COARSE)
        if points[-1].at + timedelta(seconds=FINE) >= end:
            db.send(ROLL_UP, start=db.time(start), end=db.time(end))
    for step, seconds in RETENTION.items():
        db.send(FORGET, step=step, seconds=seconds)


def _floor(at: datetime, step: int) -> datetime:
    return at.replace(microsecond=0) - timedelta(seconds=int(at.timestamp()) % step)


def _point(row: Row) -> Point:
    return Point(moment(row[0]), *row[1:])
