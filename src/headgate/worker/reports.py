"""Where a handler's reports go: to the store, under the execution's exec_id; what is asked of it comes back."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from headgate.client import Call, Task
from headgate.core.errors import StaleExecution, Unavailable
from headgate.core.task import NewTask
from headgate.service import Aside
from headgate.store.base import Store
from headgate.store.claims import Control
from headgate.store.tasks import Submitted
from headgate.worker.context import Answer, Done, Interrupted, Paused
from headgate.worker.run import Run, Stop

T = TypeVar("T")
log = logging.getLogger("headgate.worker")


class Reports:
    """The reports of one execution, one call to the store each."""

    __slots__ = ("_aside", "_of", "_store", "run")

    def __init__(self, store: Store, aside: Aside, run: Run) -> None:
        self.run = run
        self._store = store
        self._aside = aside
        self._of = (run.execution.id, run.execution.exec_id)

    def progress(self, progress: str) -> Control:
        return self._in_passing(self._store.progress, progress)

    def log(self, level: str, message: str) -> Control:
        return self._in_passing(self._store.add_log, [(level, message)])

    def _in_passing(self, report: Callable[..., Control], said: Any) -> Control:
        """Said for people to read: while the store is away it goes unheard, and the work goes on."""
        try:
            return report(*self._of, said)
        except Unavailable as error:
            log.warning("task %d: a report was not kept: %s", self.run.execution.id, error)
            return Control()

    def checkpoint(self, name: str, state: str) -> Control:
        return self._store.save_checkpoint(*self._of, name, state)

    def tell(self, kind: str, said: Sequence[str]) -> Control:
        """A report that came from another process, by name."""
        report: Any = {"progress": self.progress, "log": self.log, "checkpoint": self.checkpoint}[kind]
        return report(*said)  # type: ignore[no-any-return]

    def make(self, wishes: Sequence[NewTask]) -> list[Submitted]:
        return self._store.submit_many(wishes, actor=f"task:{self.run.execution.id}", under=self.run.execution)

    def submit(self, calls: Sequence[Call[Any]]) -> list[Task[Any]]:
        made = self.make([call.new for call in calls])
        return [
            Task(done, call.handler.arguments.result, self._store, self._aside)
            for done, call in zip(made, calls, strict=True)
        ]


class ThreadReporter:
    """For a handler in a thread: a report is made when the call returns, and a request to stop is raised by it."""

    __slots__ = ("_reports", "_run")

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._run = reports.run

    def progress(self, progress: str) -> Answer[None]:
        return self._obey(self._reports.progress, progress)

    def log(self, level: str, message: str) -> Answer[None]:
        return self._obey(self._reports.log, level, message)

    def checkpoint(self, name: str, state: str) -> Answer[None]:
        self._obey(self._reports.checkpoint, name, state)
        if self._run.pausing:
            raise Paused
        return Done(None)

    def submit(self, calls: Sequence[Call[Any]]) -> Answer[list[Task[Any]]]:
        return Done(self._reports.submit(calls))

    def _obey(self, report: Any, *said: str) -> Answer[None]:
        try:
            control: Control = report(*said)
        except StaleExecution:
            self._run.stopped = Stop.LOST
            raise
        self._run.pausing = control.pause
        if control.cancel and self._run.stopped is None:
            self._run.stopped = Stop.CANCEL
            raise Interrupted
        return Done(None)


class LoopReporter:
    """For a handler on the event loop: a report is under way when the call returns, and made when it is awaited."""

    __slots__ = ("_aside", "_reports", "_run")

    def __init__(self, reports: Reports, aside: Aside) -> None:
        self._reports = reports
        self._run = reports.run
        self._aside = aside

    def progress(self, progress: str) -> Answer[None]:
        return _begun(self._obey(self._reports.progress, progress))

    def log(self, level: str, message: str) -> Answer[None]:
        return _begun(self._obey(self._reports.log, level, message))

    def checkpoint(self, name: str, state: str) -> Answer[None]:
        return _begun(self._checkpoint(name, state))

    def submit(self, calls: Sequence[Call[Any]]) -> Answer[list[Task[Any]]]:
        return _begun(self._submit(calls))

    async def _submit(self, calls: Sequence[Call[Any]]) -> list[Task[Any]]:
        return await self._aside(self._reports.submit, calls)  # type: ignore[no-any-return]

    async def _checkpoint(self, name: str, state: str) -> None:
        await self._obey(self._reports.checkpoint, name, state)
        if self._run.pausing:
            raise Paused

    async def _obey(self, report: Any, *said: str) -> None:
        try:
            self._run.hear(await self._aside(report, *said))
        except StaleExecution:
            self._run.stop(Stop.LOST)
            raise


def _begun(report: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    task = asyncio.ensure_future(report)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to await a report
    return task
