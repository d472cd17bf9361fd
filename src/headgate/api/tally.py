"""What is counted for `/metrics`: what this server does itself, and of what all processes do this server's share."""

import threading
from bisect import bisect_left
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from itertools import accumulate

from headgate.core.events import AuditEvent
from headgate.core.states import State, View, status_word
from headgate.core.usage import Usage
from headgate.environment import monotonic
from headgate.events.task_infos import TaskInfoCache
from headgate.store.store import Store

PAGE = 2000
LONGEST_COUNT = 5.0
MOST_STARTED = 100_000
EXECUTION_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
ANSWER_BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
MEMORY_BUCKETS = tuple(float(2**power) for power in range(24, 35))  # 16 MiB to 16 GiB
TIMED = (State.RUNNING, State.WAITING)  # a parent is timed by its end, as everything is
GONE = "unknown"  # the type of a task that was removed before it was counted
RETRY_EVENTS = frozenset({"retrying", "overdue"})  # an error was counted, and it will run again


class Histogram:
    """How long something took, in buckets."""

    __slots__ = ("_limits", "counts", "total")

    def __init__(self, limits: tuple[float, ...]) -> None:
        self._limits = limits
        self.counts = [0] * (len(limits) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self._limits, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: each with all that are below it."""
        names = [*map(str, self._limits), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class Histograms(dict[Hashable, Histogram]):
    def __init__(self, limits: tuple[float, ...]) -> None:
        super().__init__()
        self._limits = limits

    def __missing__(self, key: Hashable) -> Histogram:
        made = self[key] = Histogram(self._limits)
        return made


class Tally:
    """Counters since this process began. Each event is counted by one server, however late it commits."""

    def __init__(self, store: Store, task_infos: TaskInfoCache) -> None:
        self._store = store
        self._task_infos = task_infos
        self._lock = threading.Lock()  # counting from the store is done by one thread at a time
        self._started: OrderedDict[str, datetime] = OrderedDict()
        self.submitted: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        self.compensated: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self.updates: Counter[str] = Counter()
        self.executions = Histograms(EXECUTION_BUCKETS)
        self.cpu_seconds: defaultdict[str, float] = defaultdict(float)
        self.memory = Histograms(MEMORY_BUCKETS)
        self.read_bytes: Counter[str] = Counter()
        self.written_bytes: Counter[str] = Counter()
        self.processed: Counter[tuple[str, str, str]] = Counter()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.answers = Histograms(ANSWER_BUCKETS)
        self.callbacks = Histograms(ANSWER_BUCKETS)

    # What this process does itself: on the event loop's thread

    def count_event(self, listener: str, kind: str) -> None:
        """A client of this server got an event."""
        self.processed[listener, kind, "handled"] += 1

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; the time is that to the first byte of the answer."""
        self.requests[method, route, status] += 1
        self.answers[method, route].add(seconds)

    # What all processes do: from the store, in a thread

    def catch_up(self, clock: Callable[[], float] = monotonic) -> None:
        """Count what no server has counted yet; what does not fit in a few seconds is left for the next time."""
        with self._lock:
            end = clock() + LONGEST_COUNT
            self.processed.update(self._store.counting.take_calls())
            self._count_attempts(end, clock)
            while clock() < end and self._count_page():
                pass

    def _count_attempts(self, end: float, clock: Callable[[], float]) -> None:
        while clock() < end and (found := self._store.counting.take_attempts(PAGE)) != []:
            for attempt in found or ():
                self.callbacks[outcome_of(attempt.status)].add(attempt.seconds)

    def _count_page(self) -> bool:
        """Count a page of events, unless another server does; whether there may be more."""
        counting = self._store.counting
        page = counting.next_events(PAGE)
        task_infos = self._task_infos.of(page.events)
        ends = [event for event in page.events if _is_end(event)]
        seconds, used = self._seconds(page.events, ends), counting.used(ends)
        if not counting.take(page):
            return True
        for event in page.events:
            task = task_infos.get(event.task_id) if event.task_id is not None else None
            self._count(event, GONE if task is None else task.type)
            if event.id in seconds:
                self._time(event, GONE if task is None else task.type, seconds[event.id])
            if event.id in used:
                self._add_usage(GONE if task is None else task.type, used[event.id])
        return len(page.events) >= PAGE

    def _seconds(self, events: Sequence[AuditEvent], ends: Sequence[AuditEvent]) -> dict[int, float]:
        """How long the runs took that ended, by the event's id. Most began here; the others are looked up."""
        for event in events:
            if event.kind == "started" and event.exec_id is not None:
                self._started[event.exec_id] = event.at
        began = {end.id: self._started.pop(end.exec_id, None) for end in ends if end.exec_id is not None}
        began |= self._store.counting.started([end for end in ends if began.get(end.id) is None])
        while len(self._started) > MOST_STARTED:
            self._started.popitem(last=False)
        return {end.id: max((end.at - at).total_seconds(), 0.0) for end in ends if (at := began.get(end.id))}

    def _count(self, event: AuditEvent, task_type: str) -> None:
        self.published[event.kind] += 1
        if event.task_id is None or event.kind == "refused":  # an act upon the system, or a report that came too late
            return
        if event.kind in RETRY_EVENTS and event.seq == 0:  # told besides `overdue` or `lease_lost`
            return
        self.updates[_operation(event)] += 1
        if event.kind == "submitted":
            self.submitted[task_type] += 1
        elif event.kind in RETRY_EVENTS:
            self.retries[task_type] += 1
        elif event.kind == "compensated":
            self.compensated[task_type] += 1
        elif event.after == State.DEAD and event.before != State.DEAD:
            self.dead[task_type] += 1

    def _time(self, event: AuditEvent, task_type: str, seconds: float) -> None:
        status = status_word(View.BROKER, State(str(event.after)), int(event.kind in RETRY_EVENTS))
        self.executions[task_type, status].add(seconds)

    def _add_usage(self, task_type: str, used: Usage) -> None:
        self.cpu_seconds[task_type] += used.cpu_seconds
        if used.memory_bytes is not None:
            self.memory[task_type].add(used.memory_bytes)
        self.read_bytes[task_type] += used.read_bytes or 0
        self.written_bytes[task_type] += used.written_bytes or 0


def _is_end(event: AuditEvent) -> bool:
    """Whether a run ended with this event; one with children lasts while it waits for them."""
    return event.task_id is not None and event.before in TIMED and event.after not in (*TIMED, None)


def outcome_of(status: int | None) -> str:
    """What came of an attempt, in one word."""
    if status is None:
        return "unanswered"
    return "delivered" if 200 <= status < 300 else "refused"


def _operation(event: AuditEvent) -> str:
    if event.kind == "submitted":
        return "create"
    if event.kind == "progress":
        return "updateProgress"
    if event.before != event.after:
        return "updateStatus"
    return "update"
