"""The one database under all simulated processes, and the faults between it and them."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from headgate.core.errors import Unavailable
from headgate.simulation.process import Killed, Process
from headgate.store.news import News

T = TypeVar("T")
KINDS = {
    "crash": "crash in a transaction",
    "crash_after": "crash after a commit",
    "no_answer": "answer lost after a commit",
    "unreached": "store not reached",
}
SILENCE = "the store did not answer"
TOLD = 0.002  # seconds that news take


class Transaction(NamedTuple):
    """One line of what happened: a transaction of a process, and what came of it."""

    at: float
    process: str
    what: str
    came_of_it: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a process at its next transaction: a crash before one of its statements or after its commit, or
    no answer, whether it was committed or not."""

    kind: str  # one of KINDS
    statement: int = 0
    what: str | None = None  # the transaction that is meant; None: whichever is next


class Database:
    """A real store's database, reached by simulated processes one transaction at a time."""

    def __init__(self, real: Any, clock: Callable[[], float], later: Callable[..., object]) -> None:
        self.dialect: str = real.dialect
        self.lines: list[Process] = []
        self.trace: list[Transaction] = []
        self.faults: Counter[str] = Counter()
        self.away_until = 0.0
        self.deaf_until = 0.0
        self._real = real
        self._clock = clock
        self._later = later
        self._pending: dict[str, list[Fault]] = {}
        self._news = News()
        real.on_news = self._hear

    def arm(self, process: str, fault: Fault) -> None:
        """Have this befall the process at its next transaction that writes."""
        self._pending.setdefault(process, []).append(fault)

    def disarm(self) -> None:
        self._pending.clear()

    def transact(self, process: Process, operation: Callable[[Any], T], *, writes: bool) -> T:
        if not process.alive:
            raise Killed
        what = name_of(operation)
        if self._clock() < self.away_until:
            self._note(process, what, "the store is away")
            raise Unavailable(SILENCE)
        fault = self._due(process.name, what) if writes else None
        if fault is None:
            return self._commit(process, operation, what, writes)
        self.faults[f"{KINDS[fault.kind]}: {what}"] += 1
        self._note(process, what, fault.kind)
        if fault.kind == "unreached":
            raise Unavailable(SILENCE)
        if fault.kind == "crash":
            process.kill()
            self._real.write(lambda db: _cut_short(operation, db, fault.statement))
        self._real.write(operation)
        if fault.kind == "crash_after":
            process.kill()
            raise Killed
        raise Unavailable(SILENCE)  # it was committed, and nobody heard

    def _due(self, process: str, what: str) -> Fault | None:
        pending = self._pending.get(process, [])
        for number, fault in enumerate(pending):
            if fault.what in (None, what):
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
        if self._news:
            self._tell(process, self._news)
        return result

    def _hear(self, news: News) -> None:
        self._news = news

    def _tell(self, source: Process, news: News) -> None:
        source.line.on_news(news)
        if self._clock() < self.deaf_until:
            self.faults["news lost"] += 1
            return
        for process in self.lines:
            if process is not source and process.alive and process.line.listening:
                self._later(TOLD, process.line.on_news, news)

    def _note(self, process: Process, what: str, came_of_it: str) -> None:
        self.trace.append(Transaction(self._clock(), process.name, what, came_of_it))


def name_of(operation: Callable[[Any], Any]) -> str:
    """The promise of the store that an operation keeps: `Store.claim.<locals>.<lambda>` is a claim."""
    parts = getattr(operation, "__qualname__", "").split(".")
    return parts[1].lstrip("_") if len(parts) > 1 else parts[0].lstrip("_") or "transaction"


class _Counted:
    """One transaction's view that ends before a statement of ours."""

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
    operation(_Counted(db, statement))
    raise Killed  # before the commit


class WallClock:
    """The store's clock: it goes with the virtual time, and can be set."""

    def __init__(self, begin: datetime, clock: Callable[[], float]) -> None:
        self._begin = begin
        self._clock = clock
        self._settings: list[tuple[float, float]] = [(0.0, 0.0)]  # since when it is how far off

    def __call__(self) -> datetime:
        return self._begin + timedelta(seconds=self._clock() + self._settings[-1][1])

    def step(self, seconds: float) -> None:
        self._settings.append((self._clock(), self._settings[-1][1] + seconds))

    def step_to_latest(self) -> None:
        """As far ahead as it ever was: whatever waits for a time has it behind or near."""
        self.step(max(off for _, off in self._settings) - self._settings[-1][1])

    def virtual(self, walls: Iterable[datetime]) -> list[float]:
        """The virtual times at which the clock showed these, one after the other."""
        found, number = [], 0
        for wall in walls:
            seconds = (wall - self._begin).total_seconds()
            while number + 1 < len(self._settings) and not self._fits(seconds, number):
                number += 1
            found.append(seconds - self._settings[number][1])
        return found

    def _fits(self, seconds: float, number: int) -> bool:
        since, off = self._settings[number]
        until = self._settings[number + 1][0]
        return since - 1e-4 <= seconds - off <= until + 1e-4
