"""The inside of a task's own process: import the handler, run it, say over a socket what happened.

One JSON line each way: the parent's first line is the order; ours are [what, …]. A report is answered, so that a
request to pause comes back with it; the last line is the event that ended the execution.
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
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import msgspec

from headgate.app import Headgate, TaskFunction
from headgate.client import Call, Task
from headgate.core.errors import HeadgateError, Invalid, NotFound, StaleExecution, Unavailable
from headgate.core.machine import CancelReached, Event, GivenBack, PauseReached, Raised, Returned, Snoozed
from headgate.core.task import Execution, TaskType
from headgate.events import lines, telemetry
from headgate.store.tasks import Submitted
from headgate.worker.context import Answer, Context, Done, Interrupted, Paused, current
from headgate.worker.run import Run, Stop, answered, raised
from headgate.worker.usage import at_most

EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Returned, Raised, Snoozed, PauseReached, CancelReached, GivenBack)
}

ERRORS: dict[str, type[HeadgateError]] = {error.code: error for error in (StaleExecution, NotFound, Unavailable)}
_SET_DEATH_SIGNAL = 1


class Order(msgspec.Struct):
    """All that a child needs to know."""

    module: str
    name: str
    main: str | None  # the file to run in place of `__main__`
    path: list[str]
    url: str  # of the store the worker works on
    execution: Execution
    rules: TaskType
    saved: dict[str, str]
    lines: tuple[bool, str] | None  # how the worker writes its log, if it was set up by us

    @classmethod
    def of(cls, run: Run, rules: TaskType, saved: dict[str, str], url: str) -> "Order":
        function = run.handler.function
        main = getattr(sys.modules["__main__"], "__file__", None) if function.__module__ == "__main__" else None
        return cls(
            function.__module__, function.__qualname__, main, sys.path, url, run.execution, rules, saved,
            lines.set_up_here(),
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
            raise Invalid(f"{self.module}:{self.name} is no task at the top of a module")
        return found


class Line:
    """The socket to the parent, and the reporter a handler here talks to."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        self.run: Run | None = None
        self.app: Headgate | None = None

    def order(self) -> Order:
        return msgspec.json.decode(self._file.readline(), type=Order)

    def end(self, event: Event | None) -> None:
        if event is not None:
            self._say("usage", at_most())
            self._say(type(event).__name__, event)

    def progress(self, progress: str) -> Answer[None]:
        return self._report("progress", progress)

    def log(self, level: str, message: str) -> Answer[None]:
        return self._report("log", level, message)

    def checkpoint(self, name: str, state: str) -> Answer[None]:
        self._report("checkpoint", name, state)
        if self.run is not None and self.run.pausing:
            raise Paused
        return Done(None)

    def submit(self, calls: Sequence[Call[Any]]) -> Answer[list[Task[Any]]]:
        said = self._ask("submit", [call.new for call in calls])
        assert self.app is not None
        return Done(
            [
                Task(Submitted(*made), call.handler.arguments.result, self.app.store, self.app.aside)
                for made, call in zip(said["made"], calls, strict=True)
            ]
        )

    def _report(self, kind: str, *said: str) -> Answer[None]:
        answer = self._ask(kind, list(said))
        if self.run is not None:
            self.run.pausing = answer["pausing"]
        return Done(None)

    def _ask(self, kind: str, said: Any) -> dict[str, Any]:
        self._say(kind, said)
        line = self._file.readline()
        if not line:  # the parent is gone, and with it whoever would settle this
            os._exit(1)
        answer: dict[str, Any] = msgspec.json.decode(line)
        if "error" in answer:
            raise ERRORS.get(answer["code"], Invalid)(answer["error"])
        return answer

    def _say(self, kind: str, said: Any) -> None:
        self._file.write(msgspec.json.encode((kind, said)) + b"\n")
        self._file.flush()


def main(descriptor: int, worker: int) -> None:
    _die_with(worker)
    line = Line(socket.socket(fileno=descriptor))
    order = line.order()
    if order.lines is not None:
        lines.set_up(*order.lines)
    telemetry.enter(order.execution, None)
    run: Run | None = None
    try:
        function = order.function()
        line.app = function.app
        line.app.settings = replace(line.app.settings, url=order.url)
        run = line.run = Run(order.execution, function.handler)
        _obey_signals(run)
        run.context = Context(order.execution, line, order.saved, time.monotonic)
        current.set(run.context)
        answer = _call(run)
        run.context.last_words()
    except BaseException as error:
        line.end(raised(run, error, order.rules) if run else Raised(f"its handler cannot be loaded: {error}"))
    else:
        line.end(answered(run, answer, order.rules))


def _die_with(worker: int) -> None:
    """Be killed when the worker is, however it ends: somebody else does the task then (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != worker:  # it was quicker
        os._exit(1)


def _obey_signals(run: Run) -> None:
    """SIGTERM ends the handler as an exception would; why is the parent's business."""

    def terminated(*_: object) -> None:
        run.stopped = run.stopped or Stop.DRAIN
        raise Interrupted

    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(run: Run) -> Any:
    arguments = run.handler.arguments.decode(run.execution.ext)
    function = run.handler.function
    return asyncio.run(function(**arguments)) if inspect.iscoroutinefunction(function) else function(**arguments)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
