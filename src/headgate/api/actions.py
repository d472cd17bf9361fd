"""Actions upon tasks, on one or on many at a time, and what would become of them."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import Id, Integer, Name, Params, Seconds, ShortText
from headgate.core.errors import HeadgateError, Invalid, Refused
from headgate.core.machine import (
    CancelRequested,
    Discarded,
    Event,
    PauseRequested,
    Prioritized,
    Rescheduled,
    Resolved,
    Resumed,
    RetryAsked,
    decide,
)
from headgate.core.states import FINAL, State
from headgate.core.task import Task, check_start
from headgate.store.reading.lists import Filter
from headgate.store.store import Store

MOST_IN_ACTION = 200
Ids = Annotated[list[Id], Meta(min_length=1, max_length=MOST_IN_ACTION)]
RemarkText = Annotated[str, Meta(min_length=1, max_length=4000)]


def act_on_task(store: Store, who: Principal, action: str, task_id: int, **parameters: Any) -> Task:
    task: Task = getattr(store.tasks, action)(task_id, actor=who.actor, tenant_id=who.tenant_id, **parameters)
    return task


class FilterIn(msgspec.Struct, forbid_unknown_fields=True):
    """Which tasks an action is for."""

    status: list[State] | None = None
    type: Name | None = None
    lane: Name | None = None
    category: ShortText | None = None
    tenant_id: Integer | None = None
    creator: Integer | None = None
    mutex: Name | None = None
    parent_id: Id | None = None
    agent_id: Name | None = None
    correlation_id: Name | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    q: ShortText | None = None


class Action(msgspec.Struct, forbid_unknown_fields=True):
    """One action on many tasks: those named, or a page of what a filter finds. A dry run changes nothing.

    `reason` goes with cancel, `remark` with resolve, `priority` with prioritize, a time or a delay with reschedule.
    """

    action: Literal["cancel", "pause", "resume", "retry", "resolve", "discard", "prioritize", "reschedule"]
    ids: Ids | None = None
    filter: FilterIn | None = None
    cursor: Id | None = None
    dry_run: bool = False
    reason: ShortText = ""
    remark: RemarkText | None = None
    priority: Integer | None = None
    start_time: datetime | None = None
    delay_seconds: Seconds | None = None


class Done(msgspec.Struct):
    """What became of one of them: its state, or why not. In a dry run: its state now, and why it would be refused.

    `code` and `params` say what `problem` says in English. `changes`: what an edit changes of it, each field with what
    it was (`old`) and what it is (`new`). `copy_id`: a final task stays as it is, and this linked copy runs.
    """

    id: int
    status: str | None = None
    problem: str | None = None
    code: str | UnsetType = UNSET
    params: Params | UnsetType = UNSET
    changes: dict[str, Any] | UnsetType = UNSET
    copy_id: int | UnsetType = UNSET


def done_to(task_id: int, task: Task) -> Done:
    """What became of a task: its state, or that of the copy that runs in its place."""
    return Done(task_id, task.status.value, copy_id=UNSET if task.id == task_id else task.id)


def refused(task_id: int, error: HeadgateError, task: Task | None = None) -> Done:
    """Why nothing became of it, or would become of the task as it is."""
    status = None if task is None else task.status.value
    return Done(task_id, status, str(error), error.code, dict(error.params))


class Actions(msgspec.Struct):
    """What became of them; with `next_cursor` the same filter finds more, though this page may have found none."""

    items: list[Done]
    next_cursor: int | None


routes = Routes("tasks")


@routes.post("/api/tasks/actions", Role.OPERATOR, "Act on many tasks")
async def act_on_many(data: Action, server: Server, who: Principal) -> Actions:
    if (data.ids is None) == (data.filter is None):
        raise Invalid("name the tasks by ids or by a filter")
    if data.filter is None and data.cursor is not None:
        raise Invalid("a cursor needs a filter")
    if data.action == "resolve" and data.remark is None and not data.dry_run:
        raise Invalid.of("remark-needed")
    if data.action == "reschedule":
        check_start(data.start_time, data.delay_seconds)
    parameters_of: dict[str, dict[str, Any]] = {
        "cancel": {"reason": data.reason},
        "resolve": {"remark": data.remark},
        "prioritize": {"priority": data.priority},
        "reschedule": {"start_time": data.start_time, "delay_seconds": data.delay_seconds},
    }
    parameters = parameters_of.get(data.action, {})

    def act(task_id: int) -> Done:
        if data.dry_run:
            return preview_action(server.store, who, data.action, task_id)
        return done_to(task_id, act_on_task(server.store, who, data.action, task_id, **parameters))

    def work() -> Actions:
        ids, more = _select_ids(server.store, who, data)
        return Actions(apply_to_each(ids, act), more)

    return await server.in_thread(work)


def _select_ids(store: Store, who: Principal, data: Action) -> tuple[list[int], int | None]:
    """The ids of the tasks an action is for, and the cursor of the next page."""
    if data.filter is None:
        return data.ids or [], None
    wanted = structs.asdict(data.filter)
    wanted["status"] = None if data.filter.status is None else tuple(data.filter.status)
    for name in ("created_after", "created_before"):
        check_timezone(wanted[name])
    wanted["tenant_id"] = who.tenant_filter(data.filter.tenant_id)
    page = store.tasks.find(Filter(**wanted), cursor=data.cursor, limit=MOST_IN_ACTION)
    return [task.id for task in page.items], page.next_cursor


def apply_to_each(ids: Iterable[int], act: Callable[[int], Done]) -> list[Done]:
    """Apply an action to each task; one that is refused holds up none of the rest."""
    return [_apply(act, task_id) for task_id in ids]


def _apply(act: Callable[[int], Done], task_id: int) -> Done:
    try:
        return act(task_id)
    except HeadgateError as error:
        return refused(task_id, error)


EVENT_OF_ACTION: dict[str, Event] = {
    "cancel": CancelRequested(), "pause": PauseRequested(), "resume": Resumed(), "retry": RetryAsked(),
    "resolve": Resolved(""), "discard": Discarded(), "prioritize": Prioritized(0), "reschedule": Rescheduled(delay=0),
}  # fmt: skip


def preview_action(store: Store, who: Principal, action: str, task_id: int) -> Done:
    """The task as it is, and why the action would be refused, as the state machine says."""
    task = store.tasks.get(task_id, who.tenant_id)
    if not (action == "retry" and task.status in FINAL):  # that makes a copy
        try:
            decide(task, EVENT_OF_ACTION[action], store.types.recent(task.type))
        except Refused as error:
            return refused(task_id, error, task)
    return Done(task_id, task.status.value)


def check_timezone(moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise Invalid("a time needs a time zone")
    return moment
