"""The inside of a task's own process: import the handler, run it, say over a socket what happened.

One JSON line per message: the parent's first line is the order; the child's lines are [what, …]. The parent answers
each report, and a request to pause comes with the answer. The last line is the event that ended the execution.
"""

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import os
import runpy
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

import headgate.events.log_lines as log_lines
from headgate.client import Call, Task, slot_lender
from headgate.core.end_reasons import EndReason
from headgate.core.errors import Deadlock, HeadgateError, Invalid, NotFound, StaleExecution, Unavailable
from headgate.core.machine import CancelReached, Event, GivenBack, PauseReached, Raised, Returned, Snoozed
from headgate.core.task import Execution, TaskType
from headgate.events import telemetry
from headgate.pauses import Backoff
from headgate.settings import Pooler, Settings
from headgate.store.tasks.submit import Submitted
from headgate.task_function import App, TaskFunction
from headgate.worker.context import Context, DoneReply, Interrupted, Paused, ReportReply, current
from headgate.worker.reports import SteadyProgress
from headgate.worker.run import Run, Stop, event_of_error, event_of_result
from headgate.worker.threads import call_handler
from headgate.worker.usage import peak_usage

EVENTS: dict[str, type[Event]] = {
    event.__name__: event for event in (Returned, Raised, Snoozed, PauseReached, CancelReached, GivenBack)
}

MARK = "HEADGATE_EXECUTION"  # in the environment of an execution's process, and of whatever that starts
ERRORS: dict[str, type[HeadgateError]] = {
    error.code: error for error in (Deadlock, StaleExecution, NotFound, Unavailable)
}
HOLD_LOOKS = Backoff(0.005, 0.1)  # of the worker, which waits in the store
_SET_DEATH_SIGNAL = 1


class Order(msgspec.Struct):
    """All that a child needs to know."""

    module: str
    name: str
    main: str | None  # the file to run in place of `__main__`
    path: list[str]
    url: str  # of the store the worker works on, with what else it takes to open it
    schema: str
    pooler: Pooler
    secret: str  # that a pack's handler opens what it sealed with
    execution: Execution
    rules: TaskType
    saved: dict[str, str]
    log_setup: tuple[bool, str] | None  # how the worker writes its log, if it was set up by us

    @classmethod
    def of(cls, run: Run, rules: TaskType, saved: dict[str, str], settings: Settings) -> "Order":
        function = run.handler.function
        main = getattr(sys.modules["__main__"], "__file__", None) if function.__module__ == "__main__" else None
        return cls(
            function.__module__, function.__qualname__, main, sys.path,
            settings.url, settings.schema, settings.pooler, settings.secret, run.execution, rules, saved,
            log_lines.current_setup(),
        )  # fmt: skip

    def function(self) -> TaskFunction[..., Any, Any]:
        """The task's function, imported here as it was there."""
        sys.path[:] = self.path
        if self.main is not None:
            found: Any = runpy.run_path(self.main, run_name="__headgate_child__")[self.name.split(".")[0]]
            names = self.name.split(".")[1:]
        else:
            found, names = importlib.import_module(self.module), self.name.split(".")
        found = reduce(getattr, names, found)
        if not isinstance(found, TaskFunction):
            raise Invalid(f"{self.module}:{self.name} is not a task at the top level of a module")
        return found


