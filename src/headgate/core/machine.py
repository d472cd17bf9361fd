"""The whole state machine in one function: what an event does to a task.

A store asks `decide` and writes the answer (`APPLY` in `store/tasks/transitions.py`). A task that waits for its start
again is `queued`, or, when it has a mutex, `blocked`, until the store brings one head per stream forward
(`CameForward`).

Some statements carry out a rule themselves instead. `tests/store/test_oracle_machine.py` holds every event in every
state against `decide`, on both databases. These are the statements, under `store/`:

- `tasks/submit.py` `born`, used by `INSERT_ONE`, `INSERT` and `INSERT_UNLESS_THERE` on PostgreSQL: `birth`.
- `tasks/submit_in.py` `JOIN`: `birth`, but a due task with a mutex is left `pending` until `Due` is decided.
- `tasks/unique.py` `PUSH`: `Debounced`.
- `tasks/mutex_queue.py` `MOVE`: `CameForward` and `SentBack`.
- `tasks/transitions.py` `FINISH`: `Returned`, of a task without children; the state is decided once for a batch.
- `claim/sqlite.py` `TAKE`, `claim/postgres.py` `TAKE` and `TAKE_LOCKED`: `Started` and `Scheduled`.
- `claim/postgres.py` `SEND_BACK`: `SentBack`.
- `execution/reports.py` `START`, `START_HANDED` and `START_KNOWN`: `Started`, of a `scheduling` task without a request
  to cancel or pause.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from headgate.core.callbacks import CallbackKind
from headgate.core.end_reasons import EndReason, head_of
from headgate.core.errors import Refused
from headgate.core.family import Children, family_end
from headgate.core.states import FINAL, State
from headgate.core.task import MAX_LOST, TaskType, clip, clip_error


class Subject(Protocol):
    """What `decide` looks at; a `Task` and an `Execution` both serve."""

    @property
    def id(self) -> int: ...
    @property
    def status(self) -> State: ...
    @property
    def mutex(self) -> str | None: ...
    @property
    def error_count(self) -> int: ...
    @property
    def lost_count(self) -> int: ...
    @property
    def max_error_count(self) -> int | None: ...
    @property
    def cancel_requested(self) -> bool: ...
    @property
    def pause_requested(self) -> bool: ...
    @property
    def has_children(self) -> bool: ...
    @property
    def gave_up(self) -> bool: ...
    @property
    def skip_callback(self) -> bool: ...


# What can happen to a task. Time, chance and outside facts come in with the event.


@dataclass(frozen=True, slots=True)
class Due:
    """Its start_time is reached."""


@dataclass(frozen=True, slots=True)
class CameForward:
    """It is now the first of its mutex in its stream."""


@dataclass(frozen=True, slots=True)
class SentBack:
    """Another task of its mutex goes first."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """It was handed to an agent or the broker, which will confirm the start."""


@dataclass(frozen=True, slots=True)
class Started:
    """An executor holds it."""


@dataclass(frozen=True, slots=True)
class Returned:
    """Its code is done. `completed` asks for the callback, if the type has one; False: the task server's `Success`."""

    result: str = "null"
    completed: bool = True


