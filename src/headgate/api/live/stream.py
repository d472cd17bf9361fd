"""`/api/events`: what happens, live, as server-sent events that a client can take up again where it was."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.api.door.principal import Principal, Role
from headgate.api.door.visit import hung_up
from headgate.api.figures import point_out
from headgate.api.live.waiting import KEY_ENDED, LOOK_SECONDS, count_as, still_authorized
from headgate.api.routing import Header, Routes
from headgate.api.server import Server
from headgate.api.shapes import INT64, EventOut, event_out
from headgate.core.errors import HeadgateError
from headgate.core.events import AuditEvent
from headgate.environment import monotonic
from headgate.events.live import BEHIND, BusEnded, FeedEvent, Follower
from headgate.events.task_infos import TaskInfo
from headgate.store.events.feed import Cursor

MEDIA = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 60.0  # a client that reads nothing for this long has gone
RETRY_MILLISECONDS = 1000
MOST_IN_DIGEST = 100
MOST_NAMED = 1000
MOST_LOOKED_AT = 1000  # of everybody's latest events, to find somebody's own
LONGEST_ID = 8000  # as much as a proxy lets through in a header; an event with a longer one has none
ADVICE = {
    BEHIND: "too far behind: come back with Last-Event-ID and nothing is missed",
    "closing": "the server stops: come back with Last-Event-ID and nothing is missed",
    "unauthorized": KEY_ENDED,
}

Wanted = Callable[[FeedEvent], bool]
Shape = Callable[[FeedEvent], msgspec.Struct]
LastEventId = Annotated[
    str | None, Header("Last-Event-ID"), Meta(description="Continue after this event.", max_length=65536)
]
FromCursor = Annotated[str | None, Meta(description="The same as Last-Event-ID.", max_length=65536)]
TextList = Annotated[list[str] | None, Meta(max_length=50)]


Gather = Annotated[
    float | None,
    Meta(description="Send one message (`event: digest`) for all events of this many seconds.", ge=0.1, le=10),
]


class EventStream(Response):
    """Messages as they come. It waits for its client, but not forever, and cleans up however it ends."""

    media_type = MEDIA

    def __init__(self, messages: AsyncGenerator[str], leave: Callable[[], None]) -> None:
        self.status_code = 200
        self.init_headers({"X-Accel-Buffering": "no"})
        self._messages = messages
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(send))
        hanging_up = asyncio.create_task(hung_up(receive))
        try:
            await asyncio.wait([sending, hanging_up], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leave()
            for task in (sending, hanging_up):
                task.cancel()
            await asyncio.wait([sending, hanging_up])
        if not sending.cancelled():
            await sending

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._messages):
            async for message in self._messages:
                try:
                    async with asyncio.timeout(SEND_SECONDS):
                        await send({"type": "http.response.body", "body": message.encode(), "more_body": True})
                except TimeoutError:
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class LiveEvent(EventOut):
    """One line of the audit, with its task's type and lane (null for an act upon the system)."""

    type: str | None
    lane: str | None


class Digest:
    """What happened in a short time: the first events, and only the tenants of the rest."""

    def __init__(self) -> None:
        self._events: list[LiveEvent] = []
        self._left_out = 0
        self._task_ids: dict[int, None] = {}

    def __bool__(self) -> bool:
        return bool(self._events)

    def add(self, event: LiveEvent) -> None:
        if len(self._events) < MOST_IN_DIGEST:
            self._events.append(event)
        else:
            self._left_out += 1
            if event.task_id is not None and len(self._task_ids) < MOST_NAMED:
                self._task_ids[event.task_id] = None

    def to_json(self) -> str:
        return msgspec.json.encode(
            {"events": self._events, "left_out": self._left_out, "task_ids": list(self._task_ids)}
        ).decode()


def live_event(entry: FeedEvent) -> LiveEvent:
    task: TaskInfo | None = entry.task_info
    type_code, lane = (None, None) if task is None else (task.type, task.lane)
    return event_out(LiveEvent, entry.event, type=type_code, lane=lane)


routes = Routes("events")


