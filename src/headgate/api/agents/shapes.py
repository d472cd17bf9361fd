"""Requests of agents and the answers to them: claims, tasks, reports."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headgate.api.shapes import Id, Integer, Name, Params, Seconds, ShortText
from headgate.core.task import MAX_ERROR_NAMES, Execution

MOST_TASKS = 100
MOST_REPORTS = 1000
MOST_LINES = 1000
MOST_SLOTS = 1000
LONGEST_WAIT = 60.0

ExecId = Annotated[
    str,
    Meta(
        description="From the claim; it identifies this execution of the task.",
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        max_length=36,
    ),
]
LeaseSeconds = Annotated[float, Meta(ge=5, le=86400)]
Instance = Annotated[
    str, Meta(min_length=1, max_length=64, description="Process of the agent; each one keeps only its own tasks.")
]
ErrorInfo = Annotated[str, Meta(min_length=1, max_length=65536)]
ErrorNames = Annotated[list[Name], Meta(max_length=MAX_ERROR_NAMES)]


class ClaimIn(msgspec.Struct, forbid_unknown_fields=True):
    """Which tasks an agent wants, how many at most, and for how long it waits if there is none.

    Without `lease_seconds` a task is the agent's until its `executing_deadline`. With it the agent promises to be
    heard of at least so often, by any call; if it is not, its tasks go to others.
    """

    types: Annotated[list[Name], Meta(min_length=1, max_length=200)] | None = None
    categories: Annotated[list[ShortText], Meta(min_length=1, max_length=200)] | None = None
    tenant_id: Integer | None = None
    creator: Integer | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_TASKS)] = 1
    wait_seconds: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0
    lease_seconds: LeaseSeconds | None = None
    claim_id: Annotated[Name, Meta(description="Repeat a claim with the same id to get the same tasks.")] | None = None
    instance: Instance | None = None


class Handed(msgspec.Struct):
    """A task to be executed. `running` it is under way at once; `scheduling` it waits for its start to be confirmed."""

    id: int
    exec_id: str
    executing_deadline: datetime
    status: str
    type: str
    ext: Any
    attempt: int
    error_count: int
    tenant_id: int
    creator: int
    name: str | None
    category: str
    lane: str
    priority: int
    mutex: str | None
    parent_id: int | None
    correlation_id: str | None
    timeout_seconds: float
    checkpoints: dict[str, Any]


_fields_of = attrgetter(*(name for name in Handed.__struct_fields__ if name != "checkpoints"))


def execution_out(execution: Execution, saved: Mapping[str, str]) -> Handed:
    """An execution for the outside, with the states that were saved for it, as JSON by name."""
    checkpoints = {name: msgspec.Raw(state) for name, state in saved.items()}
    out = Handed(*(*_fields_of(execution), checkpoints))
    out.status, out.ext = execution.status.value, msgspec.Raw(execution.ext)
    return out


class HandedOver(msgspec.Struct):
    tasks: list[Handed]


class ConsumeIn(msgspec.Struct, forbid_unknown_fields=True):
    """Which types a process of an agent takes from the broker, and how many tasks at once; 0: none for now."""

    types: Annotated[list[Name], Meta(min_length=1, max_length=200)]
    slots: Annotated[int, Meta(ge=0, le=MOST_SLOTS)]
    instance: Instance
    lease_seconds: LeaseSeconds | None = None


class Consuming(msgspec.Struct):
    """The queues to consume, and how they are declared and bound to `exchange`: under their own names.

    While nothing is `dispatched` nothing comes from the broker: claim. `stalled`: tasks of these types have been in the
    broker for too long. If there is a slot for one, the connection is of no use: connect anew.
    """

    exchange: str
    queues: list[str]
    arguments: dict[str, Any]
    dispatched: bool
    stalled: bool
    lease_seconds: float


class Delivered(msgspec.Struct, forbid_unknown_fields=True):
    """What a message names: its header `task_id`, and its message id."""

    id: Id
    exec_id: ExecId


class StartIn(msgspec.Struct, forbid_unknown_fields=True):
    instance: Instance
    tasks: Annotated[list[Delivered], Meta(min_length=1, max_length=MOST_TASKS)]


class Start(msgspec.Struct):
    """What came of one message. `started`: run the `task`. `stale`, `held_back`: there is nothing to run. `busy`: ask
    again in a moment. Acknowledge the message in every case but the last."""

    id: int
    exec_id: str
    outcome: Literal["started", "stale", "held_back", "busy"]
    task: Handed | None = None


class Starts(msgspec.Struct):
    items: list[Start]


class Named(msgspec.Struct, forbid_unknown_fields=True):
    exec_id: ExecId


class ProgressIn(msgspec.Struct, forbid_unknown_fields=True):
    """How far it is."""

    exec_id: ExecId
    done: float | None = None
    total: float | None = None
    note: Annotated[str, Meta(max_length=4000)] | None = None
    data: Annotated[Any, Meta(description="Any other JSON; 16 KiB at most in total.")] = None


class Line(msgspec.Struct, forbid_unknown_fields=True):
    message: Annotated[str, Meta(max_length=65536)]
    level: ShortText = "info"


class LogIn(msgspec.Struct, forbid_unknown_fields=True):
    """Lines to be kept with the task."""

    exec_id: ExecId
    lines: Annotated[list[Line], Meta(min_length=1, max_length=MOST_LINES)]


class CheckpointIn(msgspec.Struct, forbid_unknown_fields=True):
    """A state that the task's next execution finds, by name."""

    exec_id: ExecId
    name: Name
    state: Any


class CompleteIn(msgspec.Struct, forbid_unknown_fields=True):
    """`Completed` asks for the callback of the task's type, `Success` does without."""

    exec_id: ExecId
    status: Literal["Success", "Completed"] = "Completed"
    result: Any = None


class FailIn(msgspec.Struct, forbid_unknown_fields=True):
    """What went wrong. Whether and when it runs again says the type's policy, unless `retryable` is false.

    `retry_after` are seconds that the next try waits at least. `error_names` are those of the error's class and of what
    it derives from, nearest first: if the type lists one of them (`retry_on`, `fatal`), that decides.
    """

    exec_id: ExecId
    error_info: ErrorInfo
    retryable: bool | None = None
    retry_after: Seconds | None = None
    error_names: ErrorNames = []


class ReportIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How one execution ended. An `Error` has an `error_info`; `Released` gives back what was not begun."""

    id: Id
    exec_id: ExecId
    status: Literal["Success", "Completed", "Error", "Cancelled", "Paused", "Released"]
    result: Any = None
    error_info: ErrorInfo = "it failed"
    retryable: bool | None = None
    retry_after: Seconds | None = None
    error_names: ErrorNames = []


class ReportsIn(msgspec.Struct, forbid_unknown_fields=True):
    reports: Annotated[list[ReportIn], Meta(min_length=1, max_length=MOST_REPORTS)]


class Answer(msgspec.Struct):
    """The task's state, and what is asked of its execution."""

    id: int
    status: str
    control: Literal["none", "cancel", "pause"]
    executing_deadline: datetime | None = None


class Trouble(msgspec.Struct):
    """Why a report was not taken; `code` and `params` say what `detail` says in English."""

    type: str
    status: int
    detail: str
    code: str
    params: Params


class Reported(msgspec.Struct):
    """What became of one report: the task's state, or a problem."""

    id: int
    exec_id: str
    status: str | None = None
    problem: Trouble | None = None


class Reports(msgspec.Struct):
    items: list[Reported]
