"""What a program submits: a call of a handler becomes a task, and the program can wait for its end."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from headgate.core.errors import Deadlock, HeadgateError, Invalid
from headgate.core.gates import held_by_all_of
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask
from headgate.core.task import Task as Record
from headgate.core.unique import unique_key_of
from headgate.environment import monotonic
from headgate.pauses import Backoff
from headgate.registry import Handler
from headgate.store.store import Store
from headgate.store.tasks.submit import Submitted
from headgate.threads import InThread

R_co = TypeVar("R_co", covariant=True)
LOOKS = Backoff(0.005, 0.25, factor=1.5)  # short at first, then less and less impatient
FIRST_CHECK_SECONDS, CHECK_SECONDS = 0.05, 5.0  # whether what a handler waits for can start


class RunLender(Protocol):
    """What a running handler has of its worker's slots."""

    def lend(self, task_id: int) -> AbstractContextManager[None]:
        """Have the worker run a task beside the others while the block runs."""

    def waiters_of(self, task_id: int) -> set[int]:
        """The running tasks that cannot continue until a task has ended."""


@dataclass(frozen=True, slots=True)
class SlotLender:
    """A worker's slots, as the handler of `run_id` may lend them."""

    _lend: Callable[[int, int], AbstractContextManager[None]]
    waiters_of: Callable[[int], set[int]]
    run_id: int = 0

    def of(self, run_id: int) -> "SlotLender":
        return replace(self, run_id=run_id)

    def lend(self, task_id: int) -> AbstractContextManager[None]:
        return self._lend(self.run_id, task_id)


slot_lender: ContextVar[RunLender | None] = ContextVar("headgate_slot_lender", default=None)  # set in handlers


class TaskFailed(HeadgateError):
    """A task that was waited for did not succeed; `ended` says how it ended."""

    status = 409
    code = "task-failed"

    def __init__(self, ended: "Ended[Any]") -> None:
        why = (ended.error or "").partition("\n")[0]
        super().__init__(f"task {ended.id} is {ended.status}" + (f": {why}" if why else ""))
        self.ended = ended


@dataclass(frozen=True, slots=True)
class Ended(Generic[R_co]):
    """How a task ended: one of the final states, or `dead`."""

    id: int
    status: State
    error: str | None
    _result: str | None
    _result_type: Any

    @property
    def succeeded(self) -> bool:
        return self.status in (State.SUCCEEDED, State.NOTIFYING)

    @property
    def result(self) -> R_co:
        """What the handler returned; `TaskFailed` if it did not return."""
        if not self.succeeded and self.status is not State.PARTIAL:
            raise TaskFailed(self)
        try:
            return msgspec.json.decode(self._result or "null", type=self._result_type)  # type: ignore[no-any-return]
        except msgspec.MsgspecError as error:
            raise Invalid(
                f"task {self.id} returned a value that does not match its handler's annotation: {error}"
            ) from None


class Call(Generic[R_co]):
    """A call of a handler, ready to be submitted."""

    __slots__ = ("_handler", "_new")

    def __init__(self, new: NewTask, handler: Handler) -> None:
        self._new = new
        self._handler = handler

    def _under(self, parent_id: int | None, tenant_id: int, correlation_id: str | None) -> "Call[R_co]":
        """The same call as a task of another one's tenant, and its child if that is the parent."""
        if self._new.parent_id not in (None, parent_id) or self._new.tenant_id not in (0, tenant_id):
            raise Invalid(
                "a child has the parent and tenant of the task that submits it: leave out parent_id and tenant_id"
            )
        correlation_id = self._new.correlation_id or correlation_id
        new = self._new._replace(parent_id=parent_id, tenant_id=tenant_id, correlation_id=correlation_id)
        return Call(new, self._handler)


def call_of(
    handler: Handler, options: NewTask, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, by_arguments: bool = False
) -> Call[Any]:
    """A call with these options and arguments; `Invalid` if they are not what the handler takes.

    `by_arguments` makes its unique key of them, unless the options have one.
    """
    ext = handler.arguments.encode(handler.arguments.bind(args, kwargs))
    new = NewTask(options.type, ext, *options[2:])
    if by_arguments and options.unique_key is None:
        new = new._replace(unique_key=unique_key_of(ext))
    return Call(new, handler)


