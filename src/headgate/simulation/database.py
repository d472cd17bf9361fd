"""The one database under all simulated processes, and the faults between it and them."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from headgate.core.errors import Unavailable
from headgate.simulation.process import Killed, Process
from headgate.store.wakeup.message import News

T = TypeVar("T")
FAULTS = {
    "crash": "crash in a transaction",
    "crash_after": "crash after a commit",
    "no_answer": "answer lost after a commit",
    "unreached": "store not reached",
}
NO_ANSWER = "the store did not answer"
NEWS_SECONDS = 0.002  # until news arrive


class Transaction(NamedTuple):
    """One line of what happened: a transaction of a process, and what came of it."""

    at: float
    process: str
    what: str  # as `name_of` names it
    outcome: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at the next transaction of a process: a crash before one of its statements or after its commit, or
    no answer, committed or not."""

    kind: str  # one of FAULTS
    statement: int = 0
    within: str | None = None  # the transaction that is meant; None: whichever is next


class SharedDatabase:
    """A real store's database, reached by simulated processes one transaction at a time."""

    def __init__(self, real: Any, clock: Callable[[], float], later: Callable[..., object]) -> None:
        self.dialect: str = real.dialect
        self.one_writer: bool = real.one_writer
        self.processes: list[Process] = []
        self.on_commit: Callable[[str], None] = lambda what: None  # called with the name of what was committed
        self.trace: list[Transaction] = []
        self.faults: Counter[str] = Counter()
        self.down_until = 0.0
        self.news_lost_until = 0.0
        self._real = real
        self._clock = clock
        self._later = later
        self._pending: dict[str, list[Fault]] = {}
        self._news = News()
        real.on_news = self._collect

    def arm(self, process: str, fault: Fault) -> None:
        """Have this befall the process at its next transaction that writes."""
        self._pending.setdefault(process, []).append(fault)

    def disarm(self) -> None:
        self._pending.clear()

    def transact(self, process: Process, operation: Callable[[Any], T], *, writes: bool) -> T:
        if not process.alive:
            raise Killed
        what = name_of(operation)
        if self._clock() < self.down_until:
            self._note(process, what, "the store is away")
            raise Unavailable(NO_ANSWER)
        fault = self._next_fault(process.name, what) if writes else None
        if fault is None:
            return self._commit(process, operation, what, writes)
        self.faults[f"{FAULTS[fault.kind]}: {what}"] += 1
        self._note(process, what, fault.kind)
        if fault.kind == "unreached":
            raise Unavailable(NO_ANSWER)
        if fault.kind == "crash":
            process.kill()
            self._real.write(lambda db: _cut_short(operation, db, fault.statement))
        self._real.write(operation)
        self.on_commit(what)
        if fault.kind == "crash_after":
            process.kill()
            raise Killed
        raise Unavailable(NO_ANSWER)  # it was committed, and the caller does not know

    def _next_fault(self, process: str, what: str) -> Fault | None:
        pending = self._pending.get(process, [])
        for number, fault in enumerate(pending):
            if fault.within in (None, what):
                return pending.pop(number)
        return None

    def _commit(self, process: Process, operation: Callable[[Any], T], what: str, writes: bool) -> T:
        self._news = News()
        try:
            result: T = self._real.write(operation) if writes else self._real.read(operation)
        except Exception as error:
            self._note(process, what, f"{type(error).__name__}: {error}")
            raise
        self._note(process, what, "done" if writes else "")
        if writes:
            self.on_commit(what)
        if self._news:
            self._send_news(process, self._news)
        return result

    def _collect(self, news: News) -> None:
        self._news = news

    def _send_news(self, source: Process, news: News) -> None:
        source.connection.on_news(news)
        if self._clock() < self.news_lost_until:
            self.faults["news lost"] += 1
            return
        for process in self.processes:
            if process is not source and process.alive and process.connection.listening:
                self._later(NEWS_SECONDS, process.connection.on_news, news)

    def _note(self, process: Process, what: str, outcome: str) -> None:
        self.trace.append(Transaction(self._clock(), process.name, what, outcome))


def name_of(operation: Callable[[Any], Any]) -> str:
    """The method of the store whose transaction this is: `Claims.take.<locals>.<lambda>` is `Claims.take`."""
    parts = getattr(operation, "__qualname__", "").split(".")
    return ".".join(part.lstrip("_") for part in parts[:2]) or "transaction"


class _StatementLimit:
    """A transaction that is killed before one of its statements."""

    def __init__(self, db: Any, left: int) -> None:
        self._db = db
        self._left = left

    def __getattr__(self, name: str) -> Any:
        if name in ("send", "rows", "each", "many", "note"):
            if self._left == 0:
                raise Killed
            self._left -= 1
        return getattr(self._db, name)


def _cut_short(operation: Callable[[Any], Any], db: Any, statement: int) -> None:
    operation(_StatementLimit(db, statement))
    raise Killed  # before the commit


class WallClock:
    """The store's clock: it goes with the virtual time, and can be set."""

    def __init__(self, begin: datetime, clock: Callable[[], float]) -> None:
        self._begin = begin
        self._clock = clock
        self._off = self._furthest = 0.0
        self._shown: dict[datetime, float] = {}  # when each time was shown; a clock that is set back may show it again

    def __call__(self) -> datetime:
        now = self._clock()
        wall = self._begin + timedelta(seconds=now + self._off)
        self._shown[wall] = now
        return wall

    def step(self, seconds: float) -> None:
        self._off += seconds
        self._furthest = max(self._furthest, self._off)

    def step_to_latest(self) -> None:
        """Set the clock as far ahead as it ever was, so that every awaited time is past or near."""
        self._off = self._furthest

    def virtual(self, walls: Iterable[datetime]) -> list[float]:
        """The virtual times at which the clock showed these."""
        return [self._shown[wall] for wall in walls]
