"""What people look at: what a task has said, counts, statistics, and the facts behind `why`."""

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, quantiles

from headgate.core.gates import Bucket, Facts, Room
from headgate.core.limits import Rate
from headgate.core.states import State
from headgate.core.task import EVERYTHING, Task
from headgate.store.catalog import Catalog
from headgate.store.sql import Db, Row, Statement, moment
from headgate.store.starts import last_start

MOST_HOLDERS = 50
EXACT_UP_TO = 10_000
MOST_MEASURED = 100_000

# A task's own

LOG = Statement(
    """
    SELECT id, at, attempt, level, message FROM task_log WHERE task_id = :task_id AND id > :after
     ORDER BY id LIMIT :limit
    """
)
CHECKPOINTS = Statement("SELECT name, state FROM checkpoint WHERE task_id = :task_id ORDER BY name")


@dataclass(frozen=True, slots=True)
class LogLine:
    id: int
    at: datetime
    attempt: int
    level: str
    message: str


def log_of(db: Db, task_id: int, after: int, limit: int) -> list[LogLine]:
    rows = db.rows(LOG, task_id=task_id, after=after, limit=limit)
    return [LogLine(number, moment(at), attempt, level, message) for number, at, attempt, level, message in rows]


def checkpoints_of(db: Db, task_id: int) -> dict[str, str]:
    return dict(db.rows(CHECKPOINTS, task_id=task_id))


# Counts

