"""`/api/tasks`: submit, look up, say why, act."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, Router, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter
from msgspec import Meta

from headgate.api.actions import RemarkText, act_on_many, acted, aware
from headgate.api.principal import Principal, Role
from headgate.api.problems import documented
from headgate.api.server import Server
from headgate.api.shapes import (
    INT64,
    EventOut,
    ForecastOut,
    GateOut,
    LogOut,
    NewTaskIn,
    Nothing,
    Priority,
    Reason,
    Start,
    TaskOut,
    TaskPage,
    event_shown,
    forecast_shown,
    gate_shown,
    shown,
    usage_shown,
)
from headgate.api.submits import Key, Made
from headgate.api.waiting import LONGEST_WAIT, Wait, awaited, heard
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State, meaning
from headgate.store.lists import Filter

MOST_IN_BULK = 1000
ENDED = FINAL | {State.DEAD}

View = Literal["A", "B", "C", "D"]
TaskId = Annotated[int, PathParameter(description="The task's id.", ge=1, le=INT64)]
Cursor = Annotated[int | None, QueryParameter(description="`next_cursor` of the page before.", ge=1, le=INT64)]
Limit = Annotated[int, QueryParameter(description="How many at most.", ge=1, le=200)]
After = Annotated[int, QueryParameter(description="The last id that is known.", ge=0, le=INT64)]
Said = Annotated[str | None, QueryParameter(max_length=255)]
Number = Annotated[int | None, QueryParameter(ge=-INT64, le=INT64)]
When = Annotated[datetime | None, QueryParameter(description="RFC 3339.")]
Part = Annotated[
    str | None,
    QueryParameter(
        description="A part of the name, the type or the parameters, as they are written; A to Z in either case.",
        max_length=255,
    ),
]


STILL_GOING = ResponseSpec(
    data_container=TaskOut, description="The time is up; the task goes on", generate_examples=False
)


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


class Events(msgspec.Struct):
    items: list[EventOut]


class Log(msgspec.Struct):
    items: list[LogOut]


class Remark(msgspec.Struct, forbid_unknown_fields=True):
    remark: RemarkText


@post(
    "/",
    summary="Submit a task",
    responses=documented(404, 409, 413, 415, 507) | {202: STILL_GOING},
    opt={"role": Role.SUBMIT},
    description=(
        "On disk when this answers. An open task with the same unique key, one made less than `unique_seconds` ago, or "
        "one that is debounced and has not started, is given back instead of a new one. "
        "With `wait`, 201 comes when it has ended, 202 when the time is up before that."
    ),
)
async def submit(
    data: NewTaskIn, server: Server, who: Principal, key: Key = None, wait: Wait = None
) -> Response[TaskOut]:
    [made] = await _submitted(server, who, [data], key)
    if wait is None:
        return Response(made.shown(), status_code=201)
    task = await awaited(server, await server.submits.task(made), wait, ENDED)
    out = shown(task)
    out.created = made.done.created
    return Response(out, status_code=201 if task.status in ENDED else 202)


@post(
    "/bulk", summary="Submit many tasks, all or none", responses=documented(404, 409, 413, 415, 507),
    opt={"role": Role.SUBMIT},
)  # fmt: skip
async def submit_bulk(data: Bulk, server: Server, who: Principal, key: Key = None) -> BulkOut:
    return BulkOut([made.shown() for made in await _submitted(server, who, data.tasks, key)])


async def _submitted(server: Server, who: Principal, asked: list[NewTaskIn], key: str | None) -> list[Made]:
    wishes = [new.wish(who.tenant(new.tenant_id)) for new in asked]
    return await server.submits.make(wishes, who.actor, key)


@get(
    "/",
    summary="List tasks, live and in history, newest first",
    responses=documented(),
    opt={"role": Role.READ},
    description=(
        "An answer is quick whatever is asked for: where much is to be looked through it has fewer tasks than `limit`, "
        "or none, and a `next_cursor` all the same. It is the end where there is none."
    ),
)
async def list_tasks(
    server: Server,
    who: Principal,
    status: Annotated[list[str] | None, QueryParameter(description="In the words of the view.", max_items=15)] = None,
    type: Said = None,
    lane: Said = None,
    category: Said = None,
    tenant_id: Number = None,
    creator: Number = None,
    mutex: Said = None,
    parent_id: Number = None,
    agent_id: Said = None,
    correlation_id: Said = None,
    created_after: When = None,
    created_before: When = None,
    q: Part = None,
    view: Annotated[View | None, QueryParameter(description="Whose words the states are in.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> TaskPage:
    wanted = Filter(
        tenant_id=who.looks_at(tenant_id), type=type, lane=lane, category=category, creator=creator, mutex=mutex,
        parent_id=parent_id, agent_id=agent_id, correlation_id=correlation_id, created_after=aware(created_after),
        created_before=aware(created_before), q=q,
    )  # fmt: skip
    wanted = in_words(wanted, view, status)
    page = await server.aside(partial(server.store.find, wanted, cursor=cursor, limit=limit))
    return TaskPage([shown(task, view) for task in page.items], page.next_cursor)


def in_words(wanted: Filter, view: str | None, status: list[str] | None) -> Filter:
    """The filter with states in a view's words; `Invalid` for a word that nobody uses."""
    if status is None:
        return wanted
    if view is None:
        try:
            return replace(wanted, status=tuple(State(said) for said in status))
        except ValueError:
            raise Invalid(f"no such status: {', '.join(status)}") from None
    meant = [found for said in status for found in meaning(view, said)]
    if not all(meaning(view, said) for said in status):
        raise Invalid(f"no such status in view {view}: {', '.join(status)}")
    needs: dict[State, set[bool | None]] = {}
    for state, errored in meant:
        needs.setdefault(state, set()).add(errored)
    return replace(
        wanted,
        status=tuple(needs),
        fresh=tuple(state for state, errored in needs.items() if errored == {False}),
        failed=tuple(state for state, errored in needs.items() if errored == {True}),
    )


