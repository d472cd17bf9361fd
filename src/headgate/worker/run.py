"""One execution under way: what runs, why it must stop, and what came of it."""

import asyncio
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from headgate.core.end_reasons import EndReason
from headgate.core.errors import HeadgateError, Invalid, Unavailable
from headgate.core.machine import CancelReached, Event, GivenBack, PauseReached, Raised, Returned, Snoozed
from headgate.core.retry import MAX_DELAY_SECONDS, Retry, verdict
from headgate.core.task import Execution, TaskType, check_json, clip_error
from headgate.core.usage import Usage
from headgate.environment import monotonic, random_number, utc_now
from headgate.registry import Handler, json_of
from headgate.store.claim.contract import Control
from headgate.worker.context import Context, Paused
from headgate.worker.threads import Job

_DONE = Returned()


class Stop(Enum):
    """Why an execution has to end before its handler does."""

    CANCEL = auto()  # somebody asked for it
    TIMEOUT = auto()
    DRAIN = auto()  # shutdown, a lease that may be lost, or a run held up by another: another executor takes over
    LOST = auto()  # another execution owns the task


@dataclass(frozen=True, slots=True)
class Snooze:
    """Returned by a handler: run the task again in `delay` seconds; nothing failed."""

    delay: float


def do_nothing() -> None: ...


class Run:
    """An execution, its handler and its context; `interrupt` ends the handler, however it runs.

    `begun`, `deadline` and `ended` are times of the monotonic clock, `too_late` says what was missed with the deadline.
    """

    __slots__ = (
        "begun", "context", "deadline", "ended", "execution", "finishing", "handler", "interrupt", "on_pause",
        "on_stop", "pausing", "progress", "seconds", "span", "stopped", "stuck", "task", "thread", "too_late", "usage",
    )  # fmt: skip

    def __init__(self, execution: Execution, handler: Handler, mutex_seconds: float = math.inf) -> None:
        self.execution = execution
        self.handler = handler
        self.seconds = execution.timeout_seconds
        self.too_late = f"it ran for more than {self.seconds:g} s"
        if execution.mutex is not None and mutex_seconds < self.seconds:
            self.seconds, self.too_late = mutex_seconds, f"it held its mutex for more than {mutex_seconds:g} s"
        self.begun = monotonic()
        self.deadline = self.begun + self.seconds
        self.ended: float | None = None  # None: the handler has not
        self.finishing = False  # the handler is done; what it began is being finished
        self.stuck = False  # told to stop, and still running after the grace period
        self.on_stop: Callable[[], object] = do_nothing
        self.on_pause: Callable[[], object] = do_nothing  # wakes a handler that waits
        self.thread: Job | None = None
        self.context: Context | None = None
        self.stopped: Stop | None = None
        self.pausing = False  # obeyed at the next checkpoint
        self.task: asyncio.Task[None] | None = None  # asyncio itself keeps only a weak reference
        self.interrupt: Callable[[], object] = do_nothing
        self.span: Any = None  # where executions are traced
        self.progress: str | None = None  # its last, if that is not written when it ends
        self.usage: Usage | None = None  # of its machine, where it can be measured for this run alone

    def stop(self, reason: Stop) -> None:
        """End the handler. The first reason counts, except that `LOST` overrules every other."""
        if self.stopped is None or reason is Stop.LOST:
            self.stopped = reason
            if self.context is not None:
                self.context.cancelled = True
            self.interrupt()
        self.on_stop()

    def drop_references(self) -> None:
        """Drop references that lead back here: a cycle per execution is work for the garbage collector."""
        self.context, self.task, self.thread = None, None, None
        self.interrupt = self.on_stop = self.on_pause = do_nothing

    def obey(self, control: Control) -> None:
        """Do what the answer to a report or a beat asks for."""
        if control.cancel:
            self.stop(Stop.CANCEL)
        self.pausing = control.pause
        if self.pausing:
            self.on_pause()


def event_of_result(run: Run, result: Any, rules: TaskType) -> Event | None:
    """The event for a handler that returned `result`; None if another execution owns the task."""
    if run.stopped is Stop.LOST:
        return None
    match result:
        case None:
            return _DONE
        case Snooze(int() | float() as delay) if delay == delay:  # not a NaN
            return Snoozed(min(max(delay, 0.0), MAX_DELAY_SECONDS))
        case Snooze(delay):
            return _failed(run, Invalid(f"cannot snooze for {delay!r} seconds"), rules)
        case Retry():
            return _failed(run, result, rules)
        case _:
            return _returned(run, result, rules)


def _returned(run: Run, result: Any, rules: TaskType) -> Event:
    try:
        text = json_of(result)
        check_json("result", text)
    except (Invalid, TypeError, ValueError, RecursionError) as error:
        return _failed(run, Invalid(f"the handler's result cannot be stored: {error}"), rules)
    return Returned(text)


def event_of_error(run: Run, error: BaseException, rules: TaskType) -> Event | None:
    """The event for a handler that ended with `error`; None if another execution owns the task."""
    match run.stopped:
        case Stop.LOST:
            return None
        case Stop.CANCEL:
            return CancelReached()
        case Stop.DRAIN:
            return GivenBack()
        case Stop.TIMEOUT:
            return event_of_timeout(run, rules)
    if isinstance(error, Paused):
        return PauseReached()
    if isinstance(error, Unavailable) and run.context is None:  # the store was away before the handler began
        return GivenBack()
    return _failed(run, error, rules)


def event_of_timeout(run: Run, rules: TaskType) -> Event:
    """The event for a handler that exceeded its timeout."""
    return _failed(run, TimeoutError(run.too_late), rules, EndReason.OVERDUE)


def _failed(run: Run, error: BaseException, rules: TaskType, cause: EndReason | None = None) -> Event:
    try:
        return raised(run, error_text(error), error, rules, cause)
    except Exception as broken:  # an error that cannot even be looked at
        text = f"{type(error).__name__}, which raises {type(broken).__name__} when it is looked at"
        return Raised(text, None, EndReason.FATAL)


def raised(run: Run, text: str, error: BaseException, rules: TaskType, cause: EndReason | None = None) -> Raised:
    """What an error means for the task, as its type says; `text` is what is kept of it."""
    execution = run.execution
    judged = verdict(rules, error, execution.error_count, random_number(), utc_now(), execution.max_error_count, cause)
    return Raised(text, *judged)


def error_text(error: BaseException) -> str:
    """An error for people: what it is on the first line, where it came from below."""
    head = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, HeadgateError | TimeoutError) and error.__traceback__ is None:
        return head
    return clip_error(head + "\n\n" + "".join(traceback.format_exception(error)))