SAMPLE = Statement("SELECT lane, status, count, oldest, at FROM sample")
HELD = Statement(
    "SELECT lane, status, count(*) FROM task WHERE status IN ('scheduling', 'running') GROUP BY lane, status"
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
        SELECT 1 FROM task WHERE status = 'queued' AND stream_id {in streams} LIMIT :most) queued
    """
)


def depth(db: Db, catalog: Catalog, lane: str) -> int:
    """How many tasks of a lane are queued: exact up to 10,000, and 10,001 for anything more."""
    streams = [stream.id for stream in catalog.streams.values() if stream.lane == lane]
    return int(db.rows(DEPTH, streams=streams, most=EXACT_UP_TO + 1)[0][0])


# Statistics


def _finished(whose: str = "") -> Statement:
    return Statement(
        f"""
        SELECT type, status, exec_time FROM (
            SELECT type, status, exec_time, finished_at FROM task
             WHERE finished_at IS NOT NULL AND finished_at >= {{now - :seconds}} {whose}
            UNION ALL
            SELECT type, status, exec_time, finished_at FROM task_his
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


def statistics(db: Db, seconds: float, tenant_id: int | None = None) -> list[TypeStatistics]:
    """Per type, over what finished in the last `seconds` (the newest 100,000 of it)."""
    ends: dict[str, list[Row]] = defaultdict(list)
    if tenant_id is None:
        rows = db.rows(FINISHED, seconds=seconds, limit=MOST_MEASURED)
    else:
        rows = db.rows(FINISHED_OF_TENANT, seconds=seconds, limit=MOST_MEASURED, tenant_id=tenant_id)
    for type_code, status, exec_time in rows:
        ends[type_code].append((status, exec_time))
    return [_statistics_of(type_code, rows) for type_code, rows in sorted(ends.items())]


def _statistics_of(type_code: str, rows: list[Row]) -> TypeStatistics:
    good = sum(status in ("succeeded", "partial", "resolved") for status, _ in rows)
    times = sorted(time for _, time in rows if time is not None)
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    mean = fmean(times) if times else None
    p50, p95, p99 = (cuts[49], cuts[94], cuts[98]) if cuts else (None, None, None)
    return TypeStatistics(type_code, len(rows), good / len(rows), mean, p50, p95, p99)


# Why

LANE = Statement("SELECT name, capacity, paused FROM lane WHERE name {in names text}")
IN_LANE = Statement(
    "SELECT id, tenant_id FROM task WHERE lane = :lane AND status IN ('scheduling', 'running') LIMIT :limit"
)
COUNT_LANE = Statement("SELECT count(*) FROM task WHERE lane = :lane AND status IN ('scheduling', 'running')")
USING = Statement("SELECT id, tenant_id, uses FROM task WHERE uses IS NOT NULL AND status IN ('scheduling', 'running')")
RESOURCES = Statement("SELECT name, capacity FROM resource WHERE name {in names text}")
RATES = Statement("SELECT name, rate, burst, tat FROM rate_limit WHERE name {in names text}")
MUTEX_HOLDER = Statement(
    """
    SELECT id FROM task WHERE tenant_id = :tenant_id AND mutex = :mutex AND mutex IS NOT NULL AND id <> :id
       AND exec_id IS NOT NULL
    UNION ALL
    SELECT id FROM task WHERE tenant_id = :tenant_id AND mutex = :mutex AND mutex IS NOT NULL
       AND status IN ('queued', 'blocked', 'waiting') AND status = 'waiting' AND scheduling_time IS NOT NULL
       AND coalesce(root_id, id) <> :root_id
    """
)
# The state is a parameter: written as a word, the planner may prefer the whole of the stream to the line.
AHEAD = Statement(
    """
    SELECT id FROM task WHERE tenant_id = :tenant_id AND mutex = :mutex AND mutex IS NOT NULL AND id <> :id
       AND status = :queued AND status IN ('queued', 'blocked', 'waiting')
       AND stream_id = (SELECT stream_id FROM task WHERE id = :id)
    """
)
SERVERS = Statement("SELECT agent_id, tenant_id, types FROM worker WHERE NOT lost AND lease_until >= {now}")


def facts_of(db: Db, catalog: Catalog, task: Task) -> Facts:
    """Everything that decides whether `task` may start. Another tenant's holders are counted, not named."""
    lanes = {name: (capacity, bool(paused)) for name, capacity, paused in db.rows(LANE, names=[task.lane, EVERYTHING])}
    capacity, paused = lanes.get(task.lane, (None, False))
    in_lane = db.rows(IN_LANE, lane=task.lane, limit=MOST_HOLDERS)
    [[running]] = db.rows(COUNT_LANE, lane=task.lane)
    own = tuple(sorted(task_id for task_id, tenant_id in in_lane if tenant_id == task.tenant_id))
    holder, ahead = _mutex_facts(db, task)
    names = [f"lane:{task.lane}", f"type:{task.type}", *([f"key:{task.rate_key}"] if task.rate_key else [])]
    buckets = db.rows(RATES, names=names)
    return Facts(
        Room(task.lane, capacity, paused, own, running - len(own)),
        lanes[EVERYTHING][1],
        tuple(_resources(db, catalog, task)),
        tuple(Bucket(name, Rate(rate, burst), tat) for name, rate, burst, tat in buckets),
        holder,
        ahead,
        _servers(db, task),
        last_start(db, task.tenant_id, task.agent_id),
    )


def _resources(db: Db, catalog: Catalog, task: Task) -> list[Room]:
    names = catalog.type(task.type).uses
    if not names:
        return []
    holders: dict[str, list[int]] = defaultdict(list)
    others: dict[str, int] = defaultdict(int)
    for task_id, tenant_id, uses in db.rows(USING):
        for name in uses.split(","):
            if tenant_id == task.tenant_id:
                holders[name].append(task_id)
            else:
                others[name] += 1
    return [
        Room(name, capacity, False, tuple(sorted(holders[name])), others[name])
        for name, capacity in db.rows(RESOURCES, names=list(names))
    ]


def _mutex_facts(db: Db, task: Task) -> tuple[int | None, int | None]:
    if task.mutex is None:
        return None, None
    root_id = task.root_id or task.id
    holders = db.rows(MUTEX_HOLDER, tenant_id=task.tenant_id, mutex=task.mutex, root_id=root_id, id=task.id)
    ahead = db.rows(AHEAD, tenant_id=task.tenant_id, mutex=task.mutex, id=task.id, queued=State.QUEUED.value)
    return (holders[0][0] if holders else None), (ahead[0][0] if ahead else None)


def _servers(db: Db, task: Task) -> int:
    serving = 0
    for agent_id, tenant_id, types in db.rows(SERVERS):
        serves_type = types == "null" or task.type in json.loads(types)
        serves_tenant = tenant_id is None or tenant_id == task.tenant_id
        serving += serves_type and serves_tenant and task.agent_id in (None, agent_id)
    return serving