@dataclass(frozen=True, slots=True)
class Raised:
    """Its code failed; `delay` seconds until the next try, or None when this was the last; `core/retry.py` says why."""

    error: str
    delay: float | None = None
    reason: EndReason | None = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Its code asked to be run again later; this is no error."""

    delay: float


@dataclass(frozen=True, slots=True)
class PauseReached:
    """Its code stopped at a checkpoint because it was asked to pause."""


@dataclass(frozen=True, slots=True)
class CancelReached:
    """Its code stopped because it was asked to."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Its holder lets go of it without having failed: a shutdown, a message not delivered."""


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """It was handed to its agent long ago, and the agent has not confirmed the start: it is to be handed over again."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Its holder was declared lost, or its process died under it.

    Only what was `alone` in the process is counted as having done it. The rest goes back uncounted, as suspect: it runs
    apart next time, where it is alone.
    """

    reason: str = "its executor was lost"
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Overdue:
    """Its deadline, or the longest time a mutex may be held, has passed."""

    reason: str = "the deadline has passed"


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A person or the system wants it gone."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """A person or the system wants it held."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """It may continue; `due` says whether its start_time is reached."""

    due: bool = True


@dataclass(frozen=True, slots=True)
class Prioritized:
    priority: int


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """A person gives it another start_time, or a delay in seconds; `due` says whether that time is reached."""

    start_time: datetime | None = None
    delay: float | None = None
    due: bool = False


@dataclass(frozen=True, slots=True)
class Debounced:
    """It was asked for again before its start: it waits for its time until then, with the newest arguments."""

    start_time: datetime


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """A person wants it run again, now."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A person dealt with it: with what a dead task left undone, or with a callback that does not arrive."""

    remark: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """A person gives it up."""

    remark: str = ""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Its callback has arrived."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """It gets a child."""


@dataclass(frozen=True, slots=True)
class ChildrenEnded:
    """No child of it is open any more; `reason` is why it gave up before, if it did."""

    children: Children
    reason: EndReason | None = None


Event = (
    Due | CameForward | SentBack | Scheduled | Started | Returned | Raised | Snoozed | PauseReached | CancelReached
    | GivenBack | Unconfirmed | LeaseLost | Overdue | CancelRequested | PauseRequested | Resumed | Prioritized
    | Rescheduled | Debounced | RetryAsked | Resolved | Discarded | Delivered | Adopted | ChildrenEnded
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """What to write: the new state, and every other column the event touches. None leaves a column as it is."""

    status: State
    kind: str  # of the audit row
    delay: float | None = None  # start_time = now + delay
    start_time: datetime | None = None
    error_count: int | None = None
    lost_count: int | None = None
    error_info: str | None = None
    result: str | None = None
    remark: str | None = None
    priority: int | None = None
    cancel_requested: bool | None = None
    pause_requested: bool | None = None
    has_children: bool | None = None
    gave_up: bool | None = None
    skip_callback: bool | None = None
    callback: CallbackKind | None = None  # to be delivered from now on
    reason: EndReason | None = None  # why an execution failed, or the task ended without success

    @property
    def runs_again(self) -> bool:
        """Whether an execution failed and the task waits for another."""
        return self.reason is not None and self.status in _AGAIN

    @property
    def detail(self) -> dict[str, Any]:
        """What the audit row says of a failure or an end: why, the error's first line, seconds until the next try."""
        if self.reason is None:
            return {}
        error = {} if self.error_info is None else {"error": head_of(self.error_info)}
        delay = {"delay": self.delay or 0.0} if self.runs_again else {}
        return {"reason": self.reason.value} | error | delay


_AGAIN = (State.RETRYING, State.QUEUED, State.BLOCKED)
_BEFORE_THE_START = (State.PENDING, State.BLOCKED, State.QUEUED, State.SCHEDULING, State.RETRYING)


