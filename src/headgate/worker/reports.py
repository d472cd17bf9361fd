"""Where a handler's reports go: to the store, under the execution's exec_id; what is asked of it comes back."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from headgate.client import Call, Task
from headgate.core.errors import HeadgateError, Refused, StaleExecution, Unavailable
from headgate.core.task import NewTask
from headgate.environment import monotonic
from headgate.pauses import wait
from headgate.store.claim.contract import Control
from headgate.store.store import Store
from headgate.store.tasks.submit import Submitted
from headgate.threads import InThread
from headgate.worker.context import DoneReply, Interrupted, Paused, ReportReply
from headgate.worker.run import Run, Stop

T = TypeVar("T")
PROGRESS_SECONDS = 0.1  # a loop may report each step: this is how often it is written down
log = logging.getLogger("headgate.worker")


class ReportFailed(HeadgateError):
    """Something that a handler began, and did not await, failed: what it means to have done is not done."""


class ExecutionReports:
    """The reports of one execution, one call to the store each."""

    __slots__ = ("_ids", "_in_thread", "_store", "run")

    def __init__(self, store: Store, in_thread: InThread, run: Run) -> None:
        self.run = run
        self._store = store
        self._in_thread = in_thread
        self._ids = (run.execution.id, run.execution.exec_id)

    def progress(self, progress: str) -> Control:
        return self._best_effort(self._store.executions.progress, progress)

    def log(self, level: str, message: str) -> Control:
        return self._best_effort(self._store.executions.add_log, [(level, message)])

    def _best_effort(self, report: Callable[..., Control], value: Any) -> Control:
        """A report that only people read: while the store is away it is dropped, and the work goes on."""
        try:
            return report(*self._ids, value)
        except Unavailable as error:
            log.warning("report not kept: task=%d error=%s", self.run.execution.id, error)
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
        made = self.submit_tasks([call.new for call in calls])
        return [
            Task(done, call.handler.result_type, lambda: self._store, self._in_thread)
            for done, call in zip(made, calls, strict=True)
        ]


class SteadyProgress:
    """The newest progress of a handler in a thread: the first is written at once, later ones every PROGRESS_SECONDS,
    the last of them by a timer if the handler reports no more."""

    __slots__ = ("_clock", "_lock", "_newest", "_timer", "_timers", "_written_at")

    def __init__(self, clock: Callable[[], float] = monotonic, *, timers: bool = True) -> None:
        self._clock = clock
        self._timers = timers
        self._lock = threading.Lock()  # of two writes the newer one is the later one
        self._newest: str | None = None
        self._written_at = -PROGRESS_SECONDS
        self._timer: threading.Timer | None = None

    def put(self, progress: str, write: Callable[[str], object]) -> None:
        """Write it now if that is allowed; else it is `flush`ed later, unless there is a newer one by then."""
        with self._lock:
            self._newest = progress
            pause = self._written_at + PROGRESS_SECONDS - self._clock()
            if pause <= 0:
                self._write(write)
            elif self._timer is None and self._timers:
                self._timer = threading.Timer(pause, self._flush_late, [write])
                self._timer.daemon = True
                self._timer.start()

    def flush(self, write: Callable[[str], object]) -> None:
        """Write what has not been written."""
        with self._lock:
            self._write(write)

    def _flush_late(self, write: Callable[[str], object]) -> None:
        with suppress(HeadgateError, Interrupted):  # the handler hears of it at its next report
            self.flush(write)

    def _write(self, write: Callable[[str], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        progress, self._newest = self._newest, None
        if progress is not None:
            self._written_at = self._clock()
            write(progress)


class ThreadReporter:
    """For a handler in a thread: a report is made when the call returns, and a request to stop is raised by it."""

    __slots__ = ("_progress", "_reports", "_run")

    def __init__(self, reports: ExecutionReports, progress: SteadyProgress | None = None) -> None:
        self._reports = reports
        self._run = reports.run
        self._progress = progress

    def progress(self, progress: str) -> ReportReply[None]:
        if self._progress is None:
            self._progress = SteadyProgress()
        self._progress.put(progress, self._write_progress)
        return DoneReply(None)

    def flush(self) -> None:
        """Write the progress that was skipped."""
        if self._progress is not None:
            self._progress.flush(self._write_progress)

    def _write_progress(self, progress: str) -> None:
        self._obey(self._reports.progress, progress)

    def log(self, level: str, message: str) -> ReportReply[None]:
        return self._obey(self._reports.log, level, message)

    def checkpoint(self, name: str, state: str) -> ReportReply[None]:
        self._obey(self._reports.checkpoint, name, state)
        if self._run.pausing:
            raise Paused
        return DoneReply(None)

    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]:
        return DoneReply(self._reports.submit(calls))

    def _obey(self, report: Any, *values: str) -> ReportReply[None]:
        try:
            control: Control = report(*values)
        except StaleExecution:
            self._run.stopped = Stop.LOST
            raise
        self._run.pausing = control.pause
        if control.cancel and self._run.stopped is None:
            self._run.stopped = Stop.CANCEL
            raise Interrupted
        return DoneReply(None)


class LoopReporter:
    """For a handler on the event loop: a report is under way when the call returns, and made when it is awaited.

    One that nobody awaits is made all the same: `finish` waits for it.
    """

    __slots__ = (
        "_begun", "_finished", "_hurry", "_in_thread", "_progress", "_reports", "_run", "_writer", "_written_at",
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
        self._hurry: asyncio.Event | None = None

    async def finish(self) -> None:
        """Finish what the handler began; raises what one failed of, unless the handler has seen it."""
        if self._hurry is not None:
            self._hurry.set()
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
            return DoneReply(None)
        if self._hurry is None:
            self._hurry = asyncio.Event()
        pause = self._written_at + PROGRESS_SECONDS - monotonic()
        self._writer = self._begin(self._write_progress(self._hurry, pause))
        return self._writer if pause <= 0 else DoneReply(None)

    async def flush(self) -> None:
        """Write the progress that was skipped, if it can be, for a handler that has failed."""
        if self._hurry is not None and self._writer is not None:
            self._hurry.set()
            await asyncio.wait([self._writer])

    async def _write_progress(self, hurry: asyncio.Event, pause: float) -> None:
        while True:
            if pause > 0:
                await wait(hurry, pause)
            progress, self._progress = self._progress, None
            if progress is None:
                return
            self._written_at, pause = monotonic(), PROGRESS_SECONDS
            await self._obey(self._reports.progress, progress)
            if self._progress is None:
                return

    def log(self, level: str, message: str) -> ReportReply[None]:
        return self._begin(self._obey(self._reports.log, level, message))

    def checkpoint(self, name: str, state: str) -> ReportReply[None]:
        return self._begin(self._checkpoint(name, state))

    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]:
        return self._begin(self._submit(calls))

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
