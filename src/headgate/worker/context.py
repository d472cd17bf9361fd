"""What a handler sees of the task it does: progress, log lines, checkpoints, sub-tasks, and whether to stop."""

from collections.abc import Generator, Sequence
from contextvars import ContextVar
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

import msgspec

from headgate.client import Call, Task
from headgate.core.errors import Invalid
from headgate.core.task import MAX_PROGRESS_BYTES, Execution, check_json, clip
from headgate.registry import json_of

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LEVELS = get_args(LogLevel)
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class ReportReply(Protocol[T_co]):
    """What a report gives back: done when it returns in a thread or a process, awaited in a coroutine."""

    def __await__(self) -> Generator[Any, None, T_co]: ...
    def result(self) -> T_co: ...


class DoneReply(Generic[R]):
    """An answer that is there already. Awaiting it lets others run all the same, as awaiting a report always does."""

    __slots__ = ("_value",)

    def __init__(self, value: R) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, R]:
        yield
        return self._value

    def result(self) -> R:
        return self._value


class Paused(BaseException):
    """Raised in a handler at a checkpoint, when somebody asked for a pause: the way out, not an error."""


class Interrupted(BaseException):
    """Raised in a handler's thread when it has to stop: cancelled, overdue, or the worker shuts down."""


class Reporter(Protocol):
    """Where a handler's reports go; each is written under the execution's exec_id. Of progress, the newest counts."""

    def progress(self, progress: str) -> ReportReply[None]: ...
    def log(self, level: str, message: str) -> ReportReply[None]: ...
    def checkpoint(self, name: str, state: str) -> ReportReply[None]: ...
    def submit(self, calls: Sequence[Call[Any]]) -> ReportReply[list[Task[Any]]]: ...


class Context:
    """The task at hand. In a coroutine await what its methods give back; elsewhere they are done when they return."""

    __slots__ = ("_execution", "_reporter", "_saved", "cancelled")

    def __init__(self, execution: Execution, reporter: Reporter, saved: dict[str, str]) -> None:
        self._execution = execution
        self._reporter = reporter
        self._saved = saved
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

    def progress(
        self, done: float | None = None, total: float | None = None, note: str | None = None, *, data: Any = None
    ) -> ReportReply[None]:
        """Report how far it is; `data` is any JSON beside it, 16 KiB at most with the rest.

        Of many reports in a row some are skipped, never the last.
        """
        fields = {"done": done, "total": total, "note": note, "data": data}
        try:
            text = json_of({key: value for key, value in fields.items() if value is not None})
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(f"progress: {error}") from None
        check_json("progress", text, MAX_PROGRESS_BYTES)
        return self._reporter.progress(text)

    def log(self, message: str, level: LogLevel = "info") -> ReportReply[None]:
        """Keep a line with the task; one that is too long is cut."""
        if level not in LEVELS:
            raise Invalid(f"log: the level is one of {', '.join(LEVELS)}, not {level!r}")
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

    def submit_many(self, calls: Sequence[Call[R]]) -> ReportReply[list[Task[R]]]:
        """Submit children, all or none."""
        return self._reporter.submit([self._adopt(call) for call in calls])

    def _adopt(self, call: Call[R]) -> Call[R]:
        return call._under(self._execution.id, self._execution.tenant_id, self._execution.correlation_id)


class _First(Generic[R]):
    """A reply of many values, of which only the first is given."""

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