class Task(Generic[R_co]):
    """A task by its id. `created` is True if the call that gave this handle made the task: False where an open one
    had its unique key, and of a task that was looked up by its id."""

    __slots__ = ("_in_thread", "_open_store", "_result_type", "created", "id")

    def __init__(
        self,
        made: Submitted,
        result_type: Callable[[Record], Any],
        open_store: Callable[[], Store],
        in_thread: InThread,
    ) -> None:
        self.id = made.id
        self.created = made.created
        self._result_type = result_type
        self._open_store = open_store
        self._in_thread = in_thread

    def __repr__(self) -> str:
        return f"Task({self.id})"

    async def record(self) -> Record:
        """The task as it stands in the store; `NotFound` if it is not there."""
        return await self._in_thread(self.record_sync)

    def record_sync(self) -> Record:
        """`record`, for callers that are not async."""
        return self._open_store().tasks.get(self.id)

    async def wait(self, timeout: float | None = None) -> Ended[R_co]:  # noqa: ASYNC109 the look-ups pace themselves
        """Until it has ended; `TimeoutError` after `timeout` seconds, which changes nothing for the task."""
        with self._lend_slot() as look:
            for pause in LOOKS.pauses(timeout):
                if (ended := await self._in_thread(look)) is not None:
                    return ended
                await asyncio.sleep(pause)
        raise await self._in_thread(self._timeout_error, timeout)

    def wait_sync(self, timeout: float | None = None) -> Ended[R_co]:
        """`wait`, for callers that are not async."""
        with self._lend_slot() as look:
            for pause in LOOKS.pauses(timeout):
                if (ended := look()) is not None:
                    return ended
                time.sleep(pause)
        raise self._timeout_error(timeout)

    async def snooze(self, seconds: float) -> None:
        """Delay its start by at least `seconds` from now; `Refused` if it has started."""
        await self._in_thread(self.snooze_sync, seconds)

    def snooze_sync(self, seconds: float) -> None:
        """`snooze`, for callers that are not async."""
        self._open_store().tasks.reschedule(self.id, delay_seconds=seconds)

    async def cancel(self, reason: str = "") -> None:
        """End it early: at once before its start, else by asking its execution to stop."""
        await self._in_thread(self.cancel_sync, reason)

    def cancel_sync(self, reason: str = "") -> None:
        """`cancel`, for callers that are not async."""
        self._open_store().tasks.cancel(self.id, reason)

    @contextmanager
    def _lend_slot(self) -> Iterator[Callable[[], Ended[R_co] | None]]:
        """Let the worker run the task beside others while a handler waits for it; yields how to look for its end."""
        lender = slot_lender.get()
        if lender is None:
            yield self._ended
            return
        check_at = monotonic() + FIRST_CHECK_SECONDS

        def look() -> Ended[R_co] | None:
            nonlocal check_at
            if (ended := self._ended()) is None and monotonic() >= check_at:
                check_at = monotonic() + CHECK_SECONDS
                self._check_can_start(lender.waiters_of(self.id))
            return ended

        with lender.lend(self.id):
            yield look

    def _check_can_start(self, waiters: set[int]) -> None:
        """Raise `Deadlock` if the task cannot start or continue until a task that waits for it has ended."""
        gate = held_by_all_of(self._open_store().tasks.why(self.id), waiters)
        if gate is not None:
            holders = ", ".join(str(holder) for holder in gate.holders)
            verb, held = ("continue", "resource") if gate.name == "hold" else ("start", gate.name)
            error = Deadlock(
                f"task {self.id} cannot {verb} while task {holders} waits for it, which holds its {held}"
                f" ({gate.reason}): give one of them another {held}, or return without waiting"
            )
            error.retryable = False
            raise error

    def _ended(self) -> Ended[R_co] | None:
        task = self.record_sync()
        result_type = self._result_type(task)
        if task.status not in FINAL and task.status not in (State.DEAD, State.NOTIFYING):
            return None
        return Ended(task.id, task.status, task.error_info, task.result, result_type)

    def _timeout_error(self, timeout: float | None) -> TimeoutError:
        """Says where the task stands: its state, and what it waits for."""
        state, *gates = self._open_store().tasks.why(self.id)
        if not state.open:  # it has started: only what it waits for to end counts
            gates = [gate for gate in gates if gate.name in ("children", "callback")]
        stands = "; ".join([state.reason, *(gate.reason for gate in gates if not gate.open)])
        return TimeoutError(f"task {self.id} has not ended after {timeout:g} s: {stands}")
