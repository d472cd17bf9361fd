"""`/api/requests`: the request queue. A request is a task in one of its lanes; states are in the queue's own words."""

from typing import Annotated, Any

from msgspec import Meta

from headgate.packs import (
    FINAL,
    MOST_PER_PAGE,
    Filter,
    Invalid,
    NewTask,
    NotFound,
    State,
    Store,
    Task,
    View,
    states_of_word,
    status_word,
)
from headgate.packs.media.lanes import NAMES
from headgate.packs.media.request_shapes import (
    BusyList,
    Lane,
    RequestEvent,
    RequestId,
    RequestIn,
    RequestJob,
    RequestPage,
    Status,
    busy_out,
    request_out,
)
from headgate.packs.media.subscription_tasks import SubscriptionTasks
from headgate.packs.web import (
    INT64,
    EventStream,
    FeedEvent,
    FromCursor,
    Json,
    Key,
    LastEventId,
    Nothing,
    Principal,
    Priority,
    QueueStats,
    Reason,
    Role,
    Routes,
    Server,
    TaskInfo,
    Wait,
    count_as,
    event_stream,
    live_event,
    queue_stats,
    wait_for_end,
)

SYNC_SECONDS = 30.0
FARTHEST = 2_000  # that pages by number reach back: each reads all those before it again
MOST_LOOKS = 20  # that one request takes: each reads a bounded number of rows
ENDED = FINAL | {State.DEAD, State.NOTIFYING}


# Making

routes = Routes("requests")


@routes.post(
    "/api/requests/enqueue",
    Role.SUBMIT,
    "Enqueue a request",
    status=201,
    errors=(404, 409, 507),
    also={202: "It has not ended when the time is up"},
)
async def enqueue(
    data: RequestIn,
    server: Server,
    who: Principal,
    key: Key = None,
    sync: Annotated[bool, Meta(description=f"Wait up to {SYNC_SECONDS:.0f} s for the end.")] = False,
    wait: Wait = None,
) -> Json[RequestJob]:
    """On disk when this answers 201. With `sync=true`, or `wait` seconds, it waits for the end and answers 201 with the
    request as it ended, or 202 if it has not ended by then.
    """
    new = data.new_task(who.allowed_tenant(None))
    return await submit_request(server, who, new, key, seconds_to_wait(sync, wait))


def seconds_to_wait(sync: bool, wait: float | None) -> float | None:
    """How long a caller waits for the end of a request; None: not at all."""
    return SYNC_SECONDS if sync and wait is None else wait


async def submit_request(
    server: Server, who: Principal, new: NewTask, key: str | None = None, seconds: float | None = None
) -> Json[RequestJob]:
    """Make a request, or find the open one that it would be the second of; with `seconds`, wait for its end."""
    if seconds is not None:
        count_as("polls")
    [made] = await server.submits.submit([new], who.actor, key)
    task = await server.submits.task(made)
    if seconds is not None:
        task = await wait_for_end(server, task, seconds, ENDED)
    request = request_out(task, server.store, created=made.done.created)
    return Json(request, status_code=201 if seconds is None or task.status in ENDED else 202)


# Looking


@routes.get("/api/requests", Role.READ, "List requests, newest first")
async def list_requests(
    server: Server,
    who: Principal,
    lane: Lane | None = None,
    status: Status | None = None,
    type: Annotated[str | None, Meta(max_length=255)] = None,
    subscription_id: Annotated[int | None, Meta(ge=0, le=INT64)] = None,
    page: Annotated[int, Meta(description="Page number, from 1.", ge=1, le=FARTHEST)] = 1,
    size: Annotated[int, Meta(description="Maximum number of results.", ge=1, le=MOST_PER_PAGE)] = 50,
    cursor: Annotated[
        int | None, Meta(description="`next_cursor` of the previous page, instead of `page`.", ge=1, le=INT64)
    ] = None,
) -> RequestPage:
    if page * size > FARTHEST:
        raise Invalid(f"pages reach back {FARTHEST:,} requests; use cursor to go further")
    if cursor is not None and page != 1:
        raise Invalid("give page or cursor, not both")
    states = None if status is None else states_of(status)
    lanes = NAMES if lane is None else (lane,)

    def work() -> RequestPage:
        if subscription_id is None:
            filters = [Filter(tenant_id=who.tenant_id, type=type, status=states, lane=name) for name in lanes]
            found, next_cursor = _find(server.store, filters, cursor, page * size)
            ids = [task.id for task in found[(page - 1) * size :]]
            found, next_cursor = _page_of(server.store, ids, who.tenant_id, next_cursor)
        else:
            found, next_cursor = requests_of(
                server.store, subscription_id, who.tenant_id, skip=(page - 1) * size, lanes=lanes, states=states,
                type_code=type, cursor=cursor, limit=page * size,
            )  # fmt: skip
        return RequestPage([request_out(task, server.store) for task in found], next_cursor, page, size)

    return await server.in_thread(work)


def states_of(status: str) -> tuple[State, ...]:
    """The states that a word of the queue stands for."""
    return tuple(state for state, _ in states_of_word(View.REQUESTS, status))


def requests_of(
    store: Store, subscription_id: int, tenant_id: int | None, *, skip: int = 0, **wanted: Any
) -> tuple[list[Task], int | None]:
    """The requests of a subscription, newest first, and the cursor behind them: as many as a page holds."""
    page = SubscriptionTasks(store.database).find(subscription_id, tenant_id, **wanted)
    return _page_of(store, page.ids[skip:], tenant_id, page.next_cursor)


