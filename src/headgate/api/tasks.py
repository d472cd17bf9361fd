"""`/api/tasks`: submit, look up, say why, act."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, structs

from headgate.api.actions import RemarkText, act_on_task, check_timezone
from headgate.api.door.principal import Principal, Role
from headgate.api.door.visit import this_visit
from headgate.api.live.waiting import LONGEST_WAIT, Wait, count_as, new_log_lines, wait_for_end
from headgate.api.routing import Json, Routes
from headgate.api.server import Server
from headgate.api.shapes import (
    INT64,
    Cursor,
    EventOut,
    ForecastOut,
    GateOut,
    Limit,
    LogOut,
    NewTaskIn,
    Nothing,
    Number,
    Priority,
    Reason,
    Start,
    TaskAttemptOut,
    TaskId,
    TaskOut,
    TaskPage,
    Text,
    UsageOut,
    attempt_out,
    copied,
    event_out,
    forecast_out,
    task_out,
)
from headgate.api.submits import Key, SubmitResult
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State, View, states_of_word
from headgate.store.reading.lists import Filter

MOST_IN_BULK = 1000
ENDED = FINAL | {State.DEAD}

ViewLetter = Literal["A", "B", "C", "D"]  # of a `View`
After = Annotated[int, Meta(description="Return entries after this id.", ge=0, le=INT64)]
When = Annotated[datetime | None, Meta(description="RFC 3339.", extra_json_schema={"format": "date-time"})]
SearchText = Annotated[
    str | None,
    Meta(
        description="Text in the name, the type or the arguments; ASCII letters match in either case.",
        max_length=255,
    ),
]


class Bulk(msgspec.Struct, forbid_unknown_fields=True):
    """Tasks to be made, all or none."""

    tasks: Annotated[list[NewTaskIn], Meta(min_length=1, max_length=MOST_IN_BULK)]


class BulkOut(msgspec.Struct):
    tasks: list[TaskOut]


class WhyOut(msgspec.Struct, omit_defaults=True):
    """What a task waits for, gate by gate, and when it will likely start; no forecast if it has started or ended."""

    task_id: int
    status: str
    gates: list[GateOut]
    forecast: ForecastOut | None = None


class EventsOut(msgspec.Struct):
    items: list[EventOut]


class TaskAttemptsOut(msgspec.Struct):
    items: list[TaskAttemptOut]


class Log(msgspec.Struct):
    items: list[LogOut]


class Remark(msgspec.Struct, forbid_unknown_fields=True):
    remark: RemarkText


routes = Routes("tasks")


@routes.post(
    "/api/tasks",
    Role.SUBMIT,
    "Submit a task",
    status=201,
    errors=(404, 409, 507),
    also={202: "The time is up; the task continues"},
)
async def submit(data: NewTaskIn, server: Server, who: Principal, key: Key = None, wait: Wait = None) -> Json[TaskOut]:
    """On disk when this answers. An open task with the same unique key, one made less than `unique_seconds` ago, or one
    that is debounced and has not started, is given back instead of a new one. With `wait`, 201 comes when it has ended,
    202 when the time is up before that.
    """
    if wait is not None:
        count_as("polls")
    [made] = await _submit(server, who, [data], key)
    if wait is None:
        return Json(made.task_out(), status_code=201)
    task = await wait_for_end(server, await server.submits.task(made), wait, ENDED)
    out = task_out(task)
    out.created = made.done.created
    return Json(out, status_code=201 if task.status in ENDED else 202)


@routes.post("/api/tasks/bulk", Role.SUBMIT, "Submit many tasks: all or none", status=201, errors=(404, 409, 507))
async def submit_bulk(data: Bulk, server: Server, who: Principal, key: Key = None) -> BulkOut:
    await this_visit().take_tokens_of_bulk(len(data.tasks))
    return BulkOut([made.task_out() for made in await _submit(server, who, data.tasks, key)])


async def _submit(server: Server, who: Principal, data: list[NewTaskIn], key: str | None) -> list[SubmitResult]:
    new_tasks = [task.new_task(who.allowed_tenant(task.tenant_id)) for task in data]
    return await server.submits.submit(new_tasks, who.actor, key)


@routes.get("/api/tasks", Role.READ, "List tasks, including history, newest first")
async def list_tasks(
    server: Server,
    who: Principal,
    status: Annotated[list[str] | None, Meta(description="Filter by state, named as in `view`.", max_length=15)] = None,
    type: Text = None,
    lane: Text = None,
    category: Text = None,
    tenant_id: Number = None,
    creator: Number = None,
    mutex: Text = None,
    parent_id: Number = None,
    agent_id: Text = None,
    correlation_id: Text = None,
    created_after: When = None,
    created_before: When = None,
    q: SearchText = None,
    view: Annotated[ViewLetter | None, Meta(description="Vocabulary of the states.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> TaskPage:
    """An answer is quick whatever is asked for: where much is to be looked through it has fewer tasks than `limit`, or
    none, and a `next_cursor` all the same. It is the end where there is none.
    """
    wanted = Filter(
        tenant_id=who.tenant_filter(tenant_id), type=type, lane=lane, category=category, creator=creator, mutex=mutex,
        parent_id=parent_id, agent_id=agent_id, correlation_id=correlation_id,
        created_after=check_timezone(created_after), created_before=check_timezone(created_before), q=q,
    )  # fmt: skip
    words = None if view is None else View(view)
    wanted = with_statuses(wanted, words, status)
    return await _page(server, wanted, words, cursor, limit)


async def _page(server: Server, wanted: Filter, view: View | None, cursor: int | None, limit: int) -> TaskPage:
    """A page of tasks, the parents among them with their children counted."""

    def work() -> TaskPage:
        page = server.store.tasks.find(wanted, cursor=cursor, limit=limit)
        counted = server.store.families.census_of(page.items)
        return TaskPage([task_out(task, view, counted.get(task.id)) for task in page.items], page.next_cursor)

    return await server.in_thread(work)


def with_statuses(wanted: Filter, view: View | None, status: list[str] | None) -> Filter:
    """The filter with these statuses, in the words of the view; `Invalid` for a word that is none of them."""
    if status is None:
        return wanted
    if view is None:
        try:
            return replace(wanted, status=tuple(State(word) for word in status))
        except ValueError:
            raise Invalid(f"no such status: {', '.join(status)}") from None
    states = [found for word in status for found in states_of_word(view, word)]
    if not all(states_of_word(view, word) for word in status):
        raise Invalid(f"no such status in view {view}: {', '.join(status)}")
    needs: dict[State, set[bool | None]] = {}
    for state, errored in states:
        needs.setdefault(state, set()).add(errored)
    return replace(
        wanted,
        status=tuple(needs),
        fresh=tuple(state for state, errored in needs.items() if errored == {False}),
        failed=tuple(state for state, errored in needs.items() if errored == {True}),
    )


@routes.get("/api/tasks/{task_id}", Role.READ, "Get a task", errors=(404,))
async def get_task(
    task_id: TaskId,
    server: Server,
    who: Principal,
    view: Annotated[ViewLetter | None, Meta(description="Vocabulary of the state.")] = None,
) -> TaskOut:
    def work() -> TaskOut:
        task = server.store.tasks.get(task_id, who.tenant_id)
        words = None if view is None else View(view)
        out = task_out(task, words, server.store.families.census(task) if task.has_children else None)
        if task.attempt and (measured := server.store.usages.of(task_id)) is not None:
            out.usage = copied(UsageOut, measured.usage, attempt=measured.attempt)
        return out

    return await server.in_thread(work)


@routes.get("/api/tasks/{task_id}/why", Role.READ, "Show what a task waits for", errors=(404,))
async def why(task_id: TaskId, server: Server, who: Principal) -> WhyOut:
    task, gates, forecast = await server.in_thread(server.store.forecasts.why, task_id, who.tenant_id)
    gates_out = [copied(GateOut, gate, holders=list(gate.holders)) for gate in gates]
    return WhyOut(task.id, task.status.value, gates_out, forecast_out(forecast))


@routes.get("/api/tasks/{task_id}/events", Role.READ, "List the events of a task", errors=(404,))
async def events(
    task_id: TaskId,
    server: Server,
    who: Principal,
    after: After = 0,
    limit: Limit = 200,
    progress: Annotated[bool, Meta(description="Include progress reports.")] = True,
) -> EventsOut:
    await _check_visible(server, who, task_id)
    found = await server.in_thread(server.store.events.of, task_id, after=after, limit=limit, progress=progress)
    return EventsOut([event_out(EventOut, event) for event in found])


@routes.get("/api/tasks/{task_id}/attempts", Role.READ, "List the attempts of a task", errors=(404,))
async def attempts(task_id: TaskId, server: Server, who: Principal) -> TaskAttemptsOut:
    """The last 50, oldest first. A failed attempt has its error with the stack trace, up to 16 KiB."""
    found = await server.in_thread(server.store.attempts.of, task_id, who.tenant_id)
    return TaskAttemptsOut([attempt_out(attempt) for attempt in found])


@routes.get("/api/tasks/{task_id}/log", Role.READ, "List the log lines of a task", errors=(404,))
async def log_lines(
    task_id: TaskId,
    server: Server,
    who: Principal,
    after: After = 0,
    limit: Limit = 200,
    wait: Annotated[
        float,
        Meta(description="Seconds to wait for a new line while the task is open.", ge=0, le=LONGEST_WAIT),
    ] = 0.0,
) -> Log:
    if wait:
        count_as("polls")
    await _check_visible(server, who, task_id)
    return Log([copied(LogOut, line) for line in await new_log_lines(server, task_id, after, limit, wait)])


@routes.get("/api/tasks/{task_id}/children", Role.READ, "List the children of a task", errors=(404,))
async def children(
    task_id: TaskId, server: Server, who: Principal, cursor: Cursor = None, limit: Limit = 50
) -> TaskPage:
    await _check_visible(server, who, task_id)
    return await _page(server, Filter(tenant_id=who.tenant_id, parent_id=task_id), None, cursor, limit)


async def _check_visible(server: Server, who: Principal, task_id: int) -> None:
    """`NotFound` if the task is not there, or not theirs to see."""
    await server.in_thread(server.store.tasks.get, task_id, who.tenant_id)


@routes.post("/api/tasks/{task_id}/cancel", Role.OPERATOR, "Cancel a task", errors=(404, 409))
async def cancel(task_id: TaskId, server: Server, who: Principal, data: Reason | None = None) -> TaskOut:
    return await _act(server, who, "cancel", task_id, reason=data.reason if data else "")


@routes.post("/api/tasks/{task_id}/pause", Role.OPERATOR, "Pause a task", errors=(404, 409))
@routes.post("/api/tasks/{task_id}/resume", Role.OPERATOR, "Resume a paused task", errors=(404, 409))
@routes.post(
    "/api/tasks/{task_id}/retry", Role.OPERATOR, "Run a task again; a finished one as a linked copy", errors=(404, 409)
)
@routes.post("/api/tasks/{task_id}/discard", Role.OPERATOR, "Discard a dead task", errors=(404, 409))
async def act(task_id: TaskId, action: str, server: Server, who: Principal, data: Nothing | None = None) -> TaskOut:
    return await _act(server, who, action, task_id)


@routes.post("/api/tasks/{task_id}/resolve", Role.OPERATOR, "Mark a dead task as resolved", errors=(404, 409))
async def resolve(task_id: TaskId, server: Server, who: Principal, data: Remark) -> TaskOut:
    return await _act(server, who, "resolve", task_id, remark=data.remark)


@routes.post("/api/tasks/{task_id}/prioritize", Role.OPERATOR, "Change the priority of a task", errors=(404, 409))
async def prioritize(task_id: TaskId, server: Server, who: Principal, data: Priority | None = None) -> TaskOut:
    return await _act(server, who, "prioritize", task_id, priority=data.priority if data else None)


@routes.post(
    "/api/tasks/{task_id}/reschedule",
    Role.OPERATOR,
    "Change the start time of a task that has not started",
    errors=(404, 409),
)
async def reschedule(task_id: TaskId, server: Server, who: Principal, data: Start) -> TaskOut:
    return await _act(server, who, "reschedule", task_id, **structs.asdict(data))


async def _act(server: Server, who: Principal, action: str, task_id: int, **parameters: Any) -> TaskOut:
    return task_out(await server.in_thread(act_on_task, server.store, who, action, task_id, **parameters))
