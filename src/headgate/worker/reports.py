"""Writes a handler's reports to the store, under the execution's exec_id; requests to the handler come back."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from headgate.client import Call, Task
from headgate.core.errors import HeadgateError, Invalid, Refused, StaleExecution, Unavailable
from headgate.core.task import NewTask
from headgate.environment import monotonic
from headgate.pauses import wait
from headgate.store.claim.contract import Control
from headgate.store.store import Store
from headgate.store.tasks.submit import Submitted
from headgate.threads import InThread
from headgate.worker.context import DoneReply, Interrupted, Paused, ReportReply
from headgate.worker.holds import HoldLine, RunHolds
from headgate.worker.run import Run, Stop

A = TypeVar("A")
T = TypeVar("T")
OnLoop = Callable[[Coroutine[Any, Any, None]], Future[None]]  # has a coroutine run on the worker's event loop
LISTEN_SECONDS = 0.05
PROGRESS_SECONDS = 1.0  # a loop may report each step: this is how often it is written down, and told as an event
log = logging.getLogger("headgate.worker")


class ReportFailed(HeadgateError):
    """Something that a handler began and did not await has failed, so the handler's work is incomplete."""


class ExecutionReports:
    """The reports of one execution, one call to the store each."""

    __slots__ = ("_holds", "_ids", "_line", "_store", "in_thread", "run")

    def __init__(self, store: Store, in_thread: InThread, run: Run, line: HoldLine) -> None:
        self.run = run
        self._line = line
        self._holds: RunHolds | None = None
        self._store = store
        self.in_thread = in_thread
        self._ids = (run.execution.id, run.execution.exec_id)

    @property
    def holds(self) -> RunHolds:
        """The resources it holds for a part of its run."""
        if self._holds is None:
            self._holds = RunHolds(self._line, self.run)
        return self._holds

    async def close(self) -> None:
        """Release what it may still hold."""
        if self._holds is not None:
            await self._holds.close()

    def progress(self, progress: str) -> Control:
        return self._store.executions.progress(*self._ids, progress, event=True)

    def log(self, level: str, message: str) -> Control:
        """Store a log line. Only people read it: while the store is away it is dropped, and the work continues."""
        try:
            return self._store.executions.add_log(*self._ids, [(level, message)])
        except Unavailable as error:
            log.warning("log line not stored: task=%d error=%s", self.run.execution.id, error)
            return Control()

    def checkpoint(self, name: str, state: str) -> Control:
        return self._store.executions.save_checkpoint(*self._ids, name, state)

    def report(self, kind: str, values: Sequence[str]) -> Control:
        """A report that came from another process, by name."""
        method: Any = {"progress": self.progress, "log": self.log, "checkpoint": self.checkpoint}[kind]
        return method(*values)  # type: ignore[no-any-return]

    def submit_tasks(self, new_tasks: Sequence[NewTask]) -> list[Submitted]:
        return self._store.tasks.submit_many(new_tasks, actor=f"task:{self.run.execution.id}", under=self.run.execution)

    def submit(self, calls: Sequence[Call[Any]]) -> list[Task[Any]]:
        made = self.submit_tasks([call._new for call in calls])
        return [
            Task(done, call._handler.result_type, lambda: self._store, self.in_thread)
            for done, call in zip(made, calls, strict=True)
        ]


