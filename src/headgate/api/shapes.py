"""The outside contract of a task: what may be asked for, and how one is shown. Unknown fields are refused."""

from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.core.attempts import Attempt
from headgate.core.end_reasons import EndReason
from headgate.core.errors import Invalid
from headgate.core.event_texts import event_code, event_params, event_text
from headgate.core.events import AuditEvent
from headgate.core.family import Census, progress_of
from headgate.core.forecast import Forecast
from headgate.core.pause import UNCHANGED, Pause, PauseScope, Unchanged
from headgate.core.reasons import Param
from headgate.core.states import View, status_word
from headgate.core.task import NewTask, Task
from headgate.core.unique import unique_key_of
from headgate.store.db.statement import moment
from headgate.store.tasks.submit import Initial

INT64 = 2**63 - 1
Id = Annotated[int, Meta(ge=1, le=INT64)]
Integer = Annotated[int, Meta(ge=-INT64, le=INT64)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
ShortText = Annotated[str, Meta(max_length=255)]
OnChildFailure = Literal["continue", "cancel"]
Seconds = Annotated[float, Meta(ge=0, le=3_162_240_000)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=3_162_240_000)]

# What routes take in their paths and queries
TaskId = Annotated[int, Meta(description="ID of the task.", ge=1, le=INT64)]
Cursor = Annotated[int | None, Meta(description="`next_cursor` of the previous page.", ge=1, le=INT64)]
Limit = Annotated[int, Meta(description="Maximum number of results.", ge=1, le=200)]
Text = Annotated[str | None, Meta(max_length=255)]
Number = Annotated[int | None, Meta(ge=-INT64, le=INT64)]


S = TypeVar("S", bound=msgspec.Struct)
Value = TypeVar("Value")


def copied(shape: type[S], record: Any, **fields: Any) -> S:
    """A record for the outside: `fields` as they are given, the rest as the record has them."""
    return shape(**{name: getattr(record, name) for name in shape.__struct_fields__ if name not in fields}, **fields)


class NewTaskIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A task to be made. What is left out comes from its type."""

    type: Name
    ext: Any = msgspec.field(default_factory=dict)
    tenant_id: Integer | None = None
    creator: Integer = 0
    name: ShortText | None = None
    lane: Name | None = None
    category: ShortText | None = None
    priority: Integer | None = None
    mutex: Name | None = None
    rate_key: Name | None = None
    agent_id: Name | None = None
    unique_key: Name | None = None
    unique: Literal["arguments"] | None = None
    unique_seconds: PositiveSeconds | None = None
    debounce_seconds: PositiveSeconds | None = None
    debounce_longest_seconds: PositiveSeconds | None = None
    debounce_replace: bool | None = None
    start_time: datetime | None = None
    delay_seconds: Seconds | None = None
    max_error_count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    timeout_seconds: PositiveSeconds | None = None
    parent_id: Id | None = None
    correlation_id: Name | None = None
    on_child_failure: OnChildFailure | None = None

    def new_task(self, tenant_id: int) -> NewTask:
        ext = text_of(self.ext)
        if self.unique is not None and self.unique_key is not None:
            raise Invalid("give unique or unique_key, not both")
        return NewTask(
            self.type, ext, tenant_id, self.creator, self.name, self.lane, self.category, self.priority,
            self.mutex, self.rate_key, self.agent_id, self.unique_key if self.unique is None else unique_key_of(ext),
            self.start_time, self.delay_seconds, self.max_error_count, self.timeout_seconds, self.parent_id, None,
            self.correlation_id, self.on_child_failure, self.unique_seconds, self.debounce_seconds,
            self.debounce_longest_seconds, self.debounce_replace,
        )  # fmt: skip


class ChildrenOut(msgspec.Struct):
    """How far a task's children are; a cancelled or dead one counts as failed. Exact up to 10,000."""

    total: int
    ended: int
    succeeded: int
    failed: int
    states: dict[str, int]
    exact: bool


class UsageOut(msgspec.Struct):
    """What an execution used of its machine; null: it cannot be told of that execution alone."""

    attempt: int
    cpu_seconds: float
    memory_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None


class TaskOut(msgspec.Struct):
    """A task as it stands; the task server's fields come first."""

    id: int
    tenant_id: int
    type: str
    creator: int
    start_time: datetime
    status: str
    executing_deadline: datetime | None
    exec_id: str | None
    error_count: int
    error_info: str | None
    category: str
    remark: str | None
    ext: Any
    result: Any
    exec_time: float | None
    create_date: datetime
    update_date: datetime
    name: str | None
    lane: str
    priority: int
    mutex: str | None
    rate_key: str | None
    attempt: int
    lost_count: int
    agent_id: str | None
    parent_id: int | None
    retry_of: int | None
    unique_key: str | None
    progress: Any
    correlation_id: str | None
    worker_id: int | None
    scheduling_time: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    max_error_count: int | None
    timeout_seconds: float | None
    cancel_requested: bool
    pause_requested: bool
    on_child_failure: str | None
    gave_up: bool  # a parent whose own code failed for good: it ends so when its children have been cancelled
    created: bool | UnsetType = UNSET  # in the answer to a submit: False if an open task had its unique key
    children: ChildrenOut | UnsetType = UNSET  # of a parent, unless a list has too many of them to count
    usage: UsageOut | UnsetType = UNSET  # of a task that is looked up, by its last execution that was measured


_fields_of = attrgetter(*(name for name in TaskOut.__struct_fields__ if name not in ("created", "children", "usage")))


