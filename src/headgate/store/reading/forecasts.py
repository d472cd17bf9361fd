"""Forecasts: what a task, or the last of a lane, meets on its way to the start, read at a bounded cost.

A line is counted up to a limit; of what is longer the sampler's figures are taken, a few seconds old.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import headgate.store.reading.samples as samples
from headgate.core.choice import Order
from headgate.core.forecast import (
    NO_CONTENTION,
    Contention,
    Forecast,
    Limit,
    Paces,
    Slots,
    StreamBacklog,
    TasksAhead,
    Tokens,
    forecast_end,
    forecast_start,
    needs_a_person,
    tasks_ahead,
)
from headgate.core.gates import Bucket, Gate, evaluate
from headgate.core.limits import MAX_RATE, Rate
from headgate.core.pause import Pause, PauseKey, last_to_end
from headgate.core.starts import START_SECONDS, LastStart, start_gate
from headgate.core.task import Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.lanes import read_lanes
from headgate.store.catalog.pauses import read_pauses
from headgate.store.catalog.resources import read_resources
from headgate.store.catalog.streams import Stream
from headgate.store.claim.agent_starts import all_last_starts
from headgate.store.db.database import Database, Noun, reads
from headgate.store.db.statement import Db, Row, Statement, clock, moment
from headgate.store.reading.facts import facts_of
from headgate.store.reading.pools import WorkerPool, live_pools
from headgate.store.reading.resource_use import held_by_task
from headgate.store.tasks.rows import read

MOST_COUNTED = 20_000  # index entries a forecast reads
MOST_RUNNING = 5_000
MOST_LANES = 100
WORKERS = "workers"
LAST: Order = ((1 << 63) - 1, 1 << 62)  # behind every task

RUNNING = Statement(
    """
    SELECT id, tenant_id, lane, type, uses, worker_id, mutex, coalesce(started_at, scheduling_time) FROM headgate_task
     WHERE status IN ('scheduling', 'running') LIMIT :limit
    """
)
BUCKETS = Statement("SELECT name, rate, burst, tat FROM headgate_rate_limit WHERE NOT lifted")
# Counted stream by stream, from the head on, up to a place in it. Said as a range, and in order: of an equal priority
# the planner would rather read the whole table by id.
_AHEAD = """
SELECT s.id,
       (SELECT count(*) FROM (
            SELECT 1 FROM headgate_task t WHERE t.status = 'queued' AND t.stream_id = s.id
               AND (t.priority, t.id) < (s.priority, s.until) ORDER BY t.priority, t.id LIMIT :most) ahead)
  FROM {streams}
"""
AHEAD = Statement(
    sqlite=_AHEAD.replace(
        "{streams}",
        "(SELECT value ->> 0 AS id, value ->> 1 AS priority, value ->> 2 AS until FROM json_each(:places)) AS s",
    ),
    postgres=_AHEAD.replace(
        "{streams}", "unnest(:streams::bigint[], :priorities::bigint[], :untils::bigint[]) AS s(id, priority, until)"
    ),
)
_IN_LINE = """
SELECT s.id, (
       SELECT count(*) FROM (
           SELECT 1 FROM headgate_task t
            WHERE t.tenant_id = :tenant_id AND t.mutex = :mutex AND t.mutex IS NOT NULL
              AND t.status IN ('queued', 'blocked') AND t.status IN ('queued', 'blocked', 'waiting')
              AND t.stream_id = s.id AND (t.priority, t.id) < (:priority, :id)
            ORDER BY t.status, t.priority, t.id LIMIT :most) ahead)
  FROM {streams}