@routes.get("/api/events", Role.READ, "Stream events (server-sent events)")
async def events(
    server: Server,
    who: Principal,
    last_event_id: LastEventId = None,
    cursor: FromCursor = None,
    type: TextList = None,
    kind: TextList = None,
    lane: TextList = None,
    task_id: Annotated[int | None, Meta(ge=1, le=INT64)] = None,
    gather: Gather = None,
) -> EventStream:
    """Each message is one event; its SSE id is the cursor: send it back as `Last-Event-ID`, or as `cursor`, and
    nothing is skipped or repeated. Without one the stream begins now; `cursor=0` begins with the first. With `gather`
    it is bounded whatever happens: a digest has at most 100 events, and names the tasks of others.
    """

    def wanted(entry: FeedEvent) -> bool:
        task: TaskInfo | None = entry.task_info
        return (
            (type is None or (task is not None and task.type in type))
            and (lane is None or (task is not None and task.lane in lane))
            and (kind is None or entry.event.kind in kind)
            and task_id in (None, entry.event.task_id)
        )

    return await event_stream(server, who, last_event_id or cursor, wanted, live_event, gather)


class LatestEvents(msgspec.Struct):
    """The latest of what happened, newest first."""

    items: list[LiveEvent]


@routes.get("/api/events/latest", Role.READ, "List the latest events")
async def latest(
    server: Server,
    who: Principal,
    limit: Annotated[int, Meta(description="Maximum number of results.", ge=1, le=200)] = 100,
) -> LatestEvents:
    def work() -> list[LiveEvent]:
        end = server.live_events.feed.end()
        page, _ = server.live_events.feed.read(Cursor(max(0, end.high - MOST_LOOKED_AT)), MOST_LOOKED_AT)
        return [live_event(entry) for entry in page if may_see(who, entry.event)][-limit:][::-1]

    return LatestEvents(await server.in_thread(work))


async def event_stream(
    server: Server, who: Principal, cursor: str | None, wanted: Wanted, shape: Shape, gather: float | None = None
) -> EventStream:
    """The events that are wanted and theirs to see, from a cursor on, or from now; gathered for `gather` seconds."""
    count_as("streams")
    follower = await server.live_events.join(cursor)
    messages = _messages(server, who, follower, wanted, shape, gather)
    return EventStream(messages, lambda: server.live_events.leave(follower))


def may_see(who: Principal, event: AuditEvent) -> bool:
    """Whether somebody may see an event: one tenant's key sees that tenant's tasks, and no acts upon the system."""
    return who.tenant_id is None or (event.task_id is not None and event.tenant_id == who.tenant_id)


async def _messages(
    server: Server, who: Principal, follower: Follower, wanted: Wanted, shape: Shape, gather: float | None
) -> AsyncGenerator[str]:
    """Each event by itself; or gathered, with new figures for the charts if the key may see all tenants."""
    digest = None if gather is None else Digest()
    charts = gather is not None and who.tenant_id is None
    figure = await server.latest_point.get(None) if charts else None  # what comes from here on is new
    # The client keeps an id that comes without data, so it can continue from here before the first event.
    yield f"retry: {RETRY_MILLISECONDS}\n{_id(str(follower.place))}\n"
    sent_at = looked_at = began = monotonic()
    try:
        async for entry in follower.entries(gather or LOOK_SECONDS):
            now = monotonic()
            if now - looked_at >= LOOK_SECONDS:
                looked_at = now
                if not await still_authorized(server, who):
                    raise BusEnded("unauthorized")
                point = await server.latest_point.get(None) if charts else None
                if point != figure and point is not None:
                    figure, sent_at = point, now
                    yield f"event: figure\ndata: {msgspec.json.encode(point_out(point)).decode()}\n\n"
            if entry is not None and may_see(who, entry.event) and wanted(entry):
                server.tally.count_event("sse", entry.event.kind)
                if digest is None:
                    sent_at = now
                    yield _message(entry, shape)
                else:
                    began = began if digest else now
                    digest.add(live_event(entry))
            if digest and now - began >= (gather or 0):
                sent_at = now
                yield f"event: digest\n{_id(str(follower.place))}data: {digest.to_json()}\n\n"
                digest = Digest()
            elif now - sent_at >= HEARTBEAT_SECONDS:
                sent_at = now
                yield f": \n{_id(str(follower.place))}\n"
    except (BusEnded, HeadgateError) as error:
        yield _end(error)


def _end(error: Exception) -> str:
    reason = str(error) if isinstance(error, BusEnded) else "unavailable"
    advice = {"reason": reason, "detail": ADVICE.get(reason, "come back with Last-Event-ID")}
    return f"event: end\ndata: {msgspec.json.encode(advice).decode()}\n\n"


def _message(entry: FeedEvent, shape: Shape) -> str:
    """The message of an event, made once for all listeners."""
    known = entry.rendered.get(shape)
    if known is None:
        data = msgspec.json.encode(shape(entry)).decode()
        known = entry.rendered[shape] = f"{_id(str(entry.place))}data: {data}\n\n"
    return known


def _id(place: str) -> str:
    return f"id: {place}\n" if len(place) <= LONGEST_ID else ""