def task_out(task: Task, view: View | None = None, census: Census | None = None) -> TaskOut:
    """A task for the outside, its state in the words of `view`; a parent with its children, if they were counted."""
    out = TaskOut(*_fields_of(task))
    out.status = task.status.value if view is None else status_word(view, task.status, task.error_count)
    out.ext, out.result, out.progress = _value(task.ext), _value(task.result), _value(task.progress)
    if census is not None:
        counted = census.children
        own = None if task.progress is None else msgspec.json.decode(task.progress)
        out.progress = progress_of(own, task.status, counted)
        states = {state.value: count for state, count in sorted(census.states.items())}
        out.children = ChildrenOut(
            counted.total, counted.ended, counted.succeeded, counted.failed, states, census.exact
        )
    return out


def new_task_out(task_id: int, made: Initial) -> TaskOut:
    """`task_out`, of a task as it was made: nothing has to be read for that."""
    new, created = made.task, moment(made.create_date)
    return TaskOut(
        task_id, new.tenant_id, new.type, new.creator, moment(made.start_time), made.status, None, None, 0, None,
        new.category or "", None, msgspec.Raw(new.ext), None, None, created, created, new.name, new.lane or "",
        new.priority or 0, new.mutex, new.rate_key, 0, 0,
        new.agent_id, new.parent_id, new.retry_of, new.unique_key, None, new.correlation_id, None, None, None, None,
        new.max_error_count, new.timeout_seconds, False, False, new.on_child_failure, False,
    )  # fmt: skip


class TaskPage(msgspec.Struct):
    """Tasks, newest first; `next_cursor` is null at the end.

    A page that has a cursor may have fewer tasks than were asked for, or none. Continue with it.
    """

    items: list[TaskOut]
    next_cursor: int | None


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A body may be left out."""


class Reason(msgspec.Struct, forbid_unknown_fields=True):
    reason: ShortText = ""


class Priority(msgspec.Struct, forbid_unknown_fields=True):
    """Without a number: to the head of its lane."""

    priority: Integer | None = None


class Start(msgspec.Struct, forbid_unknown_fields=True):
    """When: at that time, or after that many seconds."""

    start_time: datetime | None = None
    delay_seconds: Seconds | None = None


class EventOut(msgspec.Struct, rename={"before": "from", "after": "to"}):
    """One line of the audit. `params` has what it says besides its kind and states; `detail` says that in English.

    `code` is the reason of a failure, as attempts have it, else the kind.
    """

    id: int
    task_id: int | None
    tenant_id: int
    seq: int
    at: datetime
    kind: str
    before: str | None
    after: str | None
    actor: str
    exec_id: str | None
    correlation_id: str | None
    detail: str | None
    code: str
    params: dict[str, Any]


def event_out(shape: type[S], event: AuditEvent, **fields: Any) -> S:
    """An event for the outside, with what it says in English and what that is made of."""
    texts = {"detail": event_text(event), "code": event_code(event), "params": event_params(event)}
    return copied(shape, event, **texts, **fields)


Params = dict[str, Param]


class PauseOut(msgspec.Struct):
    """A pause: what it holds (`name` is empty for everything), why, by whom, since when and until when."""

    scope: PauseScope
    name: str
    reason: str
    actor: str
    at: datetime
    until: datetime | None


def pause_out(pause: Pause | None) -> PauseOut | None:
    return None if pause is None else copied(PauseOut, pause)


def or_unchanged(value: Value | UnsetType) -> Value | Unchanged:
    """A field of a pause; one that is left out stays as it is."""
    return UNCHANGED if isinstance(value, UnsetType) else value


class GateOut(msgspec.Struct, omit_defaults=True):
    """One condition of the start: open, or closed and why; `code` and `params` say what `reason` says in English."""

    name: str
    open: bool
    reason: str
    code: str
    params: Params = {}
    until: datetime | None = None
    holders: list[int] = []


class ForecastOut(msgspec.Struct):
    """When that will probably be, as of now; null if unknown. The reason says what decides."""

    at: datetime | None
    in_seconds: float | None
    reason: str
    code: str
    params: Params
    ahead: int


def forecast_out(forecast: Forecast | None) -> ForecastOut | None:
    if forecast is None:
        return None
    seconds = None if forecast.seconds is None else round(forecast.seconds, 1)
    return copied(ForecastOut, forecast, in_seconds=seconds)


class TaskAttemptUsageOut(msgspec.Struct):
    """What an attempt used of its machine; null: it cannot be told of that attempt alone."""

    cpu_seconds: float
    memory_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None


class LogRange(msgspec.Struct):
    """The ids of the first and the last log line of an attempt."""

    first: int
    last: int


class TaskAttemptOut(msgspec.Struct):
    """One execution of a task. `outcome` is the kind of the event that ended it; until then, `running` or
    `scheduling`. `delay` is after how many seconds it was to run again."""

    number: int
    exec_id: str
    executor: str  # worker:ID or agent:ID
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    reason: EndReason | None
    error: str | None
    delay: float | None
    usage: TaskAttemptUsageOut | None
    log: LogRange | None


def attempt_out(attempt: Attempt) -> TaskAttemptOut:
    usage = None if attempt.usage is None else copied(TaskAttemptUsageOut, attempt.usage)
    return copied(TaskAttemptOut, attempt, usage=usage, log=None if attempt.log is None else LogRange(*attempt.log))


class LogOut(msgspec.Struct):
    """One line that a task wrote."""

    id: int
    at: datetime
    attempt: int
    level: str
    message: str


def text_of(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _value(text: str | None) -> Any:
    """JSON as it was stored: checked when it came in, and not read again to be written."""
    return None if text is None else msgspec.Raw(text)