"""
IN_LINE = Statement(
    sqlite=_IN_LINE.replace("{streams}", "(SELECT value AS id FROM json_each(:streams)) AS s"),
    postgres=_IN_LINE.replace("{streams}", "unnest(:streams::bigint[]) AS s(id)"),
)
LAST_QUEUED = Statement(
    sqlite="""
    SELECT s.value, t.priority, t.id FROM json_each(:streams) AS s CROSS JOIN headgate_task t ON t.id = (
           SELECT l.id FROM headgate_task l WHERE l.status = 'queued' AND l.stream_id = s.value
            ORDER BY l.priority DESC, l.id DESC LIMIT 1)
    """,
    postgres="""
    SELECT s.id, t.priority, t.id FROM unnest(:streams::bigint[]) AS s(id) CROSS JOIN LATERAL (
           SELECT l.priority, l.id FROM headgate_task l WHERE l.status = 'queued' AND l.stream_id = s.id
            ORDER BY l.priority DESC, l.id DESC LIMIT 1) t
    """,
)
SAMPLED = Statement("SELECT stream_id, priority, count, first_id, last_id FROM headgate_sample_line")
BLOCKED = Statement(
    """
    SELECT lane, CAST(sum(count) AS bigint) FROM headgate_sample
     WHERE status = 'blocked' AND tenant_id = coalesce(CAST(:tenant_id AS bigint), tenant_id) GROUP BY lane
    """
)


class Why(NamedTuple):
    """A task, its gates, and when it will likely start; None if it has started or never will."""

    task: Task
    gates: list[Gate]
    forecast: Forecast | None


class Forecasts(Noun):
    """When tasks will likely start, and lanes drain."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        super().__init__(database)
        self._catalog = catalog

    @reads
    def why(self, db: Db, task_id: int, tenant_id: int | None = None) -> Why:
        """Every gate of a task, and when it will likely start; `NotFound`, also for another tenant's."""
        catalog = self._catalog.fresh(db)
        task = read(db, task_id, tenant_id)
        view, facts = _View(db, catalog), facts_of(db, catalog, task, tenant_id)
        gates = evaluate(task, facts, view.now)
        return Why(task, gates, _start(view, task, gates, facts.mutex_holder))

    @reads
    def drains(self, db: Db, tenant_id: int | None = None) -> dict[str, Forecast]:
        """When what runs and waits in each lane, of one tenant or of all, will likely have ended; what comes later is
        not counted."""
        return _drains(_View(db, self._catalog.fresh(db)), tenant_id)


def _start(view: "_View", task: Task, gates: list[Gate], holder: int | None) -> Forecast | None:
    for gate in gates:
        if needs_a_person(gate) or (gate.name == "state" and not gate.open):
            return forecast_start(gates, NO_CONTENTION, view.now)
    if holder is not None and holder not in view.running:
        return Forecast(None, "mutex-family", {"mutex": task.mutex, "task_id": holder})
    return forecast_start(gates, view.scene_of(task, holder), view.now)


class _Running(NamedTuple):
    """An execution under way, and how much longer it will likely run."""

    tenant_id: int
    lane: str
    type: str
    uses: tuple[str, ...]
    worker_id: int | None
    mutex: str | None
    left: float | None


class _Sampled(NamedTuple):
    """A long line at one priority, as it was seconds ago."""

    priority: int
    length: int
    first_id: int
    last_id: int


