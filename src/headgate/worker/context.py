"""What a handler sees of the task it does: progress, log lines, checkpoints, sub-tasks, and whether to stop."""

import asyncio
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

import msgspec

from headgate.client import Call, Task
from headgate.core.errors import Invalid, Refused
from headgate.core.limits import check_resource
from headgate.core.task import MAX_PROGRESS_BYTES, Execution, check_json, clip
from headgate.registry import json_of

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LEVELS = get_args(LogLevel)
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class ReportReply(Protocol[T_co]):
    """What a report returns: in a thread or a process the report is already made; in a coroutine, await it."""

    def __await__(self) -> Generator[Any, None, T_co]: ...
    def result(self) -> T_co: ...


class DoneReply(Generic[R]):
    """An answer that is already there. Awaiting it still lets others run, as awaiting a report always does."""

    __slots__ = ("_value",)

    def __init__(self, value: R) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, R]:
        yield
        return self._value

    def result(self) -> R:
        return self._value


class Paused(BaseException):
    """Raised in a handler at a checkpoint when a pause was requested: it ends the handler and is not an error."""


class Interrupted(BaseException):
    """Raised in a handler's thread when it has to stop: cancelled, overdue, or the worker shuts down."""


class Reporter(Protocol):
    """Where a handler's reports go; each is written under the execution's exec_id. Of progress, the newest counts."""

    def progress(self, progress: str) -> ReportReply[None]: ...
    def log(self, level: str, message: str) -> ReportReply[None]: ...
    def checkpoint(self, name: str, state: str) -> ReportReply[None]: ...
    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]: ...
    def hold(self, resource: str, timeout_seconds: float | None, keeps: Sequence[str]) -> ReportReply[None]: ...
    def release(self, resource: str) -> ReportReply[None]: ...


class Context:
    """The running task. In a coroutine, await what its methods return; elsewhere they are done when they return."""

    __slots__ = ("_execution", "_held", "_reporter", "_saved", "cancelled")

    def __init__(self, execution: Execution, reporter: Reporter, saved: dict[str, str]) -> None:
        self._execution = execution
        self._reporter = reporter
        self._saved = saved
        self._held: dict[str, object] = {}  # by resource: the coroutine or thread that holds it, or waits to
        self.cancelled = False

    @property
    def task_id(self) -> int:
        return self._execution.id

    @property
    def exec_id(self) -> str:
        """Names this execution; every write made for it is fenced by it."""
        return self._execution.exec_id

    @property
    def attempt(self) -> int:
        """Grows with every execution of the task: a fence for systems outside."""
        return self._execution.attempt

    @property
    def correlation_id(self) -> str | None:
        return self._execution.correlation_id

    @property
    def tenant_id(self) -> int:
        return self._execution.tenant_id

    @property
    def creator(self) -> int:
        return self._execution.creator

    @property
    def priority(self) -> int:
        return self._execution.priority

    @property
    def error_count(self) -> int:
        """How often the task has failed before this execution."""
        return self._execution.error_count

    def progress(
        self, done: float | None = None, total: float | None = None, note: str | None = None, *, data: Any = None
    ) -> ReportReply[None]:
        """Report progress; `data` is any JSON to go with it, 16 KiB at most in total.

        Some of many reports in a row may be skipped, but never the last.
        """
        fields = {"done": done, "total": total, "note": note, "data": data}
        try:
            text = json_of({key: value for key, value in fields.items() if value is not None})
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(f"progress: {error}") from None
        check_json("progress", text, MAX_PROGRESS_BYTES)
        return self._reporter.progress(text)

    def log(self, message: str, level: LogLevel = "info") -> ReportReply[None]:
        """Add a log line to the task; one that is too long is cut."""
        if level not in LEVELS:
            raise Invalid(f"log: the level must be one of {', '.join(LEVELS)}, not {level!r}")
        return self._reporter.log(level, clip(message))

    def checkpoint(self, name: str, state: Any) -> ReportReply[None]:
        """Save a named state that the task's next execution can `restore`. Here, and only here, a pause takes hold."""
        try:
            text = json_of(state)
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(f"checkpoint {name!r}: {error}") from None
        check_json("checkpoint", text)
        self._saved[name] = text
        return self._reporter.checkpoint(name, text)

    def restore(self, name: str, default: Any = None) -> Any:
        """What was saved under this name, by this execution or one before it."""
        return msgspec.json.decode(self._saved[name]) if name in self._saved else default

    def submit(self, call: Call[R]) -> ReportReply[Task[R]]:
        """Submit a child: this task ends when its children have."""
        return _First(self._reporter.submit([self._adopt(call)]))

    def submit_many(self, calls: Sequence[Call[R]], *, children: bool = True) -> ReportReply[list[Task[R]]]:
        """Submit children, all or none.

        With `children=False` they are tasks by themselves, which this one does not wait for and does not lend its
        mutex; they too are made under the exec_id, and have its tenant and its correlation id.
        """
        return self._reporter.submit([self._adopt(call, children) for call in calls])

    def hold(self, resource: str, *, timeout_seconds: float | None = None) -> "Hold":
        """Hold one of a resource for a part of the run: `async with` in a coroutine, `with` elsewhere.

        Waits for its turn: `TimeoutError` after `timeout_seconds`; without that, `Deadlock` in a block within another
        one if its wait would close a circle of handlers. `Refused` if this execution holds it already in another block.
        A resource that the task's type uses is held already, and stays held to the end.
        """
        check_resource(resource)
        if timeout_seconds is not None and not timeout_seconds > 0:
            raise Invalid(f"hold: timeout_seconds must be a number of seconds above 0, not {timeout_seconds!r}")
        return Hold(resource, timeout_seconds, self._held, self._reporter)

    def _adopt(self, call: Call[R], child: bool = True) -> Call[R]:
        parent_id = self._execution.id if child else None
        return call._under(parent_id, self._execution.tenant_id, self._execution.correlation_id)


