"""What a run leaves behind, for the checker: from the store, from the handlers' ledger, from the callers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.core.limits import Rate


class Row(NamedTuple):
    """One audit row. Rows come in the order of their commits."""

    id: int
    task_id: int | None
    seq: int  # 0: no transition
    at: float  # seconds, by the ledger's clock
    wall: float  # seconds, by the store's clock, which may have been stepped
    kind: str
    before: str | None
    after: str | None
    actor: str
    exec_id: str | None
    detail: str | None


class TaskRecord(NamedTuple):
    """One task as it stands at the end, live or in history."""

    id: int
    tenant_id: int
    type: str
    status: str
    lane: str
    mutex: str | None
    rate_key: str | None
    parent_id: int | None
    root_id: int | None
    seq: int
    attempt: int
    exec_id: str | None
    worker_id: int | None
    finished: float | None  # by the store's clock
    start_time: float | None = None  # by the store's clock, as it was set last
    retry_of: int | None = None
    agent_id: str | None = None
    correlation_id: str | None = None
    error_count: int = 0
    lost_count: int = 0


class LedgerEntry(NamedTuple):
    """One line of the ledger: what a handler did, outside the store. A fenced ledger refuses a lower attempt."""

    at: float
    what: str  # start, effect, end; also error, died (with its process), child (that it began to submit)
    task_id: int
    exec_id: str
    attempt: int
    accepted: bool = True


class Ledger:
    """What handlers really did, kept outside the store, as a careful outside system would.

    It refuses an effect of an attempt that is older than the newest it has seen of the task.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._newest: dict[int, int] = {}
        self.entries: list[LedgerEntry] = []

    def write(self, what: str, task_id: int, exec_id: str, attempt: int) -> bool:
        """Note it; whether it was accepted."""
        newest = self._newest[task_id] = max(attempt, self._newest.get(task_id, 0))
        accepted = what != "effect" or attempt == newest
        self.entries.append(LedgerEntry(self._clock(), what, task_id, exec_id, attempt, accepted))
        return accepted


class DeliveryRow(NamedTuple):
    """One callback as it stands at the end; `seq` is that of the transition that asked for it."""

    id: int
    webhook_id: str
    task_id: int
    kind: str
    seq: int
    status: str
    attempts: int


class Receipt(NamedTuple):
    """One callback as it was received, and the status it was answered with; None: with nothing."""

    row: int  # the last audit row at that time: more reliable than any clock for what came first
    webhook_id: str
    body: str
    status: int | None

    @property
    def arrived(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Submission(NamedTuple):
    """One call of a client, with its idempotency key if it had one: made, refused, or unknown (no answer came)."""

    key: str | None
    answer: str
    task_ids: tuple[int, ...] = ()
    size: int = 1  # how many tasks it asked for


class ScheduleLogLine(NamedTuple):
    """One line of a schedule's log, as it stands at the end."""

    at: float  # seconds, by the ledger's clock: when it was begun
    schedule_id: int
    tick: str | None  # None: a person triggered it
    result: str
    task_id: int | None
    trans: bool  # it ends with its task or call


class Arrival(NamedTuple):
    """A call of a schedule that arrived at its endpoint, and whether it was answered well."""

    schedule_id: int
    tick: str | None
    well: bool


class MessageEntry(NamedTuple):
    """What happened to a message: `sent` to the broker, `taken` by it, `acknowledged`, or `buried` in the dead-letter
    queue as unusable; an event without a listener is `dropped`, or `returned` if it asked."""

    row: int  # the last audit row that there was by then
    what: str
    exchange: str
    message_id: str
    task_id: int | None


class Handover(NamedTuple):
    """A claim for the broker, as its commit left things: how many tasks are in the broker, and how many slots of live
    consumers are free."""

    row: int  # the last audit row at that time: its own, if it took anything
    in_broker: int
    free: int
    actors: tuple[str, ...]  # the dispatchers that are alive


@dataclass(frozen=True, slots=True)
class Evidence:
    """A whole run, at rest."""

    rows: Sequence[Row]
    tasks: Sequence[TaskRecord]
    ledger: Sequence[LedgerEntry] = ()
    submissions: Sequence[Submission] = ()
    keys: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # the store's idempotency keys
    feed_ids: Sequence[int] | None = None  # ids of audit rows as a reader of the feed got them; None: not read
    replaceable_ids: Collection[int] = frozenset()  # those of progress: a newer one takes the place of the last
    uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # resources by type
    capacities: Mapping[str, int] = field(default_factory=dict)  # "lane NAME", "resource NAME": as the run began
    rates: Mapping[str, Rate] = field(default_factory=dict)  # "lane:NAME", "type:CODE", "key:NAME": as it began
    deliveries: Sequence[DeliveryRow] | None = None  # of callbacks; None: not recorded
    received: Sequence[Receipt] = ()
    callbacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by type: the kinds it has
    counted: Mapping[str, int] | None = None  # the store's own count of tasks, by state
    keep: float | None = None  # seconds that finished tasks may be kept for, at most
    ended_at: float = 0.0  # by the store's clock
    at_rest: bool = True  # the run was left alone until nothing more could happen
    start_seconds: float | None = None  # between two starts of one agent at least
    skew: float = 0.0  # seconds by which a row's `at` and the ledger's clock may differ
    log_lines: Sequence[ScheduleLogLine] = ()  # of all schedules' logs
    arrivals: Sequence[Arrival] = ()  # at the endpoints that schedules call
    timeouts: Mapping[str, float] | None = None  # seconds by type; None: what executions are charged with is not judged
    workers: Collection[int] = ()  # those whose handlers write every end and every death to the ledger
    ticks_until: float | None = None  # by the store's clock: up to here every tick must have been dealt with
    messages: Sequence[MessageEntry] | None = None  # None: there is no broker
    handovers: Sequence[Handover] = ()
    removed_ids: Collection[int] = frozenset()  # of audit rows that retention removed, after they were put on record