class SteadyProgress(Generic[A]):
    """The newest progress of a handler in a thread. The first is written at once, later ones every PROGRESS_SECONDS; a
    timer writes the last if the handler reports no more. While the store is away the newest is kept and tried again.
    """

    __slots__ = ("_clock", "_lock", "_newest", "_timer", "_timers", "_write", "_written_at")

    def __init__(
        self, write: Callable[[str], A], clock: Callable[[], float] = monotonic, *, timers: bool = True
    ) -> None:
        self._write = write
        self._clock = clock
        self._timers = timers
        self._lock = threading.Lock()  # of two writes the newer one is the later one
        self._newest: str | None = None
        self._written_at = -PROGRESS_SECONDS
        self._timer: threading.Timer | None = None

    def put(self, progress: str) -> A | None:
        """Write it now if it is time, and return the answer; else it is written later, unless there is a newer one."""
        with self._lock:
            self._newest = progress
            return self._write_or_wait()

    def close(self) -> str | None:
        """Write no more; returns what has not been written."""
        self._timers = False
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            return self._newest

    def _write_late(self) -> None:
        with self._lock, suppress(HeadgateError):  # the handler hears of it at its next report
            self._timer = None
            if self._timers and self._newest is not None:
                self._write_or_wait()

    def _write_or_wait(self) -> A | None:
        pause = self._written_at + PROGRESS_SECONDS - self._clock()
        if pause <= 0:
            self._written_at, pause = self._clock(), PROGRESS_SECONDS
            assert self._newest is not None
            try:
                answer = self._write(self._newest)
            except Unavailable as error:
                log.warning("progress not stored yet: %s", error)
            else:
                self._newest = None
                return answer
        if self._timer is None and self._timers:
            self._timer = threading.Timer(pause, self._write_late)
            self._timer.daemon = True
            self._timer.start()
        return None


class ThreadReporter:
    """For a handler in a thread: a report is made when the call returns, and a request to stop is raised by it."""

    __slots__ = ("_on_loop", "_progress", "_reports", "_run")

    def __init__(
        self, reports: ExecutionReports, on_loop: OnLoop, progress: SteadyProgress[Control] | None = None
    ) -> None:
        self._reports = reports
        self._on_loop = on_loop
        self._run = reports.run
        self._progress = progress

    def progress(self, progress: str) -> ReportReply[None]:
        if self._progress is None:
            self._progress = SteadyProgress(self._reports.progress)
        return self._obey(self._progress.put, progress)

    def close(self) -> None:
        """Leave the progress that is not written to the settle."""
        if self._progress is not None:
            self._run.progress = self._progress.close()

    def log(self, level: str, message: str) -> ReportReply[None]:
        return self._obey(self._reports.log, level, message)

    def checkpoint(self, name: str, state: str) -> ReportReply[None]:
        self._obey(self._reports.checkpoint, name, state)
        if self._run.pausing:
            raise Paused
        return DoneReply(None)

    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]:
        return DoneReply(self._reports.submit(calls))

    def hold(self, resource: str, timeout_seconds: float | None, keeps: Sequence[str]) -> ReportReply[None]:
        taking = self._on_loop(self._reports.holds.take(resource, timeout_seconds, keeps))
        try:
            return _reply_of(taking)
        except BaseException:
            taking.cancel()
            raise

    def release(self, resource: str) -> ReportReply[None]:
        return _reply_of(self._on_loop(self._reports.holds.release(resource)))

    def _obey(self, report: Callable[..., Control | None], *values: str) -> ReportReply[None]:
        try:
            control = report(*values) or Control(pause=self._run.pausing)
        except StaleExecution:
            self._run.stopped = Stop.LOST
            raise
        self._run.pausing = control.pause
        if control.cancel and self._run.stopped is None:
            self._run.stopped = Stop.CANCEL
            raise Interrupted
        return DoneReply(None)


def _reply_of(future: Future[T]) -> DoneReply[T]:
    """The answer, once it is there. Waits a little at a time: an interruption does not cut a call into C short."""
    while not future.done():
        futures.wait([future], LISTEN_SECONDS)
    return DoneReply(future.result())


class _AwaitedReply:
    """An answer for coroutines only: nothing is begun before it is awaited."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, None]:
        return self._work().__await__()

    def result(self) -> None:
        raise Invalid("use `async with context.hold(…)` in a coroutine")


class _LaterReply(DoneReply[None]):
    """The answer to something done later. Awaiting it lets others run, so reporting in a loop does not block them."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield


class LoopReporter:
    """For a handler on the event loop: a report is under way when the call returns, and made when it is awaited.

    A report that is never awaited is still made: `finish` waits for it.
    """

    __slots__ = (
        "_begun", "_closing", "_finished", "_in_thread", "_progress", "_reports", "_run", "_writer", "_written_at",
    )  # fmt: skip

    def __init__(self, reports: ExecutionReports, in_thread: InThread) -> None:
        self._reports = reports
        self._run = reports.run
        self._in_thread = in_thread
        self._begun: set[asyncio.Task[Any]] = set()  # under way, or failed
        self._finished = False
        self._progress: str | None = None  # the newest that has not been written
        self._written_at = -PROGRESS_SECONDS
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def finish(self) -> None:
        """Finish the reports that the handler began; raises the error of one, unless the handler has seen it."""
        await self.close()
        while under_way := [report for report in self._begun if not report.done()]:
            await asyncio.wait(under_way)
        self._finished = True
        for report in self._begun:
            if report._log_traceback and not isinstance(error := report.exception(), Paused):
                raise ReportFailed(f"a report that was not awaited failed: {error}") from error

    def _begin(self, report: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        if self._finished:
            report.close()
            text = f"task {self._run.execution.id} has ended: its handler did not await what it began"
            log.error("%s", text)
            raise Refused(text)
        task = asyncio.ensure_future(report)
        self._begun.add(task)
        task.add_done_callback(self._forget_if_made)
        return task

    def _forget_if_made(self, report: "asyncio.Task[Any]") -> None:
        if not report._log_traceback:  # it has no error
            self._begun.discard(report)

    def progress(self, progress: str) -> ReportReply[None]:
        self._progress = progress
        if self._writer is not None and not self._writer.done():  # it takes the newest
            return _LaterReply(None)
        pause = self._written_at + PROGRESS_SECONDS - monotonic()
        self._writer = self._begin(self._write_progress() if pause <= 0 else self._write_later(pause))
        return self._writer if pause <= 0 else _LaterReply(None)

    async def close(self) -> None:
        """Leave the progress that is not written to the settle."""
        self._closing.set()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        self._run.progress = self._progress

    async def _write_progress(self) -> None:
        progress, self._written_at = self._progress, monotonic()
        assert progress is not None
        try:
            await self._obey(self._reports.progress, progress)
        except Unavailable as error:  # it stays pending and is retried
            log.warning("task %d: progress not stored yet: %s", self._run.execution.id, error)
        else:
            if self._progress is progress:
                self._progress = None
        if self._progress is not None and not self._closing.is_set():
            self._writer = self._begin(self._write_later(PROGRESS_SECONDS))

    async def _write_later(self, pause: float) -> None:
        if not await wait(self._closing, pause):
            await self._write_progress()

    def log(self, level: str, message: str) -> ReportReply[None]:
        return self._begin(self._obey(self._reports.log, level, message))

    def checkpoint(self, name: str, state: str) -> ReportReply[None]:
        return self._begin(self._checkpoint(name, state))

    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]:
        return self._begin(self._submit(calls))

    def hold(self, resource: str, timeout_seconds: float | None, keeps: Sequence[str]) -> ReportReply[None]:
        return _AwaitedReply(lambda: self._reports.holds.take(resource, timeout_seconds, keeps))

    def release(self, resource: str) -> ReportReply[None]:
        return _AwaitedReply(lambda: self._reports.holds.release(resource))

    async def _submit(self, calls: Sequence[Call[Any]]) -> list[Task[Any]]:
        return await self._in_thread(self._reports.submit, calls)

    async def _checkpoint(self, name: str, state: str) -> None:
        await self._obey(self._reports.checkpoint, name, state)
        if self._run.pausing:
            raise Paused

    async def _obey(self, report: Any, *values: str) -> None:
        try:
            self._run.obey(await self._in_thread(report, *values))
        except StaleExecution:
            self._run.stop(Stop.LOST)
            raise
