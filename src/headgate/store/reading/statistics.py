"""Counts and run times, for people to look at."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, quantiles

from headgate.core.states import State
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, Row, Statement, moment
from headgate.store.reading.samples import keep_sample, read_sample

MOST_MEASURED = 100_000


SAMPLE = Statement("SELECT lane, status, count, oldest, at FROM headgate_sample")
HELD = Statement(
    "SELECT lane, status, count(*) FROM headgate_task WHERE status IN ('scheduling', 'running') GROUP BY lane, status"
)


@dataclass(frozen=True, slots=True)
class Count:
    """How many tasks of a lane are in a state, and since when the oldest of them exists."""

    lane: str
    status: State
    count: int
    oldest: datetime | None
    as_of: datetime | None  # None: exact, now


def counts(db: Db) -> list[Count]:
    """The last sample, with what runs counted afresh."""
    sampled = [
        Count(lane, State(status), count, None if oldest is None else moment(oldest), moment(at))
        for lane, status, count, oldest, at in db.rows(SAMPLE)
        if status not in ("scheduling", "running")
    ]
    return sampled + [Count(lane, State(status), count, None, None) for lane, status, count in db.rows(HELD)]


DEPTH = Statement(
    """
    SELECT count(*) FROM (
        SELECT 1 FROM headgate_task WHERE status = 'queued' AND stream_id {in streams} LIMIT :most) queued
    """
)


def _finished(whose: str = "") -> Statement:
    return Statement(
        f"""
        SELECT type, status, exec_time FROM (
            SELECT type, status, exec_time, finished_at FROM headgate_task
             WHERE finished_at IS NOT NULL AND finished_at >= {{now - :seconds}} {whose}
            UNION ALL
            SELECT type, status, exec_time, finished_at FROM headgate_task_his
             WHERE finished_at >= {{now - :seconds}} {whose}) ended
         ORDER BY finished_at DESC LIMIT :limit
        """
    )


FINISHED = _finished()
FINISHED_OF_TENANT = _finished("AND tenant_id = :tenant_id")


@dataclass(frozen=True, slots=True)
class TypeStatistics:
    """How the tasks of a type did: run times in seconds, and the share that succeeded of those that ended."""

    type: str
    finished: int
    success_rate: float
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class Statistics(Noun):
    """How many tasks are where, and how those that ended did."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @reads
    def counts(self, db: Db) -> list[Count]:
        """How many tasks of each lane are in each state: what runs exactly, the rest as last sampled."""
        return counts(db)

    @reads
    def depth(self, db: Db, lane: str) -> int:
        """How many tasks of a lane are queued; 10,001 stands for anything above 10,000."""
        streams = [stream.id for stream in self._catalog.fresh(db).streams.values() if stream.lane == lane]
        return int(db.rows(DEPTH, streams=streams, most=EXACT_UP_TO + 1)[0][0])

    @reads
    def by_type(self, db: Db, seconds: float = 24 * 3600, tenant_id: int | None = None) -> list[TypeStatistics]:
        """Run times and success rate per type, over what finished in the last `seconds` (the newest 100,000 of it)."""
        whose = FINISHED if tenant_id is None else FINISHED_OF_TENANT
        ends: dict[str, list[Row]] = defaultdict(list)
        for type_code, *end in db.rows(whose, seconds=seconds, limit=MOST_MEASURED, tenant_id=tenant_id):
            ends[type_code].append(tuple(end))
        return [_statistics_of(type_code, rows) for type_code, rows in sorted(ends.items())]

    def take_sample(self) -> None:
        """Count what waits, for `counts`, and measure what finished, for forecasts. Two transactions."""
        sample = self._database.read(read_sample)
        self._database.write(lambda db: keep_sample(db, sample))


def _statistics_of(type_code: str, rows: list[Row]) -> TypeStatistics:
    good = sum(status in ("succeeded", "partial", "resolved") for status, _ in rows)
    times = sorted(time for _, time in rows if time is not None)
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    mean = fmean(times) if times else None
    p50, p95, p99 = (cuts[49], cuts[94], cuts[98]) if cuts else (None, None, None)
    return TypeStatistics(type_code, len(rows), good / len(rows), mean, p50, p95, p99)
