"""Counts and run times, for people to look at."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, quantiles

from headgate.core.states import State
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.indexes import STOPPED_STATES
from headgate.store.db.pages import EXACT_UP_TO
from headgate.store.db.statement import Db, Row, Statement, moment
from headgate.store.reading.samples import keep_sample, read_sample

MOST_MEASURED = 100_000


def _of_all_and_of_one(text: str) -> dict[bool, Statement]:
    """A statement for all tenants together (False), and for one of them (True)."""
    return {
        one: Statement(text.replace("{whose}", "AND tenant_id = :tenant_id" if one else "")) for one in (False, True)
    }


SAMPLE = _of_all_and_of_one(
    """
    SELECT lane, status, CAST(sum(count) AS bigint), min(oldest), min(at) FROM headgate_sample
     WHERE status NOT IN ('scheduling', 'running') {whose} GROUP BY lane, status
    """
)
HELD = _of_all_and_of_one(
    """
    SELECT lane, status, count(*) FROM headgate_task
     WHERE status IN ('scheduling', 'running') {whose} GROUP BY lane, status
    """
)


@dataclass(frozen=True, slots=True)
class Count:
    """How many tasks of a lane are in a state, and since when the oldest of them exists."""

    lane: str
    status: State
    count: int
    oldest: datetime | None
    as_of: datetime | None  # None: exact, now


def counts(db: Db, tenant_id: int | None = None) -> list[Count]:
    """The last sample, with what runs counted afresh: of one tenant, or of all."""
    sampled = [
        Count(lane, State(status), count, None if oldest is None else moment(oldest), moment(at))
        for lane, status, count, oldest, at in db.rows(SAMPLE[tenant_id is not None], tenant_id=tenant_id)
    ]
    return sampled + running(db, tenant_id)


def running(db: Db, tenant_id: int | None = None) -> list[Count]:
    """What runs now, of one tenant or of all."""
    held = db.rows(HELD[tenant_id is not None], tenant_id=tenant_id)
    return [Count(lane, State(status), count, None, None) for lane, status, count in held]


DEPTH = Statement(
    """
    SELECT count(*) FROM (
        SELECT 1 FROM headgate_task WHERE status = 'queued' AND stream_id {in streams} LIMIT :most) queued
    """
)


# A dead task has not finished: it died when it was last written.
ENDED = _of_all_and_of_one(
    f"""
    SELECT type, status, exec_time FROM (
        SELECT type, status, exec_time, finished_at AS at FROM headgate_task
         WHERE finished_at IS NOT NULL AND finished_at >= {{now - :seconds}} {{whose}}
        UNION ALL
        SELECT type, status, exec_time, finished_at AS at FROM headgate_task_his
         WHERE finished_at >= {{now - :seconds}} {{whose}}
        UNION ALL
        SELECT type, status, exec_time, update_date AS at FROM headgate_task
         WHERE status IN {STOPPED_STATES} AND status = 'dead' AND update_date >= {{now - :seconds}} {{whose}}) ended
     ORDER BY at DESC LIMIT :limit
    """
)
SUCCEEDED = frozenset({"succeeded", "partial"})
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TypeStatistics:
    """How the tasks of a type did, each counted once as it stands: run times in seconds, and the share that succeeded.

    Dead tasks, and those that a person resolved, have failed. Cancelled ones count neither way and have no run time.
    """

    type: str
    finished: int
    succeeded: int
    failed: int
    cancelled: int
    success_rate: float | None  # None: all were cancelled
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
    def counts(self, db: Db, tenant_id: int | None = None) -> list[Count]:
        """How many tasks of each lane are in each state, of one tenant or of all: what runs exactly, the rest as last
        sampled."""
        return counts(db, tenant_id)

    @reads
    def running(self, db: Db) -> list[Count]:
        """How many tasks of each lane are handed over or running, now."""
        return running(db)

    @reads
    def depths(self, db: Db, tenant_id: int | None = None) -> dict[str, int]:
        """How many tasks of each lane are queued, of one tenant or of all; 10,001 stands for anything above 10,000."""
        streams: dict[str, list[int]] = defaultdict(list)
        for stream in self._catalog.fresh(db).streams.values():
            if tenant_id in (None, stream.tenant_id):
                streams[stream.lane].append(stream.id)
        counted = {lane: db.send(DEPTH, streams=ids, most=EXACT_UP_TO + 1) for lane, ids in streams.items()}
        return {lane: int(answer.rows()[0][0]) for lane, answer in counted.items()}

    @reads
    def by_type(self, db: Db, seconds: float = 24 * 3600, tenant_id: int | None = None) -> list[TypeStatistics]:
        """Run times and success rate per type, over what ended in the last `seconds` (the newest 100,000 of it)."""
        whose = ENDED[tenant_id is not None]
        ends: dict[str, list[Row]] = defaultdict(list)
        for type_code, *end in db.rows(whose, seconds=seconds, limit=MOST_MEASURED, tenant_id=tenant_id):
            ends[type_code].append(tuple(end))
        return [_statistics_of(type_code, rows) for type_code, rows in sorted(ends.items())]

    def take_sample(self) -> None:
        """Count what waits, for `counts`, and measure what finished, for forecasts. Two transactions."""
        sample = self._database.read(read_sample)
        self._database.write(lambda db: keep_sample(db, sample))


def _statistics_of(type_code: str, rows: list[Row]) -> TypeStatistics:
    counted = [(status, seconds) for status, seconds in rows if status != CANCELLED]
    succeeded = sum(status in SUCCEEDED for status, _ in counted)
    rate = succeeded / len(counted) if counted else None
    times = sorted(seconds for _, seconds in counted if seconds is not None)
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    mean = fmean(times) if times else None
    p50, p95, p99 = (cuts[49], cuts[94], cuts[98]) if cuts else (None, None, None)
    return TypeStatistics(
        type_code, len(rows), succeeded, len(counted) - succeeded, len(rows) - len(counted), rate, mean, p50, p95, p99
    )