class _View:
    """All that a forecast looks at, read when it is first asked for."""

    def __init__(self, db: Db, catalog: Catalog) -> None:
        self.db = db
        self.catalog = catalog
        self.now: datetime = clock(db)
        self.paces = Paces(samples.measured(db))
        self._crews: dict[tuple[int, str, str], list[WorkerPool]] = {}

    @cached_property
    def lanes(self) -> dict[str, int | None]:
        return {room.name: room.capacity for room in read_lanes(self.db)}

    @cached_property
    def pauses(self) -> dict[PauseKey, Pause]:
        return {pause.key: pause for pause in read_pauses(self.db)}

    def pause_of(self, stream: Stream) -> Pause | None:
        """The pause that holds a stream longest."""
        return last_to_end([self.pauses[key] for key in stream.pause_keys if key in self.pauses])

    @cached_property
    def resources(self) -> dict[str, int]:
        return {resource.name: resource.capacity for resource in read_resources(self.db)}

    @cached_property
    def buckets(self) -> dict[str, Bucket]:
        return {name: Bucket(name, Rate(rate, burst), tat) for name, rate, burst, tat in self.db.rows(BUCKETS)}

    @cached_property
    def starts(self) -> dict[str, Tokens]:
        """The start queues of agents; one that nothing has left yet is taken to be as they are by default."""
        found = {
            start_gate(stream.tenant_id, stream.agent_id): Tokens(Rate(1 / START_SECONDS, 1))
            for stream in self.catalog.streams.values()
            if stream.agent_id
        }
        return found | {name: _queue(last, self.now) for name, last in all_last_starts(self.db).items()}

    @cached_property
    def running(self) -> dict[int, _Running]:
        held = held_by_task(self.db)  # taken to be theirs until they end
        return {row[0]: self._running(row, held.get(row[0], [])) for row in self.db.rows(RUNNING, limit=MOST_RUNNING)}

    def _running(self, row: Row, held: list[str]) -> _Running:
        _, tenant_id, lane, kind, uses, worker_id, mutex, begun = row
        elapsed = max((self.now - moment(begun)).total_seconds(), 0.0)
        left = self.paces.remaining(lane, kind, elapsed)
        return _Running(tenant_id, lane, kind, (*(uses.split(",") if uses else ()), *held), worker_id, mutex, left)

    @cached_property
    def pools(self) -> list[WorkerPool]:
        return [pool for pool in live_pools(self.db) if not pool.stuck]

    @cached_property
    def sampled(self) -> dict[int, list[_Sampled]]:
        found: dict[int, list[_Sampled]] = {}
        for stream_id, *line in self.db.rows(SAMPLED):
            found.setdefault(stream_id, []).append(_Sampled(*line))
        return found

    def blocked(self, tenant_id: int | None) -> dict[str, int]:
        """How many are behind mutexes in each lane."""
        return dict(self.db.rows(BLOCKED, tenant_id=tenant_id))

    # limits

    def crew(self, stream: Stream) -> list[WorkerPool]:
        """The executors that could run a task of this stream."""
        key = (stream.tenant_id, stream.type, stream.agent_id)
        if key not in self._crews:
            self._crews[key] = [pool for pool in self.pools if pool.serves(*key)]
        return self._crews[key]

    def limits_of(self, stream: Stream) -> tuple[str, ...]:
        """The limits that every task of a stream passes, but for its crew's slots."""
        lane, *others = self.catalog.gates(stream)
        known = (name for name in others if not name.startswith("rate ") or name.removeprefix("rate ") in self.buckets)
        return tuple(known) if self.lanes.get(stream.lane) is None else (lane, *known)

    def limit(self, name: str) -> Limit:
        kind, _, what = name.partition(" ")
        if kind == "rate":
            bucket = self.buckets[what]
            return Tokens(bucket.limit, max(bucket.tat - self.now.timestamp(), 0.0))
        if kind == "resource":
            return Slots(self.resources.get(what, 0), self._left(lambda running: what in running.uses))
        if kind == "start":
            return self.starts[name]
        return Slots(self.lanes.get(what) or 0, self._left(lambda running: running.lane == what))

    def slots(self, crew: list[WorkerPool]) -> Slots:
        running = self.running.values()
        held = {pool: sum(pool.holds(each.worker_id, each.type) for each in running) for pool in crew}
        count = sum(max(held[pool], 1) if pool.slots is None else pool.slots for pool in crew)
        return Slots(count, self._left(lambda each: any(pool.holds(each.worker_id, each.type) for pool in crew)))

    def _left(self, which: Callable[[_Running], bool]) -> tuple[float | None, ...]:
        return tuple(running.left for running in self.running.values() if which(running))

    # scenes

    def scene_of(self, task: Task, holder: int | None) -> Contention:
        """What a task meets that has not started, and whose mutex somebody holds who is running."""
        key = (task.tenant_id, task.lane, task.type, task.category, task.rate_key or "", task.agent_id or "")
        stream = self.catalog.streams.get(self.catalog.ids.get(key, 0)) or Stream(0, *key)
        scene = self.scene(stream, task.priority, task.id)
        if task.mutex is None:
            return scene
        name = f"mutex {task.mutex}"
        mutex = Slots(1, () if holder is None else (self.running[holder].left,))
        lines = [*scene.ahead, *self._line_of(task, name)]
        return Contention({**scene.limits, name: mutex}, (*scene.own, name), lines)

    def scene(self, stream: Stream, priority: int, task_id: int, lane: str | None = None) -> Contention:
        """The limits and tasks that a task of this stream meets; of other tenants all tasks, since tenants take turns.

        With a lane: what the last task of it meets, whatever tenant the others in it are of. Paused streams do not
        count."""
        ours, own = set(self.crew(stream)), set(self.limits_of(stream))
        meeting: dict[Stream, tuple[str, ...]] = {}
        for other in self.catalog.streams.values():
            crew, passed = self.crew(other), self.limits_of(other)
            if other != stream and self.pause_of(other):
                continue
            if not ours.isdisjoint(crew):
                meeting[other] = (*passed, WORKERS)
            elif crew and not own.isdisjoint(passed):
                meeting[other] = passed
        rivals = {other for other in meeting if other.tenant_id != stream.tenant_id and other.lane != lane}
        backlogs = self._backlogs(meeting, rivals, (priority, task_id))
        lines = tasks_ahead(backlogs, stream.tenant_id, self.catalog.weights)
        names = own.union(*(line.limits for line in lines)) - {WORKERS}
        limits = {name: self.limit(name) for name in sorted(names)} | {WORKERS: self.slots(self.crew(stream))}
        return Contention(limits, (*sorted(own), WORKERS), lines)

    def _backlogs(
        self, meeting: dict[Stream, tuple[str, ...]], rivals: set[Stream], place: Order
    ) -> list[StreamBacklog]:
        places = {other: LAST if other in rivals else place for other in meeting}
        most = max(samples.LONG, MOST_COUNTED // max(len(meeting), 1))
        rows = self.db.rows(
            AHEAD,
            streams=[other.id for other in meeting],
            priorities=[priority for priority, _ in places.values()],
            untils=[task_id for _, task_id in places.values()],
            places=[(other.id, *behind) for other, behind in places.items()],
            most=most,
        )
        backlogs = []
        for stream_id, tasks in rows:
            other = self.catalog.streams[stream_id]
            if tasks >= most:
                tasks = max(tasks, _estimated(self.sampled.get(stream_id, []), places[other]))
            rival = other.tenant_id if other in rivals else None
            backlogs.append(StreamBacklog(rival, tasks, self.paces.each(other.lane, other.type), meeting[other]))
        return backlogs

    def _line_of(self, task: Task, name: str) -> list[TasksAhead]:
        streams = [stream for stream in self.catalog.streams.values() if stream.tenant_id == task.tenant_id]
        rows = self.db.rows(
            IN_LINE,
            streams=[stream.id for stream in streams],
            tenant_id=task.tenant_id, mutex=task.mutex, priority=task.priority, id=task.id, most=MOST_COUNTED,
        )  # fmt: skip
        found = {self.catalog.streams[stream_id]: count for stream_id, count in rows if count}
        return [TasksAhead(count, self.paces.each(of.lane, of.type), (name,)) for of, count in found.items()]


def _queue(last: LastStart, now: datetime) -> Tokens:
    """An agent's start queue: a token for each start, the next when its last start holds it up no more."""
    until = last.holds_until(now)
    rate = Rate(min(1 / last.seconds, MAX_RATE) if last.seconds else MAX_RATE, 1)
    return Tokens(rate, 0.0 if until is None else (until - now).total_seconds())


def _estimated(known: list[_Sampled], place: Order) -> int:
    """How many of a long line stand before a place, as last sampled."""
    priority, until = place
    clamped = min(max(priority, -samples.LAST_PRIORITY), samples.LAST_PRIORITY)
    ahead = float(sum(line.length for line in known if line.priority < clamped))
    for line in known:
        if line.priority == clamped:
            share = (until - line.first_id) / (line.last_id - line.first_id + 1)
            ahead += line.length * min(max(share, 0.0), 1.0)
    return round(ahead)


# Lanes


def _drains(view: _View, tenant_id: int | None) -> dict[str, Forecast]:
    """Of the lanes in which something of the tenant (None: of anyone) runs or waits; of a hundred, should there be
    more."""
    streams: dict[str, list[Stream]] = {}
    running: dict[str, list[_Running]] = {}
    for stream in view.catalog.streams.values():
        if tenant_id in (None, stream.tenant_id):
            streams.setdefault(stream.lane, []).append(stream)
    for each in view.running.values():
        if tenant_id in (None, each.tenant_id):
            running.setdefault(each.lane, []).append(each)
    ids = [stream.id for members in streams.values() for stream in members]
    last = {row[0]: (row[1], row[2]) for row in view.db.rows(LAST_QUEUED, streams=ids)}
    blocked = view.blocked(tenant_id)
    found: dict[str, Forecast] = {}
    for lane, members in streams.items():
        waiting = {stream: last[stream.id] for stream in members if stream.id in last}
        if (waiting or lane in running or lane in blocked) and len(found) < MOST_LANES:
            found[lane] = _drain(
                view, members, waiting, running.get(lane, []), blocked.get(lane, 0), whole=tenant_id is None
            )
    return found


def _drain(
    view: _View, members: list[Stream], last: dict[Stream, tuple[int, int]], running: list[_Running], blocked: int, *,
    whole: bool,
) -> Forecast:  # fmt: skip
    """When the tasks of these streams will have ended; `whole`: they are all that there are in the lane."""
    lane = members[0].lane
    for stream in last or (members if blocked else ()):
        if (pause := view.pause_of(stream)) is not None:
            return Forecast(None, "paused", pause.params)
    for stream in last:
        if not view.crew(stream):
            return Forecast(None, "no-worker", {"type": stream.type})
    left = [each.left for each in running]
    if not last and not blocked:
        return forecast_end(NO_CONTENTION, 0.0, left, view.now)
    hindmost = max(last, key=lambda stream: last[stream]) if last else members[0]
    priority, task_id = last.get(hindmost, (0, 0))
    scene = view.scene(hindmost, priority, task_id, lane if whole else None)
    if blocked:
        scene = _with_blocked(view, lane, scene, hindmost, blocked, running)
    return forecast_end(scene, view.paces.each(lane, hindmost.type), left, view.now)


def _with_blocked(
    view: _View, lane: str, scene: Contention, like: Stream, count: int, running: list[_Running]
) -> Contention:
    """Those behind mutexes come as well: as many at a time as there are lines that move now."""
    moving = [each.left for each in running if each.mutex is not None]
    name = f"mutexes {lane}"
    limits = {**scene.limits, name: Slots(max(len(moving), 1), tuple(moving))}
    line = TasksAhead(count, view.paces.each(lane, like.type), (*scene.own, name))
    return Contention(limits, (*scene.own, name), [*scene.ahead, line])
