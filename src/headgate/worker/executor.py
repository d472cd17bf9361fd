"""One execution from start to event: on the event loop, in a thread, or in a process of its own."""

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from typing import Any

from headgate.app import TaskFunction
from headgate.core.machine import Event, LeaseLost, Raised, Snoozed
from headgate.events import telemetry
from headgate.outside import draw, monotonic
from headgate.registry import Handler, Isolation
from headgate.service import Aside
from headgate.store.base import Store
from headgate.worker.context import Context, Reporter, current
from headgate.worker.reports import LoopReporter, Reports, ThreadReporter
from headgate.worker.run import Run, Stop, answered, nothing, raised
from headgate.worker.threads import Threads
from headgate.worker.usage import of_thread, thread_seconds

log = logging.getLogger("headgate.worker")
Ended = Callable[[Run, Event | None], None]
SHARE_BEFORE_DEADLINE, MOST_BEFORE_DEADLINE = 0.01, 0.1
SUSPICIOUS = 2  # leases lost: one more, and it is taken for poison
MOST_APART, APART_SECONDS = 4, 5.0


class Executor:
    """Runs handlers where their isolation says. `later` calls something on the event loop from any thread."""

    def __init__(self, store: Store, url: str, aside: Aside, later: Callable[..., None], threads: int) -> None:
        self._store = store
        self._url = url
        self._aside = aside
        self._later = later
        self._threads = Threads(threads)
        self._now_apart = 0
        self._bodies = {
            Isolation.LOOP: self._on_loop,
            Isolation.THREAD: self._in_thread,
            Isolation.PROCESS: self._in_process,
        }

    def start(self, run: Run, ended: Ended) -> None:
        """Run the handler; `ended` is told on the event loop what happened, or None if that is nobody's business."""
        timer = asyncio.get_running_loop().call_later(_allowed(run), run.stop, Stop.TIMEOUT)

        def finish(event: Event | None) -> None:
            timer.cancel()
            run.let_go()
            _tell(run, event)
            telemetry.run_ended(run.span, event)
            ended(run, event)

        run.span = telemetry.run_begins(run.execution)
        body = self._bodies[run.handler.isolation]
        if run.execution.lost_count >= SUSPICIOUS and body != self._in_process and _can_move(run.handler):
            body = self._apart
        body(run, finish)

    def close(self) -> None:
        self._threads.close()

    def _on_loop(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        run.task = asyncio.get_running_loop().create_task(self._coroutine(run, finish))

    async def _coroutine(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        rules = self._store.type_of(run.execution.type)
        assert run.task is not None
        try:
            if run.stopped is not None:  # before it began: a task cancelled by then would tell nobody
                raise asyncio.CancelledError
            run.interrupt = run.task.cancel
            saved = await self._aside(self._store.checkpoints, run.execution.id) if run.execution.attempt > 1 else {}
            context = _enter(run, LoopReporter(Reports(self._store, self._aside, run), self._aside), saved)
            answer = await run.handler.function(**run.handler.arguments.decode(run.execution.ext))
            run.interrupt = nothing  # it is done: that is not to be undone by a request to stop
            await context.last_words()
        except BaseException as error:
            event = raised(run, error, rules)
        else:
            event = answered(run, answer, rules)
        finish(event)

    def _in_thread(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        begun: float | None = None

        def body() -> Any:
            nonlocal begun
            begun = thread_seconds()
            saved = self._store.checkpoints(run.execution.id) if run.execution.attempt > 1 else {}
            context = _enter(run, ThreadReporter(Reports(self._store, self._aside, run)), saved)
            answer = run.handler.function(**run.handler.arguments.decode(run.execution.ext))
            context.last_words()
            return answer

        def then(answer: Any, error: BaseException | None) -> None:
            rules = self._store.type_of(run.execution.type)
            event = answered(run, answer, rules) if error is None else raised(run, error, rules)
            run.usage = None if begun is None else of_thread(begun)  # this is that very thread
            self._later(finish, event)

        run.interrupt = self._threads.start(body, then).interrupt

    def _in_process(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        run.task = asyncio.get_running_loop().create_task(self._child(run, finish))

    def _apart(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        """Run what was lost twice in a process, lest it takes its worker and the others with it a third time.

        Few at once, and no more are kept waiting here: whatever waits in a worker is lost with it.
        """
        if self._now_apart >= MOST_APART:
            finish(Snoozed(APART_SECONDS * draw()))
            return
        self._now_apart += 1

        def finish_apart(event: Event | None) -> None:
            self._now_apart -= 1
            finish(event)

        self._in_process(run, finish_apart)

    async def _child(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        rules = self._store.type_of(run.execution.type)
        telemetry.enter(run.execution, run.span)
        process = importlib.import_module("headgate.worker.process")  # only who needs it pays for it: 3 MB
        try:
            event = await process.execute(run, rules, self._store, self._url, self._aside)
        except BaseException as error:
            event = raised(run, error, rules)
        finish(event)


def _enter(run: Run, reporter: Reporter, saved: dict[str, str]) -> Context:
    """Make the context that the handler sees."""
    run.context = Context(run.execution, reporter, saved, monotonic)
    current.set(run.context)
    telemetry.enter(run.execution, run.span)
    return run.context


def _tell(run: Run, event: Event | None) -> None:
    """One line for each execution that did not go well; the rest is with the task."""
    task = f"task {run.execution.id} ({run.execution.type})"
    match event:
        case Raised(error, None):
            log.warning("%s failed: %s", task, error.partition("\n")[0])
        case Raised(error, delay):
            log.warning("%s failed and runs again in %g s: %s", task, delay, error.partition("\n")[0])
        case LeaseLost(reason):
            log.warning("%s: %s", task, reason)


def _can_move(handler: Handler) -> bool:
    """Whether another process would find the handler by its name, too."""
    found: Any = sys.modules.get(handler.function.__module__)
    if getattr(found, "__file__", None) is None:
        return False
    for name in handler.function.__qualname__.split("."):
        found = getattr(found, name, None)
    return isinstance(found, TaskFunction)


def _allowed(run: Run) -> float:
    """Seconds until a handler is stopped: a little before the store would end the task from outside."""
    timeout = run.execution.timeout_seconds
    return timeout - min(timeout * SHARE_BEFORE_DEADLINE, MOST_BEFORE_DEADLINE)