def decide(task: Subject, event: Event, rules: TaskType) -> Change:
    """Say what `event` does to `task`, whose type is `rules`, or raise `Refused` and change nothing."""
    match task.status, event:
        # the way to the start
        case ((State.PENDING | State.RETRYING), Due()):
            return Change(queue_state(task), "due")
        case State.BLOCKED, CameForward():
            return Change(State.QUEUED, "came_forward")
        case State.QUEUED, SentBack():
            return Change(State.BLOCKED, "sent_back")
        case State.QUEUED, Scheduled():
            return Change(State.SCHEDULING, "scheduled")
        case ((State.QUEUED | State.SCHEDULING), Started()):
            return Change(State.RUNNING, "started")
        # how an execution ends
        case State.RUNNING, Returned(result, completed):
            return _returned(task, result, completed, rules)
        case State.RUNNING, Raised():
            return _raised(task, event, rules)
        case State.RUNNING, Snoozed(delay):
            return _unless_requested(task, Change(State.PENDING, "snoozed", delay=delay))
        case State.RUNNING, PauseReached():
            return Change(State.PAUSED, "paused", pause_requested=False)
        case State.RUNNING, CancelReached():
            return _cancelled(task, "")
        case ((State.RUNNING | State.SCHEDULING), GivenBack()):
            return _unless_requested(task, Change(queue_state(task), "given_back"))
        case State.SCHEDULING, Unconfirmed():
            return _unless_requested(task, Change(queue_state(task), "compensated"))
        case State.SCHEDULING, (LeaseLost() | Overdue()):
            # It never started: nothing to count.
            return _unless_requested(task, Change(queue_state(task), "given_back"))
        case State.RUNNING, LeaseLost(reason, alone):
            return _lease_lost(task, reason, alone, rules)
        case State.RUNNING, Overdue(reason):
            return _overdue(task, reason, rules)
        case State.WAITING, Overdue(reason):
            return _request_cancel(task, reason)  # its family holds a mutex too long: the children are ended first
        # what people ask for
        case ((State.RUNNING | State.WAITING), CancelRequested(reason)):
            return _request_cancel(task, reason)
        case status, CancelRequested(reason) if status not in FINAL:
            return _cancelled(task, reason)
        case status, PauseRequested() if status in _BEFORE_THE_START:
            return Change(State.PAUSED, "paused")
        case State.RUNNING, PauseRequested():
            return Change(State.RUNNING, "pause_requested", pause_requested=True)
        case State.PAUSED, Resumed(due):
            return Change(birth(task.mutex, due=due), "resumed")
        case State.RUNNING, Resumed() if task.pause_requested:
            return Change(State.RUNNING, "resumed", pause_requested=False)
        case status, Prioritized(priority) if status not in FINAL:
            return Change(status, "prioritized", priority=priority)
        case ((State.PENDING | State.RETRYING | State.PAUSED), Rescheduled(start_time, delay)):
            return Change(task.status, "rescheduled", start_time=start_time, delay=delay)
        case ((State.QUEUED | State.BLOCKED), Rescheduled(start_time, delay, due)):
            after = task.status if due else State.PENDING
            return Change(after, "rescheduled", start_time=start_time, delay=delay)
        case ((State.PENDING | State.PAUSED), Debounced(start_time)):
            return Change(task.status, "debounced", start_time=start_time)
        case ((State.QUEUED | State.BLOCKED | State.RETRYING), Debounced()):
            return Change(task.status, "debounced")
        case State.DEAD, RetryAsked():
            return _revived(task)
        case State.RETRYING, RetryAsked():
            return Change(queue_state(task), "retried", delay=0)
        case ((State.DEAD | State.NOTIFYING), Resolved(remark)):
            return Change(State.RESOLVED, "resolved", remark=clip(remark))
        case State.DEAD, Discarded(remark):
            return Change(State.FAILED, "discarded", remark=clip(remark) or None, reason=EndReason.DISCARDED)
        # callbacks and families
        case State.NOTIFYING, Delivered():
            return Change(State.SUCCEEDED, "notified")
        case State.WAITING, Adopted() if task.cancel_requested or task.gave_up:
            raise Refused.of("no-more-children", task_id=task.id)
        case status, Adopted() if status not in FINAL and status not in (State.DEAD, State.NOTIFYING):
            return Change(status, "adopted", has_children=True)
        case State.WAITING, ChildrenEnded(children, reason):
            return _children_ended(task, children, reason, rules)
        case _:
            raise _wrong_state(task, event)


_END_KINDS = {
    State.CANCELLED: "cancelled",
    State.SUCCEEDED: "completed",
    State.NOTIFYING: "completed",
    State.PARTIAL: "completed_with_errors",
    State.FAILED: "failed",
    State.DEAD: "dead_lettered",
}


def birth(mutex: str | None, *, due: bool) -> State:
    """The state of a new task, or of a paused task that is resumed."""
    if not due:
        return State.PENDING
    return State.QUEUED if mutex is None else State.BLOCKED


def queue_state(task: Subject) -> State:
    """The state in which a due task waits for its start."""
    return birth(task.mutex, due=True)


def retries_of(task: Subject, rules: TaskType) -> int:
    """How many failures this task survives."""
    return rules.retry.retries if task.max_error_count is None else task.max_error_count


def _returned(task: Subject, result: str, completed: bool, rules: TaskType) -> Change:
    if task.has_children:
        return Change(State.WAITING, "waiting", result=result, skip_callback=not completed)
    if completed and "success" in rules.callback:
        return Change(State.NOTIFYING, "completed", result=result, callback=CallbackKind.SUCCESS)
    return Change(State.SUCCEEDED, "completed", result=result)


def _raised(task: Subject, event: Raised, rules: TaskType) -> Change:
    errors = task.error_count + 1
    if event.delay is None and not task.cancel_requested:
        return _given_up(task, rules, event.error, event.reason or EndReason.EXHAUSTED, error_count=errors)
    return _unless_requested(
        task,
        Change(
            State.RETRYING,
            "retrying",
            delay=event.delay,
            error_count=errors,
            error_info=clip_error(event.error),
            reason=event.reason or EndReason.ERROR,
        ),
    )


def _given_up(
    task: Subject,
    rules: TaskType,
    error: str,
    reason: EndReason,
    error_count: int | None = None,
    lost_count: int | None = None,
) -> Change:
    """The end; or, for a parent, the wait for its children to be cancelled, which are no longer wanted."""
    change = replace(_failed(reason, rules), error_count=error_count, lost_count=lost_count)
    if task.has_children:
        change = replace(change, status=State.WAITING, kind="giving_up", gave_up=True, callback=None)
    return replace(change, error_info=clip_error(error))


