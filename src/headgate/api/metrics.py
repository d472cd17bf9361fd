"""`/metrics` for Prometheus. Nothing in it names a tenant; it tells of all of them together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.responses import Response

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.tally import Histogram, Tally
from headgate.core.compensation import CompensationSettings
from headgate.core.pause import EVERYTHING_PAUSED, Pause, PauseScope
from headgate.core.states import HELD
from headgate.environment import utc_now
from headgate.store.store import Store

routes = Routes("system", shared=True)


@routes.get("/metrics", Role.READ, "Metrics for Prometheus", media=CONTENT_TYPE_PLAIN_0_0_4)
async def metrics(server: Server, who: Principal) -> Response:
    """Counters and histograms add up over servers: each event is counted once, by the server that is asked next.
    Gauges, and what workers use, are read from the store and the same at every server.
    """
    who.require_all_tenants()
    figures = server.settings.compensation
    text = await server.in_thread(
        exposition, server.store, server.tally, figures, server.live_events.bus.listeners, server.shares.refused
    )
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def exposition(
    store: Store, tally: Tally, figures: CompensationSettings, listeners: int, refused: Mapping[tuple[str, str], int]
) -> bytes:
    """Everything as it stands, in Prometheus' text format."""
    tally.catch_up()
    registry = CollectorRegistry()
    found = [
        *_task_metrics(tally),
        *_usage_metrics(store, tally),
        *_queue_metrics(store),
        *_callback_metrics(store, tally),
        *_compensation_metrics(store, figures),
        *_listener_metrics(store),
        *_broker_metrics(store),
        *_process_metrics(tally, listeners, refused),
    ]
    registry.register(_Collector(found))
    return generate_latest(registry)


class _Collector:
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _task_metrics(tally: Tally) -> Iterator[Metric]:
    yield _counter("tasks_submitted", "Tasks submitted.", ["taskType"], tally.submitted)
    yield _histogram(
        "tasks_execution_seconds", "How long executions took, by how they ended.", ["taskType", "status"],
        tally.executions,
    )  # fmt: skip
    yield _counter("tasks_retries", "Failures after which a task runs again.", ["taskType"], tally.retries)
    yield _counter("tasks_dlq_entered", "Tasks that gave up and wait for a person.", ["taskType"], tally.dead)
    yield _counter("tasks_compensated", "Starts that were lost and made again.", ["taskType"], tally.compensated)
    yield _counter("tasks_events_published", "Events written to the feed.", ["eventType"], tally.published)
    yield _counter("tasks_state_db_updates", "Writes to tasks in the store.", ["operation"], tally.updates)
    yield _counter(
        "tasks_events_processed", "Events given to listeners and clients.", ["listenerName", "eventType", "outcome"],
        tally.processed,
    )  # fmt: skip


def _usage_metrics(store: Store, tally: Tally) -> Iterator[Metric]:
    """What tasks used that could be measured, and what each worker uses."""
    by_type = ["taskType"]
    yield _counter("headgate_task_cpu_seconds", "CPU time of executions.", by_type, tally.cpu_seconds)
    yield _histogram("headgate_task_memory_bytes", "Most memory of executions in a process.", by_type, tally.memory)
    yield _counter("headgate_task_read_bytes", "Bytes that executions read from disk.", by_type, tally.read_bytes)
    yield _counter("headgate_task_written_bytes", "Bytes that executions wrote to disk.", by_type, tally.written_bytes)
    now = utc_now()
    alive = [worker for worker in store.workers.all() if worker.lease_until > now]
    details = {(worker.name, worker.id): msgspec.json.decode(worker.detail or "{}") for worker in alive}

    def used(name: str) -> dict[tuple[str, int], float]:
        return {worker: detail[name] for worker, detail in details.items() if detail.get(name) is not None}

    by_worker = ["worker", "id"]
    yield _counter("headgate_worker_cpu_seconds", "CPU time of a worker process.", by_worker, used("cpu_seconds"))
    yield _gauge("headgate_worker_memory_bytes", "Memory of a worker process.", by_worker, used("memory_bytes"))
    yield _counter("headgate_worker_read_bytes", "Bytes it has read from disk.", by_worker, used("read_bytes"))
    yield _counter("headgate_worker_written_bytes", "Bytes it has written to disk.", by_worker, used("written_bytes"))


