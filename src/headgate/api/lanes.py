"""`/api/lanes`, `/api/resources`, `/api/rate-limits`: how much may run at once, and how often."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import ForecastOut, PauseOut, ShortText, copied, forecast_out, pause_out
from headgate.core.errors import Invalid, NotFound
from headgate.core.limits import MAX_CAPACITY, MAX_RATE, LimitSource, Rate
from headgate.core.pause import EVERYTHING_PAUSED, Pause, PauseKey, PauseScope
from headgate.core.task import check_lane
from headgate.store.catalog.rate_limits import RateLimit
from headgate.store.catalog.resources import Resource

PathName = Annotated[str, Meta(min_length=1, max_length=255)]
LimitName = Annotated[
    str,
    Meta(description="lane:NAME, type:CODE or key:NAME", max_length=255, pattern="^(lane|type|key):(?s:.)"),
]
Capacity = Annotated[int, Meta(ge=0, le=MAX_CAPACITY)]


class LaneOut(msgspec.Struct):
    """A lane. `capacity` null: no limit; `source`: as in `RateLimitOut`. What is blocked or comes later was counted at
    `as_of`, the rest now.

    `drained`: when what runs and waits will likely have ended, without what comes later; null if there is nothing.
    """

    name: str
    capacity: int | None
    source: str
    running: int
    queued: int
    queued_exact: bool
    blocked: int
    later: int
    as_of: datetime | None
    paused: bool
    pause: PauseOut | None
    drained: ForecastOut | None


class LanesOut(msgspec.Struct):
    """Every lane; `everything_paused` holds all of them, by the pause `pause`."""

    items: list[LaneOut]
    everything_paused: bool
    pause: PauseOut | None


class PausesOut(msgspec.Struct):
    """Every pause that holds now."""

    items: list[PauseOut]


class LaneIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is to change; `capacity` null lifts the limit. `reason` and `until` are a pause's."""

    capacity: Capacity | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    reason: ShortText = ""
    until: datetime | None = None


class ResourceOut(msgspec.Struct):
    """Something that only so many tasks may use at once. `source`: as in `RateLimitOut`."""

    name: str
    capacity: int
    source: str


class ResourcesOut(msgspec.Struct):
    items: list[ResourceOut]


class ResourceIn(msgspec.Struct, forbid_unknown_fields=True):
    capacity: Capacity


class RateLimitOut(msgspec.Struct):
    """`rate` starts a second, `burst` at most at once; null: no limit.

    `key:*` is the limit of every key that has none of its own, with a bucket for each tenant; all others are shared by
    all tenants. `source` says who set it: `person`, `settings`, `program`, `pack`, or `default` (nobody). None of them
    replaces what one before it set.
    """

    name: str
    rate: float | None
    burst: int | None
    source: str
    pause: PauseOut | None = None  # of the key


class RateLimitsOut(msgspec.Struct):
    items: list[RateLimitOut]


class RateLimitIn(msgspec.Struct, forbid_unknown_fields=True):
    """Both null: no limit, whatever programs and settings declare."""

    rate: Annotated[float, Meta(gt=0, le=MAX_RATE)] | None
    burst: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)] | None = None


routes = Routes("limits", shared=True)


@routes.get("/api/lanes", Role.READ, "Every lane, and how full it is")
async def list_lanes(server: Server, who: Principal) -> LanesOut:
    def work() -> LanesOut:
        pause = server.store.pauses.by_key().get(EVERYTHING_PAUSED)
        return LanesOut(_all_lanes(server), pause is not None, pause_out(pause))

    return await server.in_thread(work)


@routes.get("/api/pauses", Role.READ, "Everything that is paused")
async def list_pauses(server: Server, who: Principal) -> PausesOut:
    """`POST /api/queue/pause` and `/api/queue/resume` change it."""
    found = await server.in_thread(server.store.pauses.active)
    return PausesOut([copied(PauseOut, pause) for pause in found if _may_see(who, pause)])


def _may_see(who: Principal, pause: Pause) -> bool:
    return who.tenant_id is None or pause.scope is not PauseScope.TENANT or pause.name == str(who.tenant_id)


@routes.put("/api/lanes/{name}", Role.OPERATOR, "Change a lane at once; made if it is not there", errors=(507,))
async def put_lane(name: PathName, data: LaneIn, server: Server, who: Principal) -> LaneOut:
    if data.capacity is UNSET and data.paused is UNSET:
        raise Invalid("say capacity, paused, or both")
    check_lane(name)

    def work() -> LaneOut:
        if not isinstance(data.capacity, UnsetType):
            server.store.lanes.set_capacity(name, data.capacity, actor=who.actor)
        if data.paused is True:
            server.store.lanes.pause(name, reason=data.reason, until=data.until, actor=who.actor)
        elif data.paused is False:
            server.store.lanes.resume(name, actor=who.actor)
        return next(lane for lane in _all_lanes(server) if lane.name == name)

    return await server.in_thread(work)


@routes.delete("/api/lanes/{name}", Role.OPERATOR, "Remove a lane that has no open tasks", errors=(404, 409, 507))
async def remove_lane(name: PathName, server: Server, who: Principal) -> None:
    """Its capacity and its pause go with it. A submit to the lane makes it again."""
    await server.in_thread(server.store.lanes.remove, name, actor=who.actor)


