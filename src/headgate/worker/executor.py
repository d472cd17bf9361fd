"""One execution from start to event: on the event loop, in a thread, or in a process of its own."""

import asyncio
import importlib
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.client import SlotLender, slot_lender
from headgate.core.machine import Event, GivenBack, PauseReached, Returned, Snoozed
from headgate.environment import monotonic, random_number
from headgate.events import telemetry
from headgate.events.end_lines import log_failure
from headgate.registry import Handler, Isolation
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.task_function import TaskFunction
from headgate.threads import InThread
from headgate.worker.context import Context, Interrupted, Reporter, current
from headgate.worker.holds import HoldLine
from headgate.worker.loop_watch import LoopWatch
from headgate.worker.reports import ExecutionReports, LoopReporter, ThreadReporter
from headgate.worker.run import Run, Stop, do_nothing, event_of_error, event_of_result, event_of_timeout
from headgate.worker.stage import Stage
from headgate.worker.threads import Threads, call_handler
from headgate.worker.usage import thread_cpu_seconds, thread_usage

if TYPE_CHECKING:
    from headgate.worker.process_starter import ProcessStarter

Finish = Callable[[Event | None], None]
Body = Callable[[Run, Finish], None]
OnEnd = Callable[[Run, Event | None], None]
SHARE_BEFORE_DEADLINE, MOST_BEFORE_DEADLINE = 0.01, 0.1
LOOK_AGAIN_SECONDS = 1.0
MOST_QUARANTINED, QUARANTINE_SECONDS = 8, 5.0