@get("/{task_id:int}", summary="Look a task up", responses=documented(404), opt={"role": Role.READ})
async def get_task(
    task_id: TaskId,
    server: Server,
    who: Principal,
    view: Annotated[View | None, QueryParameter(description="Whose words the state is in.")] = None,
) -> TaskOut:
    def work() -> TaskOut:
        task = server.store.get(task_id, who.tenant_id)
        out = shown(task, view, server.store.families.census(task) if task.has_children else None)
        if task.attempt and (measured := server.store.usages.of(task_id)) is not None:
            out.usage = usage_shown(measured)
        return out

    return await server.aside(work)


@get("/{task_id:int}/why", summary="What a task waits for", responses=documented(404), opt={"role": Role.READ})
async def why(task_id: TaskId, server: Server, who: Principal) -> WhyOut:
    task, gates, forecast = await server.aside(server.store.forecasts.why, task_id, who.tenant_id)
    shown_gates = [gate_shown(gate) for gate in gates]
    return WhyOut(task.id, task.status.value, shown_gates, None if forecast is None else forecast_shown(forecast))


@get("/{task_id:int}/events", summary="What happened to a task", responses=documented(404), opt={"role": Role.READ})
async def events(
    task_id: TaskId,
    server: Server,
    who: Principal,
    after: After = 0,
    limit: Limit = 200,
    progress: Annotated[bool, QueryParameter(description="Also each time it said how far it was.")] = True,
) -> Events:
    look = partial(server.store.events, task_id, after=after, limit=limit, progress=progress)
    found = await _of_task(server, who, task_id, look)
    return Events([event_shown(event) for event in found])


@get("/{task_id:int}/log", summary="A task's own log lines", responses=documented(404), opt={"role": Role.READ})
async def log_lines(
    task_id: TaskId,
    server: Server,
    who: Principal,
    after: After = 0,
    limit: Limit = 200,
    wait: Annotated[
        float,
        QueryParameter(description="Seconds to wait for a line, while the task may write one.", ge=0, le=LONGEST_WAIT),
    ] = 0.0,
) -> Log:
    await server.aside(server.store.get, task_id, who.tenant_id)
    found = await heard(server, task_id, after, limit, wait)
    return Log([LogOut(line.id, line.at, line.attempt, line.level, line.message) for line in found])