@routes.post("/api/lanes/{name}/reset", Role.OPERATOR, "Let the next declaration set the capacity", errors=(404, 507))
async def reset_lane(name: PathName, server: Server, who: Principal) -> LaneOut:
    """The capacity stays until a program or settings that declare one start."""

    def work() -> LaneOut:
        server.store.lanes.reset(name, actor=who.actor)
        return next(lane for lane in _all_lanes(server) if lane.name == name)

    return await server.in_thread(work)


def _all_lanes(server: Server) -> list[LaneOut]:
    return [
        copied(
            LaneOut,
            lane,
            paused=lane.pause is not None,
            pause=pause_out(lane.pause),
            drained=forecast_out(lane.drained),
        )
        for lane in server.store.lane_reports.all()
    ]


@routes.get("/api/resources", Role.READ, "Every resource")
async def list_resources(server: Server, who: Principal) -> ResourcesOut:
    return ResourcesOut([_resource_out(resource) for resource in await server.in_thread(server.store.resources.all)])


@routes.get("/api/resources/{name}", Role.READ, "Look a resource up", errors=(404,))
async def get_resource(name: PathName, server: Server, who: Principal) -> ResourceOut:
    return await server.in_thread(_resource, server, name)


@routes.put("/api/resources/{name}", Role.OPERATOR, "How many may use a resource at once, from now on", errors=(507,))
async def put_resource(name: PathName, data: ResourceIn, server: Server, who: Principal) -> ResourceOut:
    await server.in_thread(server.store.resources.set, name, data.capacity, actor=who.actor)
    return ResourceOut(name, data.capacity, LimitSource.PERSON)


@routes.delete("/api/resources/{name}", Role.OPERATOR, "Remove a resource that no type uses", errors=(404, 409, 507))
async def remove_resource(name: PathName, server: Server, who: Principal) -> None:
    """A program or settings that declare it make it again when they start."""
    await server.in_thread(server.store.resources.remove, name, actor=who.actor)


@routes.post(
    "/api/resources/{name}/reset", Role.OPERATOR, "Let the next declaration set the capacity", errors=(404, 507)
)
async def reset_resource(name: PathName, server: Server, who: Principal) -> ResourceOut:
    """The capacity stays until a program or settings that declare one start."""
    await server.in_thread(server.store.resources.reset, name, actor=who.actor)
    return await server.in_thread(_resource, server, name)


def _resource(server: Server, name: str) -> ResourceOut:
    for resource in server.store.resources.all():
        if resource.name == name:
            return _resource_out(resource)
    raise NotFound.of("no-resource", resource=name)


def _resource_out(resource: Resource) -> ResourceOut:
    return ResourceOut(resource.name, resource.capacity, resource.source)


@routes.get("/api/rate-limits", Role.READ, "Every rate limit")
async def list_rate_limits(server: Server, who: Principal) -> RateLimitsOut:
    return RateLimitsOut(await server.in_thread(_rate_limits, server))


@routes.get("/api/rate-limits/{name}", Role.READ, "Look a rate limit up", errors=(404,))
async def get_rate_limit(name: LimitName, server: Server, who: Principal) -> RateLimitOut:
    return await server.in_thread(_rate_limit, server, name)


@routes.put(
    "/api/rate-limits/{name}",
    Role.OPERATOR,
    "Limit the starts of lane:NAME, type:CODE or key:NAME, from now on",
    errors=(404, 507),
)
async def put_rate_limit(name: LimitName, data: RateLimitIn, server: Server, who: Principal) -> RateLimitOut:
    """`rate` null lifts the limit; `DELETE` removes it."""
    if (data.rate is None) != (data.burst is None):
        raise Invalid("give rate and burst, or neither for no limit")
    limit = None if data.rate is None or data.burst is None else Rate(data.rate, data.burst)
    await server.in_thread(server.store.rate_limits.set, name, limit, actor=who.actor)
    return await server.in_thread(_rate_limit, server, name)


@routes.delete("/api/rate-limits/{name}", Role.OPERATOR, "Remove a rate limit", errors=(404, 507))
async def remove_rate_limit(name: LimitName, server: Server, who: Principal) -> None:
    """A key has the limit of `key:*` again; `key:*` itself goes back to 10 a second, 20 at once. A program or settings
    that declare the limit set it again when they start."""
    await server.in_thread(server.store.rate_limits.remove, name, actor=who.actor)


@routes.post(
    "/api/rate-limits/{name}/reset", Role.OPERATOR, "Let the next declaration set the rate limit", errors=(404, 507)
)
async def reset_rate_limit(name: LimitName, server: Server, who: Principal) -> RateLimitOut:
    """The limit stays until a program or settings that declare one start."""
    await server.in_thread(server.store.rate_limits.reset, name, actor=who.actor)
    return await server.in_thread(_rate_limit, server, name)


def _rate_limit(server: Server, name: str) -> RateLimitOut:
    for limit in _rate_limits(server):
        if limit.name == name:
            return limit
    raise NotFound.of("no-rate-limit", rate_limit=name)


def _rate_limits(server: Server) -> list[RateLimitOut]:
    pauses = server.store.pauses.by_key()
    return [_rate_limit_out(stored, pauses) for stored in server.store.rate_limits.all()]


def _rate_limit_out(stored: RateLimit, pauses: Mapping[PauseKey, Pause]) -> RateLimitOut:
    rate, burst = (None, None) if stored.limit is None else (stored.limit.rate, stored.limit.burst)
    kind, _, name = stored.name.partition(":")
    pause = pauses.get((PauseScope.KEY, name)) if kind == "key" else None
    return RateLimitOut(stored.name, rate, burst, stored.source, pause_out(pause))
