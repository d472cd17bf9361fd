"""`/api/requests`: the request queue. A request is a task in one of its lanes; states are in the queue's own words."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headgate.packs import (
    DEFAULT_PRIORITY,
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
from headgate.packs.media.lanes import COOKIE, NAMES, lane_for
from headgate.packs.media.types import SUBSCRIPTION
from headgate.packs.web import (
    INT64,
    EventStream,
    FeedEvent,
    FromCursor,
    Integer,
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
    event_stream,
    live_event,
    queue_stats,
    text_of,
    wait_for_end,
)

SYNC_SECONDS = 30.0
FARTHEST = 2_000  # that pages by number reach back: each reads all those before it again
MOST_LOOKS = 20  # that one request takes: each reads a bounded number of rows
ENDED = FINAL | {State.DEAD, State.NOTIFYING}

RequestType = Literal["expected_total", "parse", "list_fetch", "download"]
Status = Literal["queued", "running", "paused", "done", "failed", "canceled"]
Lane = Literal["requires_cookie", "no_cookie"]
RequestId = Annotated[int, Meta(description="The request's id.", ge=1, le=INT64)]


class RequestIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request to be made. A download always takes the cookie's lane; requests of one subscription run in turn."""

    type: RequestType
    subscription_id: Annotated[int, Meta(ge=0, le=INT64)] | None = None
    url: Annotated[str, Meta(max_length=4096)] | None = None
    requires_cookie: bool | None = None
    ua_profile: Literal["desktop", "mobile", "alt"] | None = None
    priority: Integer = DEFAULT_PRIORITY
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] | None = None

    def new_task(self, tenant_id: int) -> NewTask:
        requires_cookie = self.type == "download" or bool(self.requires_cookie)
        ext = {
            "subscription_id": self.subscription_id,
            "url": self.url,
            "requires_cookie": requires_cookie,
            "ua_profile": "desktop" if requires_cookie else self.ua_profile,
        }
        return NewTask(
            type=self.type,
            ext=text_of(ext),
            tenant_id=tenant_id,
            lane=lane_for(requires_cookie),
            priority=self.priority,
            mutex=None if self.subscription_id is None else f"subscription:{self.subscription_id}",
            max_error_count=None if self.max_attempts is None else self.max_attempts - 1,
        )


class RequestJob(msgspec.Struct, kw_only=True):
    """A request as it stands. `attempts` counts starts; `ua_profile` null: whichever is next."""

    id: int
    type: str
    subscription_id: int | None
    url: str | None
    requires_cookie: bool
    ua_profile: str | None
    status: Status
    priority: int
    attempts: int
    max_attempts: int
    last_error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lane: str
    progress: Any
    result: Any


class RequestPage(msgspec.Struct):
    """Requests, newest first; `next_cursor` is null at the end.

    With a `next_cursor`, `items` may hold fewer than `size`, or none: a filter that fits few requests is read on there.
    """

    items: list[RequestJob]
    next_cursor: int | None
    page: int
    size: int


class RequestEvent(msgspec.Struct, rename={"before": "from", "after": "to"}):
    """Something that happened to a request; states in the queue's words."""

    id: int
    request_id: int
    type: str
    lane: str
    subscription_id: int | None
    kind: str
    before: str | None
    after: str | None
    at: datetime
    actor: str
    detail: str | None
    code: str
    params: dict[str, Any]


def request_out(task: Task, store: Store) -> RequestJob:
    """A task as a request."""
    ext = json.loads(task.ext)
    arguments = ext if isinstance(ext, dict) else {}
    retries = store.types.recent(task.type).retry.retries if task.max_error_count is None else task.max_error_count
    status: Any = status_word(View.REQUESTS, task.status, task.error_count)
    return RequestJob(
        id=task.id,
        type=task.type,
        subscription_id=SUBSCRIPTION.value_in(task.ext),
        url=_text(arguments.get("url")),
        requires_cookie=task.lane == COOKIE,
        ua_profile=_text(arguments.get("ua_profile")),
        status=status,
        priority=task.priority,
        attempts=task.attempt,
        max_attempts=retries + 1,
        last_error=task.error_info,
        created_at=task.create_date,
        started_at=task.started_at,
        finished_at=task.finished_at,
        lane=task.lane,
        progress=None if task.progress is None else json.loads(task.progress),
        result=None if task.result is None else json.loads(task.result),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


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
    sync: Annotated[bool, Meta(description=f"Wait for the end, {SYNC_SECONDS:.0f} s at most.")] = False,
    wait: Wait = None,
) -> Json[RequestJob]:
    """On disk when this answers 201. With `sync=true`, or `wait` seconds, it waits for the end and answers 201 with the
    request as it ended, or 202 if it has not ended by then.
    """
    new = data.new_task(who.allowed_tenant(None))
    [made] = await server.submits.submit([new], who.actor, key)
    task = await server.submits.task(made)
    seconds = SYNC_SECONDS if sync and wait is None else wait
    if seconds is None:
        return Json(request_out(task, server.store), status_code=201)
    task = await wait_for_end(server, task, seconds, ENDED)
    return Json(request_out(task, server.store), status_code=201 if task.status in ENDED else 202)


