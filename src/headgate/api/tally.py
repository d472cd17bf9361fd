"""What is counted for `/metrics`: by this process what it does itself, and from the feed what all processes do."""

import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime
from itertools import accumulate

from headgate.core.errors import NotFound
from headgate.core.events import AuditEvent
from headgate.core.states import State, View, status_word
from headgate.environment import monotonic
from headgate.events.task_infos import TaskInfo, TaskInfoCache
from headgate.store.events.feed import Cursor
from headgate.store.store import Store

PAGE = 2000
LONGEST_COUNT = 5.0
MOST_STARTED = 100_000
EXECUTION_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
ANSWER_BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
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
    """Counters since this process began; each event of the feed is counted once, however late it commits."""

    def __init__(self, store: Store, task_infos: TaskInfoCache) -> None:
        self._store = store
        self._task_infos = task_infos
        self._cursor: Cursor | None = None
        self._lock = threading.Lock()  # counting from the feed is done by one thread at a time
        self._started: OrderedDict[str, datetime] = OrderedDict()
        self.submitted: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        self.compensated: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self.updates: Counter[str] = Counter()
        self.executions = Histograms(EXECUTION_BUCKETS)
        self.processed: Counter[tuple[str, str]] = Counter()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.answers = Histograms(ANSWER_BUCKETS)
        self.callbacks = Histograms(ANSWER_BUCKETS)
        self._attempt: int | None = None  # the last attempt to deliver a callback that was counted

    # What this process does itself: on the event loop's thread

    def count_event(self, listener: str, kind: str) -> None:
        """A listener of this process got an event."""
        self.processed[listener, kind] += 1

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; the time is that to the first byte of the answer."""
        self.requests[method, route, status] += 1
        self.answers[method, route].add(seconds)

    # What all processes do: from the feed, in a thread

    def begin(self) -> None:
        """Count from here on."""
        with self._lock:
            if self._cursor is None:
                self._cursor = self._store.events.last()
            if self._attempt is None:
                self._attempt = self._store.deliveries.last_attempt()

    def catch_up(self, clock: Callable[[], float] = monotonic) -> None:
        """Count what has happened since the last time; what does not fit in a few seconds is left for the next."""
        self.begin()
        with self._lock:
            end = clock() + LONGEST_COUNT
            self._count_attempts(end, clock)
            while clock() < end:
                assert self._cursor is not None
                events, self._cursor = self._store.events.after(self._cursor, PAGE)
                task_infos = self._task_infos.of(events)
                for event in events:
                    self._count(event, task_infos.get(event.task_id) if event.task_id is not None else None)
                if len(events) < PAGE:
                    return

    def _count_attempts(self, end: float, clock: Callable[[], float]) -> None:
        """Attempts to deliver callbacks, seconds after they ended."""
        assert self._attempt is not None
        while clock() < end and (found := self._store.deliveries.attempts_after(self._attempt, PAGE)):
            for attempt in found:
                self.callbacks[outcome_of(attempt.status)].add(attempt.seconds)
            self._attempt = found[-1].id

    def _count(self, event: AuditEvent, task: TaskInfo | None) -> None:
        self.published[event.kind] += 1
        if event.task_id is None or event.kind == "refused":  # an act upon the system, or a report that came too late
            return
        if event.kind in RETRY_EVENTS and event.seq == 0:  # told besides `overdue` or `lease_lost`
            return
        task_type = GONE if task is None else task.type
        self.updates[_operation(event)] += 1
        if event.kind == "submitted":
            self.submitted[task_type] += 1
        elif event.kind in RETRY_EVENTS:
            self.retries[task_type] += 1
        elif event.kind == "compensated":
            self.compensated[task_type] += 1
        elif event.after == State.DEAD and event.before != State.DEAD:
            self.dead[task_type] += 1
        self._time(event, task_type)

    def _time(self, event: AuditEvent, task_type: str) -> None:
        if event.kind == "started" and event.exec_id is not None:
            self._started[event.exec_id] = event.at
            if len(self._started) > MOST_STARTED:
                self._started.popitem(last=False)
        elif event.before == State.RUNNING and event.after not in (State.RUNNING, None):
            began = self._started.pop(event.exec_id or "", None)
            seconds = self._exec_time(event) if began is None else (event.at - began).total_seconds()
            if seconds is not None:
                status = status_word(View.BROKER, State(str(event.after)), int(event.kind in RETRY_EVENTS))
                self.executions[task_type, status].add(max(seconds, 0.0))

    def _exec_time(self, event: AuditEvent) -> float | None:
        """Of an execution that began before the counting did."""
        try:
            return self._store.tasks.get(event.task_id or 0).exec_time
        except NotFound:
            return None


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