class ParentSocket:
    """The socket to the parent, and the reporter a handler here talks to."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        self._lock = threading.Lock()  # a question and its answer
        self._progress = SteadyProgress(self._write_progress)
        self.asking = False  # in the main thread, where signals are handled
        self.interrupted = False  # meanwhile
        self._waited_for: list[int] = []  # the tasks that the handler waits for
        self.run: Run | None = None
        self.app: App | None = None

    def order(self) -> Order:
        return msgspec.json.decode(self._file.readline(), type=Order)

    def end(self, event: Event | None) -> None:
        if event is not None:
            self._write("last_progress", self._progress.close())
            self._write("usage", peak_usage())
            self._write(type(event).__name__, event)

    def progress(self, progress: str) -> ReportReply[None]:
        self._progress.put(progress)
        return DoneReply(None)

    def _write_progress(self, progress: str) -> None:
        self._report("progress", progress)

    def log(self, level: str, message: str) -> ReportReply[None]:
        return self._report("log", level, message)

    def checkpoint(self, name: str, state: str) -> ReportReply[None]:
        self._report("checkpoint", name, state)
        if self.run is not None and self.run.pausing:
            raise Paused
        return DoneReply(None)

    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]:
        reply = self._ask("submit", [call._new for call in calls])
        app = self.app
        assert app is not None
        return DoneReply(
            [
                Task(Submitted(*made), call._handler.result_type, lambda: app.store, app._in_thread)
                for made, call in zip(reply["made"], calls, strict=True)
            ]
        )

    def hold(self, resource: str, timeout_seconds: float | None, keeps: Sequence[str]) -> ReportReply[None]:
        return _HoldReply(self, resource, timeout_seconds, keeps)

    def release(self, resource: str) -> ReportReply[None]:
        self._ask("release", resource)
        return DoneReply(None)

    def is_held(self, resource: str, timeout_seconds: float | None, keeps: Sequence[str]) -> bool:
        """Whether the execution holds the requested resource yet."""
        reply = self._ask("hold", [resource, timeout_seconds, keeps])
        if reply.get("paused"):
            raise Paused
        if "late" in reply:
            raise TimeoutError(reply["late"])
        return bool(reply["held"])

    @contextlib.contextmanager
    def lend(self, task_id: int) -> Iterator[None]:
        """Have the worker run a task beside the others while this handler waits for it."""
        self._waited_for.append(task_id)
        self._ask("wait", self._waited_for)
        try:
            yield
        finally:
            self._waited_for.remove(task_id)
            self._ask("wait", self._waited_for)

    def waiters_of(self, task_id: int) -> set[int]:
        """The tasks that cannot continue until a task has ended."""
        return set(self._ask("waiters", task_id)["waiters"])

    def _report(self, kind: str, *values: str) -> ReportReply[None]:
        reply = self._ask(kind, list(values))
        if self.run is not None:
            self.run.pausing = reply["pausing"]
        return DoneReply(None)

    def _ask(self, kind: str, payload: Any) -> dict[str, Any]:
        with self._lock, self._not_interrupted():
            self._write(kind, payload)
            line = self._file.readline()
        if not line:  # the parent is gone, so this execution cannot be settled
            os._exit(1)
        reply: dict[str, Any] = msgspec.json.decode(line)
        if "error" in reply:
            error = ERRORS.get(reply["kind"], Invalid)(reply["error"])
            error.code, error.params = reply["code"], reply["params"]
            raise error
        return reply

    @contextlib.contextmanager
    def _not_interrupted(self) -> Iterator[None]:
        """Delay an interruption: an answer left unread would be read as the answer to the next question."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.asking = True
        try:
            yield
        finally:
            self.asking = False
        if self.interrupted:
            self.interrupted = False
            raise Interrupted

    def _write(self, kind: str, payload: Any) -> None:
        self._file.write(msgspec.json.encode((kind, payload)) + b"\n")
        self._file.flush()


class _HoldReply:
    """The answer to a request for a resource. The worker waits for it, and is asked again and again."""

    __slots__ = ("_parent", "_wanted")

    def __init__(
        self, parent: ParentSocket, resource: str, timeout_seconds: float | None, keeps: Sequence[str]
    ) -> None:
        self._parent = parent
        self._wanted = (resource, timeout_seconds, keeps)

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        with self._giving_up():
            for pause in HOLD_LOOKS.pauses():
                if self._parent.is_held(*self._wanted):
                    return
                await asyncio.sleep(pause)

    def result(self) -> None:
        with self._giving_up():
            for pause in HOLD_LOOKS.pauses():
                if self._parent.is_held(*self._wanted):
                    return
                time.sleep(pause)

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Leave the line if the handler waits no longer."""
        try:
            yield
        except BaseException:
            self._parent.release(self._wanted[0])
            raise


def main(connection: socket.socket, worker: int) -> None:
    die_with_worker(worker)
    be_killed_first()
    parent = ParentSocket(connection)
    order = parent.order()
    if order.log_setup is not None:
        log_lines.set_up(*order.log_setup)
    telemetry.enter_run(order.execution, None)
    run: Run | None = None
    try:
        function = order.function()
        parent.app = function._app
        parent.app._settings = replace(
            parent.app._settings, url=order.url, schema=order.schema, pooler=order.pooler, secret=order.secret
        )
        run = parent.run = Run(order.execution, function._handler)
        results: list[Any] = []
        _handle_signals(run, results, parent)
        run.context = Context(order.execution, parent, order.saved)
        current.set(run.context)
        slot_lender.set(parent)
        _call(run, results)
    except BaseException as error:
        unloaded = Raised(f"its handler cannot be loaded: {error}", None, EndReason.FATAL)
        parent.end(event_of_error(run, error, order.rules) if run else unloaded)
    else:
        parent.end(event_of_result(run, results[0], order.rules))


def be_killed_first() -> None:
    """When the system runs out of memory, let it kill this process and not the worker (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def die_with_worker(worker: int) -> None:
    """Die with the worker, however it ends: another executor runs the task then (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != worker:  # the worker died before the call above
        os._exit(1)


def _handle_signals(run: Run, results: list[Any], parent: ParentSocket) -> None:
    """SIGTERM ends the handler as an exception would, unless it has returned; why is the parent's business."""

    def terminated(*_: object) -> None:
        if not results:
            run.stopped = run.stopped or Stop.DRAIN
            if parent.asking:
                parent.interrupted = True
                return
            raise Interrupted

    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(run: Run, results: list[Any]) -> None:
    arguments, function = run.handler.arguments.decode(run.execution.ext), run.handler.function

    async def keep() -> None:
        results.append(await function(**arguments))

    if inspect.iscoroutinefunction(function):
        asyncio.run(keep())
    else:
        call_handler(results, function, arguments)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