class Executor:
    """Runs handlers where their isolation says. `call_soon` calls something on the event loop from any thread.

    `on_stuck` gets a run that was told to stop and has not ended for as long as the settings allow.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        in_thread: InThread,
        call_soon: Callable[..., None],
        watch: LoopWatch,
        stage: Stage,
        slot_lender: SlotLender,
        line: HoldLine,
        on_stuck: Callable[[Run], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._in_thread = in_thread
        self._call_soon = call_soon
        self._line = line
        self._threads = Threads()
        self._watch = watch
        self._stage = stage
        self._slot_lender = slot_lender
        self._on_stuck = on_stuck
        self._quarantined = 0
        self._starter: ProcessStarter | None = None
        self._bodies = {
            Isolation.LOOP: self._on_loop,
            Isolation.THREAD: self._on_thread,
            Isolation.PROCESS: self._in_process,
        }

    def start(self, run: Run, on_end: OnEnd) -> None:
        """Run the handler; `on_end` gets the event on the event loop, or None if the execution was lost."""
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(_seconds_allowed(run), self._end_overdue, run)]

        def begin_grace() -> None:
            run.on_stop = do_nothing
            timers.append(loop.call_later(self._settings.stuck_seconds, self._report_stuck, run, timers))

        def finish(event: Event | None) -> None:
            for timer in timers:
                timer.cancel()
            event = self._unless_late(run, event)
            run.ended = run.ended or monotonic()
            run.drop_references()
            log_failure(run.execution, event, run.ended - run.begun, run.span)
            telemetry.end_run_span(run.span, event)
            on_end(run, event)

        run.on_stop = begin_grace
        run.span = telemetry.start_run_span(run.execution)
        body = self._bodies[run.handler.isolation]
        # An execution that did not end by an error may have died with its process.
        unexplained = run.execution.attempt - 1 > run.execution.error_count
        if unexplained and body != self._in_process:
            run.task = loop.create_task(self._unless_suspect(run, body, finish))
        else:
            body(run, finish)

    async def close(self) -> None:
        self._threads.close()
        if self._starter is not None:
            await self._starter.close()

    def _end_overdue(self, run: Run) -> None:
        """Stop a run whose time is up. A run that others held up is drained and not charged with a timeout."""
        run.stop(Stop.DRAIN if self._is_held_up(run) else Stop.TIMEOUT)

    def _is_held_up(self, run: Run) -> bool:
        return run.handler.isolation is not Isolation.THREAD and self._watch.held_up(run)

    def _unless_late(self, run: Run, event: Event | None) -> Event | None:
        """The event; a result that came after the deadline is refused, like any late report."""
        in_time = run.ended is None or run.ended <= run.deadline
        if in_time or not isinstance(event, Returned | Snoozed | PauseReached):
            return event
        if self._is_held_up(run):
            return GivenBack()
        return event_of_timeout(run, self._store.types.recent(run.execution.type))

    def _report_stuck(self, run: Run, timers: list[asyncio.TimerHandle]) -> None:
        """Report a run whose grace period is over. A run that waits for the store is not stuck: look again later."""
        if run.finishing or (run.thread is not None and run.thread.in_store):
            again = asyncio.get_running_loop().call_later(LOOK_AGAIN_SECONDS, self._report_stuck, run, timers)
            timers.append(again)
        else:
            self._on_stuck(run)

    def _on_loop(self, run: Run, finish: Finish) -> None:
        run.task = asyncio.get_running_loop().create_task(self._coroutine(run, finish))

    async def _coroutine(self, run: Run, finish: Finish) -> None:
        rules = self._store.types.recent(run.execution.type)
        assert run.task is not None
        reporter: LoopReporter | None = None
        try:
            if run.stopped is not None:  # before it began: cancelling the asyncio task would report nothing
                raise asyncio.CancelledError
            run.interrupt = run.task.cancel
            saved = (
                await self._in_thread(self._store.executions.checkpoints, run.execution.id)
                if run.execution.attempt > 1
                else {}
            )
            reporter = LoopReporter(self._reports(run), self._in_thread)
            self._enter_context(run, reporter, saved)
            handling = run.handler.function(**run.handler.arguments.decode(run.execution.ext))
            result = await self._stage.steps(run.execution.id, handling)
            run.ended, run.finishing = monotonic(), True
            run.interrupt = do_nothing  # it is done, and a request to stop must not undo that
            await reporter.finish()
        except BaseException as error:
            event = event_of_error(run, error, rules)
            if reporter is not None and run.stopped is not Stop.LOST:
                run.ended, run.finishing, run.interrupt = monotonic(), True, do_nothing
                await reporter.close()
        else:
            event = event_of_result(run, result, rules)
        finish(event)

    def _on_thread(self, run: Run, finish: Finish) -> None:
        begun: float | None = None
        reporter: ThreadReporter | None = None
        on_stage, results = ExitStack(), list[Any]()
        on_loop = partial(asyncio.run_coroutine_threadsafe, loop=asyncio.get_running_loop())

        def body() -> None:
            nonlocal begun, reporter
            begun = thread_cpu_seconds()
            saved = self._store.executions.checkpoints(run.execution.id) if run.execution.attempt > 1 else {}
            reporter = ThreadReporter(self._reports(run), on_loop)
            self._enter_context(run, reporter, saved)
            arguments = run.handler.arguments.decode(run.execution.ext)
            on_stage.enter_context(self._stage.entered(run.execution.id))
            call_handler(results, run.handler.function, arguments)

        def on_done(error: BaseException | None) -> None:
            run.ended, run.finishing = monotonic(), True
            on_stage.close()
            if results and isinstance(error, Interrupted):  # the interruption came too late: the handler has returned
                error = None
            if reporter is not None:
                reporter.close()
            rules = self._store.types.recent(run.execution.type)
            event = event_of_result(run, results[0], rules) if error is None else event_of_error(run, error, rules)
            run.usage = None if begun is None else thread_usage(begun)  # this is that very thread
            self._call_soon(finish, event)

        run.thread = self._threads.start(body, on_done)
        run.interrupt = run.thread.interrupt

    def _in_process(self, run: Run, finish: Finish) -> None:
        run.task = asyncio.get_running_loop().create_task(self._child(run, finish))

    async def _unless_suspect(self, run: Run, body: Body, finish: Finish) -> None:
        """Run a task that may have killed its last process in a process of its own, so that it takes no others with it.

        Only a few at once. A task that was alone in its dead process waits for its turn. Of tasks that ran beside
        others, as many as there is room for run apart and the rest run as usual: a worker's hundred tasks must not
        queue up. A handler that another process could not import waits a moment, to run beside other tasks.
        """
        apart, guilty = _is_importable(run.handler), run.execution.lost_count > 0
        rules = self._store.types.recent(run.execution.type)
        try:
            suspect = guilty or await self._in_thread(self._store.executions.is_suspect, run.execution.id)
            if run.stopped is not None:
                raise asyncio.CancelledError
        except BaseException as error:
            finish(event_of_error(run, error, rules))
            return
        if suspect and apart and self._quarantined < MOST_QUARANTINED:
            self._quarantined += 1
            self._in_process(run, lambda event: self._release(event, finish))
        elif suspect and apart == guilty:
            finish(Snoozed(QUARANTINE_SECONDS * random_number()))
        else:
            body(run, finish)

    def _release(self, event: Event | None, finish: Finish) -> None:
        self._quarantined -= 1
        finish(event)

    def _reports(self, run: Run) -> ExecutionReports:
        return ExecutionReports(self._store, self._in_thread, run, self._line)

    def _enter_context(self, run: Run, reporter: Reporter, saved: dict[str, str]) -> None:
        """Make the context that the handler sees."""
        run.context = Context(run.execution, reporter, saved)
        current.set(run.context)
        slot_lender.set(self._slot_lender.of(run.execution.id))
        telemetry.enter_run(run.execution, run.span)

    async def _child(self, run: Run, finish: Finish) -> None:
        rules = self._store.types.recent(run.execution.type)
        telemetry.enter_run(run.execution, run.span)
        process = importlib.import_module("headgate.worker.process")  # loaded only where it is needed: 3 MB
        if self._starter is None:
            self._starter = process.ProcessStarter()
        try:
            lender, reports = self._slot_lender.of(run.execution.id), self._reports(run)
            event = await process.execute(run, rules, reports, self._store, self._settings, lender, self._starter)
            run.ended = monotonic()
        except BaseException as error:
            event = event_of_error(run, error, rules)
        finish(event)


def _is_importable(handler: Handler) -> bool:
    """Whether another process would find the handler by its name, too."""
    found: Any = sys.modules.get(handler.function.__module__)
    if getattr(found, "__file__", None) is None:
        return False
    for name in handler.function.__qualname__.split("."):
        found = getattr(found, name, None)
    return isinstance(found, TaskFunction)


def _seconds_allowed(run: Run) -> float:
    """Seconds until a handler is stopped: a little before its deadline, so that it has time to obey."""
    return run.seconds - min(run.seconds * SHARE_BEFORE_DEADLINE, MOST_BEFORE_DEADLINE)
