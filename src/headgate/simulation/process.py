"""A simulated process: its own store over the one database, and every fault that can happen to it."""

import asyncio
import random
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from headgate.environment import monotonic
from headgate.simulation.evidence import Ledger
from headgate.store.store import Store
from headgate.store.wakeup.message import News

P = ParamSpec("P")
T = TypeVar("T")
LATENCIES = (0.0, 0.001, 0.001, 0.002, 0.005, 0.02, 0.1)  # seconds from a call to the store, and back

current_process: ContextVar["Process"] = ContextVar("headgate_simulated_process")


class DatabaseAccess(Protocol):
    """What a process can reach."""

    dialect: str
    one_writer: bool

    def transact(self, process: "Process", operation: Callable[[Any], T], *, writes: bool) -> T: ...


class Killed(BaseException):
    """The process is gone: whatever it still meant to do is not done."""


class Process:
    """One process. Its tasks end with it; its store does not answer any more."""

    def __init__(
        self,
        name: str,
        database: DatabaseAccess,
        ledger: Ledger,
        rng: random.Random,
        on_kill: Callable[["Process"], None],
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.alive = True
        self.connection = SimulatedConnection(self, database)
        self.store = Store(self.connection)  # type: ignore[arg-type]
        self._rng = rng
        self._on_kill = on_kill
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._frozen_until = 0.0
        self._handlers: dict[str, tuple[int, int]] = {}  # that run: by exec_id, the task and its attempt

    def run(self, start: Callable[[], T]) -> T:
        """Run something in this process; the asyncio tasks it creates belong to the process."""
        context = copy_context()
        context.run(current_process.set, self)
        return context.run(start)

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def kill(self) -> None:
        """Now, wherever it is."""
        if not self.alive:
            return
        for exec_id, (task_id, attempt) in self._handlers.items():
            self.ledger.write("died", task_id, exec_id, attempt)
        self.alive = False
        self.connection.close()
        for task in list(self._tasks):
            task.cancel()
        self._on_kill(self)

    def note(self, what: str, task_id: int, exec_id: str, attempt: int) -> None:
        """Write what a handler does to the ledger, as long as there is a process to write it."""
        if not self.alive:
            return
        if what == "start":
            self._handlers[exec_id] = (task_id, attempt)
        elif what == "end":
            self._handlers.pop(exec_id, None)
        self.ledger.write(what, task_id, exec_id, attempt)

    def freeze(self, seconds: float) -> None:
        """Freeze the process for a while: it makes no call to the store and has no effect."""
        self._frozen_until = max(self._frozen_until, monotonic() + seconds)

    async def thawed(self) -> None:
        while (left := self._frozen_until - monotonic()) > 0:  # noqa: ASYNC110 no event says when
            await asyncio.sleep(left)
        if not self.alive:
            raise Killed

    async def in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """A call to the store, with latency both ways; like a thread it continues even if the caller stops waiting."""
        return await asyncio.shield(asyncio.ensure_future(self._call(partial(work, *args, **kwargs))))

    async def _call(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(self._rng.choice(LATENCIES))
        await self.thawed()
        try:
            return work()
        finally:
            if self.alive:
                await asyncio.sleep(self._rng.choice(LATENCIES))
                await self.thawed()


class SimulatedConnection:
    """A process's way to the database: what `Store` needs of one."""

    def __init__(self, process: Process, database: DatabaseAccess) -> None:
        self.on_news: Callable[[News], None] = lambda news: None
        self.listening = False
        self.dialect = database.dialect
        self.one_writer = database.one_writer
        self._process = process
        self._database = database

    def write(
        self, operation: Callable[[Any], T], timeout: float | None = None, *, lock_seconds: float | None = None
    ) -> T:
        return self._database.transact(self._process, operation, writes=True)

    def read(self, operation: Callable[[Any], T]) -> T:
        return self._database.transact(self._process, operation, writes=False)

    snapshot = read  # simulated processes take turns

    def listen(self) -> None:
        self.listening = True
        self.on_news(News(missed=True))

    def close(self) -> None:
        self.listening = False