@get("/{task_id:int}/children", summary="A task's children", responses=documented(404), opt={"role": Role.READ})
async def children(
    task_id: TaskId, server: Server, who: Principal, cursor: Cursor = None, limit: Limit = 50
) -> TaskPage:
    wanted = Filter(tenant_id=who.tenant_id, parent_id=task_id)
    page = await _of_task(server, who, task_id, partial(server.store.find, wanted, cursor=cursor, limit=limit))
    return TaskPage([shown(task) for task in page.items], page.next_cursor)


async def _of_task(server: Server, who: Principal, task_id: int, look: Callable[[], Any]) -> Any:
    """What is asked about a task that there is, and that is theirs to see."""

    def work() -> Any:
        server.store.get(task_id, who.tenant_id)
        return look()

    return await server.aside(work)


@post("/{task_id:int}/cancel", summary="End a task early", status_code=200, responses=documented(404, 409, 413, 415),
      opt={"role": Role.OPERATOR})  # fmt: skip
async def cancel(task_id: TaskId, server: Server, who: Principal, data: Reason | None = None) -> TaskOut:
    return await _act(server, who, "cancel", task_id, reason=data.reason if data else "")


@post("/{task_id:int}/pause", summary="Hold a task", status_code=200, responses=documented(404, 409, 413, 415),
      opt={"role": Role.OPERATOR})  # fmt: skip
async def pause(task_id: TaskId, server: Server, who: Principal, data: Nothing | None = None) -> TaskOut:
    return await _act(server, who, "pause", task_id)


@post("/{task_id:int}/resume", summary="Let a paused task go on", status_code=200,
      responses=documented(404, 409, 413, 415), opt={"role": Role.OPERATOR})  # fmt: skip
async def resume(task_id: TaskId, server: Server, who: Principal, data: Nothing | None = None) -> TaskOut:
    return await _act(server, who, "resume", task_id)


@post("/{task_id:int}/retry", summary="Run a task again; a final one as a linked copy", status_code=200,
      responses=documented(404, 409, 413, 415), opt={"role": Role.OPERATOR})  # fmt: skip
async def retry(task_id: TaskId, server: Server, who: Principal, data: Nothing | None = None) -> TaskOut:
    return await _act(server, who, "retry", task_id)


@post("/{task_id:int}/resolve", summary="A person dealt with a dead task", status_code=200,
      responses=documented(404, 409, 413, 415), opt={"role": Role.OPERATOR})  # fmt: skip
async def resolve(task_id: TaskId, server: Server, who: Principal, data: Remark) -> TaskOut:
    return await _act(server, who, "resolve", task_id, remark=data.remark)


@post("/{task_id:int}/discard", summary="Give a dead task up", status_code=200,
      responses=documented(404, 409, 413, 415), opt={"role": Role.OPERATOR})  # fmt: skip
async def discard(task_id: TaskId, server: Server, who: Principal, data: Nothing | None = None) -> TaskOut:
    return await _act(server, who, "discard", task_id)


@post("/{task_id:int}/prioritize", summary="Give a task another priority", status_code=200,
      responses=documented(404, 409, 413, 415), opt={"role": Role.OPERATOR})  # fmt: skip
async def prioritize(task_id: TaskId, server: Server, who: Principal, data: Priority | None = None) -> TaskOut:
    return await _act(server, who, "prioritize", task_id, priority=data.priority if data else None)


@post("/{task_id:int}/reschedule", summary="Let a task that has not started start later, or sooner", status_code=200,
      responses=documented(404, 409, 413, 415), opt={"role": Role.OPERATOR})  # fmt: skip
async def reschedule(task_id: TaskId, server: Server, who: Principal, data: Start) -> TaskOut:
    about = {"start_time": data.start_time, "delay_seconds": data.delay_seconds}
    return await _act(server, who, "reschedule", task_id, **about)


async def _act(server: Server, who: Principal, action: str, task_id: int, **about: Any) -> TaskOut:
    return shown(await server.aside(partial(acted, server.store, who, action, task_id, **about)))


routes = Router(
    "/api/tasks",
    route_handlers=[
        submit, submit_bulk, act_on_many, list_tasks, get_task, why, events, log_lines, children, cancel, pause,
        resume, retry, resolve, discard, prioritize, reschedule,
    ],
    tags=["tasks"],
)  # fmt: skip
