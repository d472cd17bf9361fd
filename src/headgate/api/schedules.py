"""`/api/periodic-tasks`: schedules, what their ticks did, and when the next ones come."""

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headgate.api.actions import check_timezone
from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import (
    INT64,
    Cursor,
    Integer,
    Limit,
    Name,
    Nothing,
    OnChildFailure,
    ShortText,
    Text,
    copied,
    text_of,
)
from headgate.api.submits import Key
from headgate.core.cron import Cron, Missed, Overlap, preview
from headgate.core.errors import Invalid
from headgate.core.schedule import (
    MAX_URL,
    OPTIONS,
    Endpoint,
    LogMode,
    NewSchedule,
    Result,
    Schedule,
    ScheduleStatus,
)
from headgate.core.task import NewTask
from headgate.environment import monotonic
from headgate.outward.address import checked_target
from headgate.store.db.pages import fitting
from headgate.store.store import Store
from headgate.store.tasks.idempotency import Idempotency

MOST_PREVIEWED = 100
PREVIEW_SECONDS = 0.5  # a preview that takes longer is cut short
ScheduleId = Annotated[int, Meta(description="ID of the periodic task.", ge=1, le=INT64)]
Count = Annotated[int, Meta(description="Number of ticks.", ge=1, le=MOST_PREVIEWED)]
After = Annotated[
    datetime | None,
    Meta(description="RFC 3339; default: now.", extra_json_schema={"format": "date-time"}),
]
Expression = Annotated[str, Meta(description="Cron expression.", min_length=1, max_length=255)]
Zone = Annotated[str, Meta(description="IANA time zone.", min_length=1, max_length=255)]


class HttpShape(msgspec.Struct, forbid_unknown_fields=True):
    """The endpoint that a tick calls, in place of making a task."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL, pattern="^https?://[^/]")]
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] = "POST"


class TaskShape(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What else the tasks are made with; what is left out comes from their type."""

    name: ShortText | None = None
    lane: Name | None = None
    priority: Integer | None = None
    mutex: Name | None = None
    rate_key: Name | None = None
    agent_id: Name | None = None
    unique_key: Name | None = None
    max_error_count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=3_162_240_000)] | None = None
    on_child_failure: OnChildFailure | None = None


class PeriodicIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A schedule. What is left out has its default; a status that is left out is `new`, or stays as it was."""

    type: Name
    cron_expressions: Name
    timezone: Name = "UTC"
    tenant_id: Integer | None = None
    creator: Integer = 0
    status: ScheduleStatus | None = None
    log: LogMode = LogMode.TRANS
    category: ShortText | None = None
    ext: Any = msgspec.field(default_factory=dict)
    missed: Missed = Missed.SKIP
    overlap: Overlap = Overlap.ALLOW
    http: HttpShape | None = None
    task: TaskShape = msgspec.field(default_factory=TaskShape)

    def definition(self, tenant_id: int, server: Server, who: Principal, before: Endpoint | None = None) -> NewSchedule:
        """The schedule; `Invalid` if it is to call where the caller may send nothing. `before` was checked already."""
        options = {name: getattr(self.task, name) for name in OPTIONS}
        task = NewTask(self.type, text_of(self.ext), tenant_id, self.creator, category=self.category, **options)
        http = None
        if self.http is not None:
            by_tenant = who.tenant_id is not None
            http = Endpoint(self.http.url, self.http.method, by_tenant)
            if http.instead_of(before) is http:
                checked_target(http.url, "http.url", server.allowed_to_tenants if by_tenant else server.allowed)
        return NewSchedule(task, self.cron_expressions, self.timezone, self.log, self.missed, self.overlap, http)


class PeriodicOut(msgspec.Struct, kw_only=True):
    """A schedule as it stands. `code` is what a program calls it; `http` null: its ticks make tasks."""

    id: int
    tenant_id: int
    type: str
    creator: int
    cron_expressions: str
    timezone: str
    status: ScheduleStatus
    log: LogMode
    category: str | None
    ext: Any
    missed: Missed
    overlap: Overlap
    http: HttpShape | None
    task: TaskShape
    code: str | None
    next_tick: datetime | None
    create_date: datetime
    update_date: datetime


class PeriodicPage(msgspec.Struct):
    """Schedules, newest first; `next_cursor` is null at the end."""

    items: list[PeriodicOut]
    next_cursor: int | None


class TickLogOut(msgspec.Struct):
    """What became of one tick (null: a person triggered it), and of the task that it made."""

    id: int
    periodic_task_id: int
    tenant_id: int
    result: Result
    error_info: str | None
    tick: datetime | None
    task_id: int | None
    create_date: datetime
    update_date: datetime


class TickLogPage(msgspec.Struct):
    """Lines of the log, newest first; `next_cursor` is null at the end."""

    items: list[TickLogOut]
    next_cursor: int | None


class ScheduleTriggered(msgspec.Struct):
    """What a trigger began: a task, or (null) a call; and the line of the log, if one is kept."""

    periodic_task_id: int
    task_id: int | None
    log_id: int | None


class TickOut(msgspec.Struct):
    """A tick to come, in UTC and as the clock of its zone shows it."""

    at: datetime
    local: datetime


class Preview(msgspec.Struct):
    items: list[TickOut]


routes = Routes("periodic tasks")


@routes.get("/api/periodic-tasks", Role.READ, "List periodic tasks, newest first")
async def list_schedules(
    server: Server,
    who: Principal,
    status: Annotated[ScheduleStatus | None, Meta(description="Filter by status.")] = None,
    type: Text = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PeriodicPage:
    """A page has 2 MiB at most: with a `next_cursor` it may have fewer than `limit`."""
    found = await server.in_thread(
        server.store.schedules.find, who.tenant_id, status=status, type_code=type, cursor=cursor, limit=limit
    )
    page = fitting(found, lambda each: len(each.definition.task.ext.encode()))
    more = len(page) < len(found) or len(found) == limit
    return PeriodicPage([schedule_out(each) for each in page], page[-1].id if more else None)


@routes.post("/api/periodic-tasks", Role.OPERATOR, "Create a periodic task", status=201, errors=(507,))
async def make_schedule(data: PeriodicIn, server: Server, who: Principal, key: Key = None) -> PeriodicOut:
    """It fires while it is online, beginning with its next tick."""
    new = data.definition(who.allowed_tenant(data.tenant_id), server, who)
    once = _idempotency(key, "periodic-tasks", data)
    status = data.status or ScheduleStatus.NEW
    made = await server.in_thread(server.store.schedules.add, new, status=status, actor=who.actor, once=once)
    return schedule_out(made)


@routes.get("/api/periodic-tasks/{periodic_id}", Role.READ, "Get a periodic task", errors=(404,))
async def get_schedule(periodic_id: ScheduleId, server: Server, who: Principal) -> PeriodicOut:
    return schedule_out(await server.in_thread(server.store.schedules.get, periodic_id, who.tenant_id))


@routes.put("/api/periodic-tasks/{periodic_id}", Role.OPERATOR, "Replace a periodic task", errors=(404, 507))
async def put_schedule(periodic_id: ScheduleId, data: PeriodicIn, server: Server, who: Principal) -> PeriodicOut:
    """Takes effect at once. Its ticks continue unless its expression, time zone or status changes. No program's
    registration overwrites it afterwards.
    """

    def work() -> Schedule:
        before = server.store.schedules.get(periodic_id, who.tenant_id)
        tenant_id = before.tenant_id
        if data.tenant_id not in (None, tenant_id):
            raise Invalid("the tenant of a periodic task cannot change")
        return server.store.schedules.put(
            periodic_id,
            data.definition(tenant_id, server, who, before.definition.http),
            status=data.status,
            actor=who.actor,
            tenant_id=who.tenant_id,
        )

    return schedule_out(await server.in_thread(work))


@routes.delete("/api/periodic-tasks/{periodic_id}", Role.OPERATOR, "Remove a periodic task", errors=(404, 507))
async def remove_schedule(periodic_id: ScheduleId, server: Server, who: Principal) -> None:
    """Its tasks continue."""
    await server.in_thread(server.store.schedules.remove, periodic_id, actor=who.actor, tenant_id=who.tenant_id)


@routes.post(
    "/api/periodic-tasks/{periodic_id}/online",
    Role.OPERATOR,
    "Put a periodic task online",
    errors=(404, 507),
)
@routes.post(
    "/api/periodic-tasks/{periodic_id}/offline",
    Role.OPERATOR,
    "Take a periodic task offline",
    errors=(404, 507),
)
async def set_status(
    periodic_id: ScheduleId, action: str, server: Server, who: Principal, data: Nothing | None = None
) -> PeriodicOut:
    change = getattr(server.store.schedules, action)
    return schedule_out(await server.in_thread(change, periodic_id, actor=who.actor, tenant_id=who.tenant_id))


@routes.post(
    "/api/periodic-tasks/{periodic_id}/trigger", Role.OPERATOR, "Trigger a periodic task now", errors=(404, 409, 507)
)
async def trigger(
    periodic_id: ScheduleId, server: Server, who: Principal, data: Nothing | None = None, key: Key = None
) -> ScheduleTriggered:
    """Whatever its status; its ticks are not disturbed."""
    once = _idempotency(key, f"periodic-tasks/{periodic_id}/trigger", None)
    begun = await server.in_thread(
        server.store.schedules.trigger, periodic_id, actor=who.actor, tenant_id=who.tenant_id, once=once
    )
    return ScheduleTriggered(periodic_id, begun.task_id, begun.log_id)


@routes.get(
    "/api/periodic-tasks/{periodic_id}/logs", Role.READ, "List the results of its ticks, newest first", errors=(404,)
)
async def logs(
    periodic_id: ScheduleId, server: Server, who: Principal, cursor: Cursor = None, limit: Limit = 50
) -> TickLogPage:
    found = await server.in_thread(server.store.schedules.logs, periodic_id, who.tenant_id, cursor=cursor, limit=limit)
    return TickLogPage([TickLogOut(*line) for line in found], found[-1].id if len(found) == limit else None)


@routes.get("/api/periodic-tasks/preview", Role.READ, "Preview the ticks of a cron expression")
async def preview_unsaved(
    server: Server, cron_expressions: Expression, timezone: Zone = "UTC", count: Count = 10, after: After = None
) -> Preview:
    """Ticks may lie decades apart: looking for them ends after half a second, with those that were found."""
    return await server.in_thread(lambda: _preview_of(server.store, Cron(cron_expressions, timezone), count, after))


@routes.get(
    "/api/periodic-tasks/{periodic_id}/preview", Role.READ, "Preview the next ticks of a periodic task", errors=(404,)
)
async def preview_ticks(
    periodic_id: ScheduleId, server: Server, who: Principal, count: Count = 10, after: After = None
) -> Preview:
    def work() -> Preview:
        cron = server.store.schedules.get(periodic_id, who.tenant_id).definition.cron
        return _preview_of(server.store, cron, count, after)

    return await server.in_thread(work)


def _preview_of(store: Store, cron: Cron, count: int, after: datetime | None) -> Preview:
    end = monotonic() + PREVIEW_SECONDS
    ticks = preview(cron, check_timezone(after) or store.schedules.now(), count, lambda: monotonic() > end)
    return Preview([TickOut(tick, cron.local_time(tick)) for tick in ticks])


def _idempotency(key: str | None, what: str, data: Any) -> Idempotency | None:
    """A key is for one kind of request: for another it is refused."""
    if key is None:
        return None
    return Idempotency(key, hashlib.sha256(what.encode() + msgspec.json.encode(data)).hexdigest())


def schedule_out(schedule: Schedule) -> PeriodicOut:
    """A schedule for the outside."""
    definition, task, http = schedule.definition, schedule.definition.task, schedule.definition.http
    return PeriodicOut(
        id=schedule.id, tenant_id=schedule.tenant_id, type=task.type, creator=task.creator,
        cron_expressions=definition.cron_expressions, timezone=definition.timezone, status=schedule.status,
        log=definition.log, category=task.category, ext=msgspec.Raw(task.ext.encode()), missed=definition.missed,
        overlap=definition.overlap, http=None if http is None else copied(HttpShape, http),
        task=TaskShape(**definition.options), code=definition.code, next_tick=schedule.next_tick,
        create_date=schedule.create_date, update_date=schedule.update_date,
    )  # fmt: skip