def _failed(reason: EndReason, rules: TaskType) -> Change:
    """The end of a task that failed for good. Arguments that do not fit need a person, whatever the type says."""
    end = State.DEAD if rules.need_manual or reason is EndReason.ARGUMENTS else State.FAILED
    return replace(_ended(end, rules), reason=reason)


def _ended(end: State, rules: TaskType) -> Change:
    return Change(end, _END_KINDS[end], callback=_callback_for(end, rules))


def _callback_for(end: State, rules: TaskType) -> CallbackKind | None:
    """Which callback an end calls for."""
    if end is State.NOTIFYING:
        return CallbackKind.SUCCESS
    return CallbackKind.ERROR if end in (State.FAILED, State.DEAD) and CallbackKind.ERROR in rules.callback else None


def _revived(task: Subject) -> Change:
    """A dead task starts anew, without the children of its previous life."""
    change = Change(queue_state(task), "retried", delay=0, error_count=0, lost_count=0)
    return replace(change, has_children=False, gave_up=False) if task.has_children else change


def _children_ended(task: Subject, children: Children, reason: EndReason | None, rules: TaskType) -> Change:
    if task.gave_up and not task.cancel_requested:
        return _failed(reason or EndReason.EXHAUSTED, rules)
    callback = "success" in rules.callback and not task.skip_callback
    end = family_end(children, cancelled=task.cancel_requested, callback=callback)
    return replace(_ended(end, rules), reason=_FAMILY_REASONS.get(end))


_FAMILY_REASONS = {State.CANCELLED: EndReason.CANCELLED, State.FAILED: EndReason.CHILDREN}


def _cancelled(task: Subject, reason: str) -> Change:
    """The end, or, for a parent, the wait for its children to be cancelled as well."""
    if task.has_children:
        return Change(State.WAITING, "cancel_requested", cancel_requested=True, remark=clip(reason) or None)
    return Change(State.CANCELLED, "cancelled", remark=clip(reason) or None, reason=EndReason.CANCELLED)


def _request_cancel(task: Subject, reason: str) -> Change:
    return Change(task.status, "cancel_requested", cancel_requested=True, remark=clip(reason) or None)


def _unless_requested(task: Subject, change: Change) -> Change:
    """`change`, unless a person asked meanwhile for the task to be cancelled or paused: that comes first."""
    if task.cancel_requested:
        end = _cancelled(task, "")
        return replace(change, status=end.status, kind=end.kind, delay=None, reason=EndReason.CANCELLED)
    if task.pause_requested:
        return replace(change, status=State.PAUSED, kind="paused", pause_requested=False)
    return change


def _lease_lost(task: Subject, reason: str, alone: bool, rules: TaskType) -> Change:
    lost = task.lost_count + 1 if alone else None
    if lost is not None and lost >= MAX_LOST and not task.cancel_requested:
        error = f"{reason}; its worker was lost {lost} times, so it is not run again"
        return _given_up(task, rules, error, EndReason.POISON, lost_count=lost)
    change = Change(queue_state(task), "lease_lost", lost_count=lost, reason=EndReason.LOST)
    return _unless_requested(task, change if task.cancel_requested else replace(change, error_info=clip_error(reason)))


def _overdue(task: Subject, reason: str, rules: TaskType) -> Change:
    errors = task.error_count + 1
    if errors > retries_of(task, rules) and not (task.cancel_requested or task.pause_requested):
        return _given_up(task, rules, reason, EndReason.OVERDUE, error_count=errors)
    change = Change(queue_state(task), "overdue", error_count=errors, error_info=clip_error(reason))
    return _unless_requested(task, replace(change, reason=EndReason.OVERDUE))


# What people ask for: the action, and the states in which it is possible; `open` are all that are not final.
ACTIONS: Mapping[type[Event], tuple[str, str]] = {
    CancelRequested: ("cancel", "open"),
    PauseRequested: ("pause", "pending,blocked,queued,scheduling,retrying,running"),
    Resumed: ("resume", "paused"),
    Prioritized: ("prioritize", "open"),
    Rescheduled: ("reschedule", "pending,blocked,queued,retrying,paused"),
    RetryAsked: ("retry", "dead,retrying"),
    Resolved: ("resolve", "dead,notifying"),
    Discarded: ("discard", "dead"),
}


def _wrong_state(task: Subject, event: Event) -> Refused:
    status = str(task.status)
    if (rule := ACTIONS.get(type(event))) is None:
        return Refused.of("event-not-possible", event=_event_text(event), task_id=task.id, status=status)
    action, allowed = rule
    return Refused.of("wrong-state", task_id=task.id, status=status, action=action, allowed=allowed)


def _event_text(event: Event) -> str:
    name = type(event).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip().capitalize()