# Looking


@routes.get("/api/requests", Role.READ, "List requests, newest first")
async def list_requests(
    server: Server,
    who: Principal,
    lane: Lane | None = None,
    status: Status | None = None,
    type: Annotated[str | None, Meta(max_length=255)] = None,
    subscription_id: Annotated[int | None, Meta(ge=0, le=INT64)] = None,
    page: Annotated[int, Meta(description="From 1.", ge=1, le=FARTHEST)] = 1,
    size: Annotated[int, Meta(description="How many at most.", ge=1, le=MOST_PER_PAGE)] = 50,
    cursor: Annotated[
        int | None, Meta(description="`next_cursor` of the page before, in place of `page`.", ge=1, le=INT64)
    ] = None,
) -> RequestPage:
    if page * size > FARTHEST:
        raise Invalid(f"pages reach back {FARTHEST:,} requests; use cursor to go further")
    if cursor is not None and page != 1:
        raise Invalid("give page or cursor, not both")
    wanted = Filter(
        tenant_id=who.tenant_id,
        type=type,
        status=None if status is None else tuple(state for state, _ in states_of_word(View.REQUESTS, status)),
        mutex=None if subscription_id is None else f"subscription:{subscription_id}",
    )
    lanes = NAMES if lane is None else (lane,)

    def work() -> RequestPage:
        filters = [replace(wanted, lane=name) for name in lanes]
        found, next_cursor = _find(server.store, filters, cursor, page * size)
        items = [request_out(task, server.store) for task in found[(page - 1) * size :]]
        return RequestPage(items, next_cursor, page, size)

    return await server.in_thread(work)


def _find(store: Store, filters: list[Filter], cursor: int | None, count: int) -> tuple[list[Task], int | None]:
    """So many tasks, newest first, and the cursor behind them; fewer if as much as one request may read has none."""
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


@routes.get("/api/requests/stats", Role.READ, "How full the lanes are: the same as /api/queue/stats")
async def stats(server: Server, who: Principal) -> QueueStats:
    return await server.in_thread(queue_stats, server)


@routes.get("/api/requests/{request_id}", Role.READ, "Look a request up", errors=(404,))
async def get_request(request_id: RequestId, server: Server, who: Principal) -> RequestJob:
    return await server.in_thread(lambda: request_out(_request(server.store, who, request_id), server.store))


def _request(store: Store, who: Principal, request_id: int) -> Task:
    task = store.tasks.get(request_id, who.tenant_id)
    if task.lane not in NAMES:
        raise NotFound.of("no-task", task_id=request_id)  # as if it were not there: it is none of this queue's
    return task


@routes.get("/api/requests/events", Role.READ, "What happens to requests, live (server-sent events)")
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


@routes.post("/api/requests/{request_id}/pause", Role.OPERATOR, "Hold a request", errors=(404, 409))
@routes.post("/api/requests/{request_id}/resume", Role.OPERATOR, "Let a paused request go on", errors=(404, 409))
async def pause_or_resume(
    request_id: RequestId, action: str, server: Server, who: Principal, data: Nothing | None = None
) -> RequestJob:
    return await _act(server, who, action, request_id)


@routes.post(
    "/api/requests/{request_id}/cancel",
    Role.OPERATOR,
    "End a request early: a queued one at once, a running one by asking it",
    errors=(404, 409),
)
async def cancel(request_id: RequestId, server: Server, who: Principal, data: Reason | None = None) -> RequestJob:
    return await _act(server, who, "cancel", request_id, reason=data.reason if data else "")


@routes.post(
    "/api/requests/{request_id}/prioritize",
    Role.OPERATOR,
    "Put a request first, or give it a priority",
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