def _page_of(
    store: Store, ids: list[int], tenant_id: int | None, next_cursor: int | None
) -> tuple[list[Task], int | None]:
    """The tasks that fit into a page, and the cursor behind them."""
    tasks = store.tasks.get_page(ids, tenant_id)
    is_cut = bool(tasks) and tasks[-1].id != ids[-1]
    return tasks, tasks[-1].id if is_cut else next_cursor


def _find(store: Store, filters: list[Filter], cursor: int | None, count: int) -> tuple[list[Task], int | None]:
    """A page of tasks, newest first, and the cursor behind them; fewer if one request has read enough."""
    found: list[Task] = []
    for _ in range(MOST_LOOKS):
        tasks, cursor = _look(store, filters, cursor, min(count - len(found), MOST_PER_PAGE))
        found += tasks
        if cursor is None or len(found) == count:
            break
    return found, cursor


def _look(store: Store, filters: list[Filter], cursor: int | None, limit: int) -> tuple[list[Task], int | None]:
    """A page of what any of the filters finds: down to where the shortest of their pages ends."""
    pages = [store.tasks.find(each, cursor=cursor, limit=limit) for each in filters]
    end = max(page.next_cursor or 0 for page in pages)
    tasks = sorted((task for page in pages for task in page.items if task.id >= end), key=lambda task: -task.id)
    if len(tasks) > limit:
        return tasks[:limit], tasks[limit - 1].id
    return tasks, end or None


@routes.get("/api/requests/busy", Role.READ, "Show the open requests of subscriptions")
async def busy(
    server: Server,
    who: Principal,
    subscription_id: Annotated[list[Annotated[int, Meta(ge=0, le=INT64)]], Meta(min_length=1, max_length=200)],
) -> BusyList:
    """Those of which nothing is open are left out."""
    tasks = SubscriptionTasks(server.store.database)
    found = await server.in_thread(tasks.open_requests, subscription_id, who.tenant_id)
    return BusyList([out for (_, each), requests in found.items() if (out := busy_out(each, requests))])


@routes.get("/api/requests/stats", Role.READ, "Show the use of lanes, as /api/queue/stats does")
async def stats(server: Server, who: Principal) -> QueueStats:
    return await server.in_thread(queue_stats, server, who)


@routes.get("/api/requests/{request_id}", Role.READ, "Get a request", errors=(404,))
async def get_request(request_id: RequestId, server: Server, who: Principal) -> RequestJob:
    return await server.in_thread(lambda: request_out(_request(server.store, who, request_id), server.store))


def _request(store: Store, who: Principal, request_id: int) -> Task:
    task = store.tasks.get(request_id, who.tenant_id)
    if task.lane not in NAMES:
        raise NotFound.of("no-task", task_id=request_id)  # as if it were not there: it is none of this queue's
    return task


@routes.get("/api/requests/events", Role.READ, "Stream events of requests (server-sent events)")
async def events(
    server: Server,
    who: Principal,
    last_event_id: LastEventId = None,
    cursor: FromCursor = None,
    lane: Lane | None = None,
    type: Annotated[list[str] | None, Meta(max_length=50)] = None,
    subscription_id: Annotated[int | None, Meta(ge=0, le=INT64)] = None,
    request_id: Annotated[int | None, Meta(ge=1, le=INT64)] = None,
) -> EventStream:
    """As /api/events, of the request queue's lanes alone and in its words."""

    def wanted(entry: FeedEvent) -> bool:
        task: TaskInfo | None = entry.task_info
        return (
            task is not None
            and task.lane in (NAMES if lane is None else (lane,))
            and (type is None or task.type in type)
            and subscription_id in (None, task.fields["subscription_id"])
            and request_id in (None, entry.event.task_id)
        )

    return await event_stream(server, who, last_event_id or cursor, wanted, request_event)


def request_event(entry: FeedEvent) -> RequestEvent:
    event, task = entry.event, entry.task_info
    assert task is not None  # of no other event is one made
    live = live_event(entry)
    return RequestEvent(
        event.id, event.task_id or 0, task.type, task.lane, task.fields["subscription_id"], event.kind,
        _request_status(event.before), _request_status(event.after), event.at, event.actor, live.detail,
        live.code, live.params,
    )  # fmt: skip


def _request_status(state: str | None) -> str | None:
    return None if state is None else status_word(View.REQUESTS, State(state))


# Acting


@routes.post("/api/requests/{request_id}/pause", Role.OPERATOR, "Pause a request", errors=(404, 409))
@routes.post("/api/requests/{request_id}/resume", Role.OPERATOR, "Resume a paused request", errors=(404, 409))
async def pause_or_resume(
    request_id: RequestId, action: str, server: Server, who: Principal, data: Nothing | None = None
) -> RequestJob:
    return await _act(server, who, action, request_id)


@routes.post(
    "/api/requests/{request_id}/cancel",
    Role.OPERATOR,
    "Cancel a request: a queued one ends at once, a running one is asked to stop",
    errors=(404, 409),
)
async def cancel(request_id: RequestId, server: Server, who: Principal, data: Reason | None = None) -> RequestJob:
    return await _act(server, who, "cancel", request_id, reason=data.reason if data else "")


@routes.post(
    "/api/requests/{request_id}/prioritize",
    Role.OPERATOR,
    "Move a request to the front, or set its priority",
    errors=(404, 409),
)
async def prioritize(request_id: RequestId, server: Server, who: Principal, data: Priority | None = None) -> RequestJob:
    return await _act(server, who, "prioritize", request_id, priority=data.priority if data else None)


async def _act(server: Server, who: Principal, action: str, request_id: int, **parameters: Any) -> RequestJob:
    def work() -> RequestJob:
        _request(server.store, who, request_id)
        act = getattr(server.store.tasks, action)
        task = act(request_id, actor=who.actor, tenant_id=who.tenant_id, **parameters)
        return request_out(task, server.store)

    return await server.in_thread(work)