class Hold:
    """A resource that is held while a block runs."""

    __slots__ = ("_held", "_reporter", "_resource", "_timeout")

    def __init__(
        self, resource: str, timeout_seconds: float | None, held: dict[str, object], reporter: Reporter
    ) -> None:
        self._resource = resource
        self._timeout = timeout_seconds
        self._held = held  # by the execution, in this block and others
        self._reporter = reporter

    def __enter__(self) -> None:
        with self._entering() as keeps:
            self._reporter.hold(self._resource, self._timeout, keeps).result()

    def __exit__(self, *_: object) -> None:
        try:
            self._reporter.release(self._resource).result()
        finally:
            self._held.pop(self._resource, None)

    async def __aenter__(self) -> None:
        with self._entering() as keeps:
            await self._reporter.hold(self._resource, self._timeout, keeps)

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.shield(self._reporter.release(self._resource))
        finally:
            self._held.pop(self._resource, None)

    @contextmanager
    def _entering(self) -> Iterator[list[str]]:
        """Yields what is not released before the wait is over: what is held around it, unless it gives up by itself."""
        if self._resource in self._held:
            raise Refused.of("already-held", resource=self._resource)
        waiting = _current_line()
        around = [name for name, holder in self._held.items() if holder is waiting]
        self._held[self._resource] = waiting
        try:
            yield around if self._timeout is None else []
        except BaseException:
            self._held.pop(self._resource, None)
            raise


def _current_line() -> object:
    """What runs one block after the other, and so leaves no block while it waits in an inner one."""
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:  # no event loop in this thread
        return threading.current_thread()


class _First(Generic[R]):
    """The first value of a reply that has many."""

    __slots__ = ("_replies",)

    def __init__(self, replies: ReportReply[list[R]]) -> None:
        self._replies = replies

    def __await__(self) -> Generator[Any, None, R]:
        return (yield from self._replies.__await__())[0]

    def result(self) -> R:
        return self._replies.result()[0]


current: ContextVar[Context] = ContextVar("headgate_context")


def context() -> Context:
    """The context of the task that is running here; `LookupError` outside of one."""
    try:
        return current.get()
    except LookupError:
        raise LookupError("no task is running here: headgate.context() is for handlers") from None
