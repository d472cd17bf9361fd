"""One execution from start to event: on the event loop, in a thread, or in a process of its own."""

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from typing import Any

from headgate.core.machine import Event, LeaseLost, Raised, Snoozed
from headgate.environment import monotonic, random_number
from headgate.events import telemetry
from headgate.registry import Handler, Isolation
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.task_function import TaskFunction
from headgate.threads import InThread
from headgate.worker.context import Context, Reporter, current
from headgate.worker.reports import ExecutionReports, LoopReporter, ThreadReporter
from headgate.worker.run import Run, Stop, do_nothing, event_of_error, event_of_result
from headgate.worker.threads import Threads
from headgate.worker.usage import thread_cpu_seconds, thread_usage

log = logging.getLogger("headgate.worker")
OnEnd = Callable[[Run, Event | None], None]
SHARE_BEFORE_DEADLINE, MOST_BEFORE_DEADLINE = 0.01, 0.1
SUSPICIOUS_LOSSES = 2  # leases lost: one more, and it is taken for poison
MOST_QUARANTINED, QUARANTINE_SECONDS = 4, 5.0


class Executor:
    """Runs handlers where their isolation says. `call_soon` calls something on the event loop from any thread."""

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, call_soon: Callable[..., None], threads: int
    ) -> None:
        self._store = store
        self._settings = settings
        self._in_thread = in_thread
        self._call_soon = call_soon
        self._threads = Threads(threads)
        self._quarantined = 0
        self._bodies = {
            Isolation.LOOP: self._on_loop,
            Isolation.THREAD: self._on_thread,
            Isolation.PROCESS: self._in_process,
        }

    def start(self, run: Run, on_end: OnEnd) -> None:
        """Run the handler; `on_end` gets the event on the event loop, or None if the execution was lost."""
        timer = asyncio.get_running_loop().call_later(_seconds_allowed(run), run.stop, Stop.TIMEOUT)

        def finish(event: Event | None) -> None:
            timer.cancel()
            run.drop_references()
            _log_failure(run, event)
            telemetry.end_run_span(run.span, event)
            on_end(run, event)

        run.span = telemetry.start_run_span(run.execution)
        body = self._bodies[run.handler.isolation]
        if run.execution.lost_count >= SUSPICIOUS_LOSSES and body != self._in_process and _is_importable(run.handler):
            body = self._in_quarantine
        body(run, finish)

    def close(self) -> None:
        self._threads.close()

    def _on_loop(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        run.task = asyncio.get_running_loop().create_task(self._coroutine(run, finish))

    async def _coroutine(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        rules = self._store.types.recent(run.execution.type)
        assert run.task is not None
        try:
            if run.stopped is not None:  # before it began: a task cancelled by then would tell nobody
                raise asyncio.CancelledError
            run.interrupt = run.task.cancel
            saved = (
                await self._in_thread(self._store.executions.checkpoints, run.execution.id)
                if run.execution.attempt > 1
                else {}
            )
            context = _enter_context(
                run, LoopReporter(ExecutionReports(self._store, self._in_thread, run), self._in_thread), saved
            )
            result = await run.handler.function(**run.handler.arguments.decode(run.execution.ext))
            run.interrupt = do_nothing  # it is done: that is not to be undone by a request to stop
            await context.flush_progress()
        except BaseException as error:
            event = event_of_error(run, error, rules)
        else:
            event = event_of_result(run, result, rules)
        finish(event)

    def _on_thread(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        begun: float | None = None

        def body() -> Any:
            nonlocal begun
            begun = thread_cpu_seconds()
            saved = self._store.executions.checkpoints(run.execution.id) if run.execution.attempt > 1 else {}
            context = _enter_context(run, ThreadReporter(ExecutionReports(self._store, self._in_thread, run)), saved)
            result = run.handler.function(**run.handler.arguments.decode(run.execution.ext))
            context.flush_progress()
            return result

        def on_done(result: Any, error: BaseException | None) -> None:
            rules = self._store.types.recent(run.execution.type)
            event = event_of_result(run, result, rules) if error is None else event_of_error(run, error, rules)
            run.usage = None if begun is None else thread_usage(begun)  # this is that very thread
            self._call_soon(finish, event)

        run.interrupt = self._threads.start(body, on_done).interrupt

    def _in_process(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        run.task = asyncio.get_running_loop().create_task(self._child(run, finish))

    def _in_quarantine(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        """Run what was lost twice in a process, lest it takes its worker and the others with it a third time.

        Few at once, and no more are kept waiting here: whatever waits in a worker is lost with it.
        """
        if self._quarantined >= MOST_QUARANTINED:
            finish(Snoozed(QUARANTINE_SECONDS * random_number()))
            return
        self._quarantined += 1

        def release(event: Event | None) -> None:
            self._quarantined -= 1
            finish(event)

        self._in_process(run, release)

    async def _child(self, run: Run, finish: Callable[[Event | None], None]) -> None:
        rules = self._store.types.recent(run.execution.type)
        telemetry.enter_run(run.execution, run.span)
        process = importlib.import_module("headgate.worker.process")  # only who needs it pays for it: 3 MB
        try:
            event = await process.execute(run, rules, self._store, self._settings, self._in_thread)
        except BaseException as error:
            event = event_of_error(run, error, rules)
        finish(event)


def _enter_context(run: Run, reporter: Reporter, saved: dict[str, str]) -> Context:
    """Make the context that the handler sees."""
    run.context = Context(run.execution, reporter, saved, monotonic)
    current.set(run.context)
    telemetry.enter_run(run.execution, run.span)
    return run.context


def _log_failure(run: Run, event: Event | None) -> None:
    """One line for each execution that did not go well; the rest is with the task."""
    task = f"task {run.execution.id} ({run.execution.type})"
    match event:
        case Raised(error, None):
            log.warning("%s failed: %s", task, error.partition("\n")[0])
        case Raised(error, delay):
            log.warning("%s failed and runs again in %g s: %s", task, delay, error.partition("\n")[0])
        case LeaseLost(reason):
            log.warning("%s: %s", task, reason)


def _is_importable(handler: Handler) -> bool:
    """Whether another process would find the handler by its name, too."""
    found: Any = sys.modules.get(handler.function.__module__)
    if getattr(found, "__file__", None) is None:
        return False
    for name in handler.function.__qualname__.split("."):
        found = getattr(found, name, None)
    return isinstance(found, TaskFunction)


def _seconds_allowed(run: Run) -> float:
    """Seconds until a handler is stopped: a little before the store would end the task from outside."""
    timeout = run.execution.timeout_seconds
    return timeout - min(timeout * SHARE_BEFORE_DEADLINE, MOST_BEFORE_DEADLINE)