def _callback_metrics(store: Store, tally: Tally) -> Iterator[Metric]:
    callbacks = store.deliveries.deliverables()
    yield _gauge(
        "headgate_callbacks", "Callbacks that are not done with: 10,001 stands for more.", ["status"],
        {("pending",): callbacks.pending, ("blocked",): callbacks.blocked, ("undeliverable",): callbacks.undeliverable},
    )  # fmt: skip
    age = 0.0 if callbacks.oldest is None else max((utc_now() - callbacks.oldest).total_seconds(), 0.0)
    yield _gauge("headgate_callbacks_oldest_seconds", "Age of the oldest that is pending.", [], {(): age})
    yield _histogram(
        "headgate_callback_attempt_seconds", "How long attempts to deliver took, by what came of them.", ["outcome"],
        tally.callbacks,
    )  # fmt: skip


def _process_metrics(tally: Tally, listeners: int, refused: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    yield _gauge("headgate_event_listeners", "Clients that listen to this server's events.", [], {(): listeners})
    labels = ["method", "route", "status"]
    yield _counter("headgate_http_requests", "Requests answered by this server.", labels, tally.requests)
    yield _histogram(
        "headgate_http_request_seconds", "Time to the first byte of an answer.", ["method", "route"], tally.answers
    )  # fmt: skip
    yield _counter(
        "headgate_share_refusals", "Requests refused because a share of this server was used up.",
        ["whose", "what"], refused,
    )  # fmt: skip


def _pause_metrics(active: list[Pause], lanes: list[str]) -> Iterator[Metric]:
    """Tenants and rate keys are counted, not named."""
    pauses = {pause.key for pause in active}
    paused = {(lane,): int((PauseScope.LANE, lane) in pauses) for lane in lanes}
    yield _gauge("headgate_lane_paused", "1 while nothing of a lane may start.", ["lane"], paused)
    yield _gauge("headgate_paused", "1 while nothing may start at all.", [], {(): int(EVERYTHING_PAUSED in pauses)})
    counts = Counter(
        (str(pause.scope), "" if pause.scope in (PauseScope.TENANT, PauseScope.KEY) else pause.name) for pause in active
    )
    yield _gauge(
        "headgate_pauses",
        "Pauses that hold now: those of lanes and types by name, others counted.",
        ["scope", "name"],
        counts,
    )


def _queue_metrics(store: Store) -> Iterator[Metric]:
    now = utc_now()
    depth: dict[tuple[str, str], int] = {}
    oldest: dict[tuple[str, str], float] = {}
    running: dict[tuple[str], int] = defaultdict(int)
    for count in store.statistics.counts():
        depth[count.lane, count.status.value] = count.count
        if count.oldest is not None:
            oldest[count.lane, count.status.value] = max((now - count.oldest).total_seconds(), 0.0)
        if count.status in HELD:
            running[count.lane,] += count.count
    lanes = store.lanes.all()
    limited = {(lane.name,): lane.capacity for lane in lanes if lane.capacity is not None}
    yield _gauge(
        "headgate_queue_depth", "Tasks that have not ended: what runs is counted now, the rest as last sampled.",
        ["lane", "status"], depth,
    )  # fmt: skip
    yield _gauge("headgate_queue_oldest_seconds", "Age of the oldest of them.", ["lane", "status"], oldest)
    held = {(lane.name,): running[lane.name,] for lane in lanes}
    yield _gauge("headgate_lane_running", "Tasks that hold a place in a lane.", ["lane"], held)
    yield _gauge("headgate_lane_capacity", "How many may; a lane without a limit has none.", ["lane"], limited)
    free = {lane: max(capacity - running[lane], 0) for lane, capacity in limited.items()}
    yield _gauge("headgate_lane_room", "How many more may.", ["lane"], free)
    yield from _pause_metrics(store.pauses.active(), [lane.name for lane in lanes])
    alive = [worker for worker in store.workers.all() if worker.lease_until > now]
    executors = {("worker",): 0, ("agent",): 0}
    for worker in alive:
        if worker.kind != "dispatcher":
            executors[worker.kind,] += 1
    yield _gauge("headgate_workers_alive", "Workers and agents with a lease.", ["kind"], executors)
    stuck = sum(bool(worker.stuck) for worker in alive)
    yield _gauge("headgate_workers_stuck", "Workers that claim nothing: a handler does not stop.", [], {(): stuck})


def _broker_metrics(store: Store) -> Iterator[Metric]:
    """What the dispatcher and the workers said at their last beats."""
    report = store.broker_reports.current()
    published = {(outcome,): count for outcome, count in report.messages.items()}
    yield _counter(
        "headgate_broker_messages", "Messages that the dispatcher sent, by what became of them.", ["outcome"], published
    )  # fmt: skip
    received = {(name, outcome): count for name, each in report.deliveries.items() for outcome, count in each.items()}
    yield _counter(
        "headgate_broker_deliveries", "Messages that a worker got, by what became of them.", ["worker", "outcome"],
        received,
    )  # fmt: skip
    yield _gauge("headgate_broker_tasks", "Tasks in the broker, not started yet.", [], {(): report.tasks})
    consumers = {(): report.consumers}
    yield _gauge("headgate_broker_consumers", "Workers and agents that take tasks from the broker.", [], consumers)
    dispatching = int(report.dispatcher is not None)
    yield _gauge("headgate_broker_dispatchers", "1 while a process hands tasks to the broker.", [], {(): dispatching})
    queues = {(queue.name,): queue.tasks for queue in report.queues}
    yield _gauge("headgate_broker_queue_tasks", "Tasks in a queue of the broker, not started yet.", ["queue"], queues)
    dead = {} if report.dead_letters is None else {(): report.dead_letters}
    yield _gauge("headgate_broker_dead_letters", "Messages in headgate.dead.", [], dead)


def _listener_metrics(store: Store) -> Iterator[Metric]:
    now, found = utc_now(), store.subscriptions.all()
    lag = {(each.name,): each.lag_seconds(now) for each in found}
    yield _gauge("headgate_listener_lag_seconds", "Age of the first event it has not handled.", ["listener"], lag)


def _compensation_metrics(store: Store, settings: CompensationSettings) -> Iterator[Metric]:
    status = store.compensation.status(settings)
    gauges = {
        "interval_seconds": ("Seconds between two polls for lost starts, as it stands.", status.interval_seconds),
        "multiplier": ("How far that interval has grown.", status.multiplier),
        "skips": ("Polls that were skipped in a row.", status.skips),
        "queue_size": ("Tasks that wait in the start queues of agents, 10,001 for any more.", status.queue_size),
    }
    if status.last_poll is not None:
        gauges["last_poll_timestamp_seconds"] = ("When the last poll was.", status.last_poll.timestamp())
    if status.next_poll is not None:
        gauges["next_poll_timestamp_seconds"] = ("When the next one comes.", status.next_poll.timestamp())
    for name, (help_text, value) in gauges.items():
        yield _gauge(f"headgate_compensation_{name}", help_text, [], {(): value})


def _labels(key: Any) -> list[str]:
    return [str(part) for part in key] if isinstance(key, tuple) else [str(key)]


def _counter(name: str, help_text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, value in dict(values).items():
        family.add_metric(_labels(key), value)
    return family


def _gauge(name: str, help_text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(_labels(key), value)
    return family


def _histogram(name: str, help_text: str, labels: list[str], values: Mapping[Any, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, help_text, labels=labels)
    for key, each in dict(values).items():
        family.add_metric(_labels(key), each.buckets(), each.total)
    return family
