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
from headgate.core.limits import MAX_CAPACITY, MAX_RATE, Rate
from headgate.core.pause import EVERYTHING_PAUSED, Pause, PauseKey, PauseScope
from headgate.core.task import check_lane
from headgate.store.catalog.lanes import BY_PERSON
from headgate.store.catalog.limits import RateLimit, Resource

PathName = Annotated[str, Meta(min_length=1, max_length=255)]
LimitName = Annotated[
    str,
    Meta(description="lane:NAME, type:CODE or key:NAME", max_length=255, pattern="^(lane|type|key):(?s:.)"),
]
Capacity = Annotated[int, Meta(ge=0, le=MAX_CAPACITY)]


class LaneOut(msgspec.Struct):
    """A lane. `capacity` null: no limit. What is blocked or comes later was counted at `as_of`, the rest now.

    `drained`: when what runs and waits will likely have ended, without what comes later; null if there is nothing.
    """

    name: str
    capacity: int | None
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
    all tenants. `source` says who set it: `person`, whose edit stands, `settings`, `program` or `pack`, or `default`.
    """

    name: str
    rate: float | None
    burst: int | None
    source: str
    pause: PauseOut | None = None  # of the key


class RateLimitsOut(msgspec.Struct):
    items: list[RateLimitOut]


class RateLimitIn(msgspec.Struct, forbid_unknown_fields=True):
    rate: Annotated[float, Meta(gt=0, le=MAX_RATE)]
    burst: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)]


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
    for resource in await server.in_thread(server.store.resources.all):
        if resource.name == name:
            return _resource_out(resource)
    raise NotFound.of("no-resource", resource=name)


@routes.put("/api/resources/{name}", Role.OPERATOR, "How many may use a resource at once, from now on", errors=(507,))
async def put_resource(name: PathName, data: ResourceIn, server: Server, who: Principal) -> ResourceOut:
    await server.in_thread(server.store.resources.set, name, data.capacity, actor=who.actor)
    return ResourceOut(name, data.capacity, BY_PERSON)


def _resource_out(resource: Resource) -> ResourceOut:
    return ResourceOut(resource.name, resource.capacity, resource.source)


@routes.get("/api/rate-limits", Role.READ, "Every rate limit")
async def list_rate_limits(server: Server, who: Principal) -> RateLimitsOut:
    return RateLimitsOut(await server.in_thread(_rate_limits, server))


@routes.get("/api/rate-limits/{name}", Role.READ, "Look a rate limit up", errors=(404,))
async def get_rate_limit(name: LimitName, server: Server, who: Principal) -> RateLimitOut:
    for limit in await server.in_thread(_rate_limits, server):
        if limit.name == name:
            return limit
    raise NotFound.of("no-rate-limit", rate_limit=name)


@routes.put(
    "/api/rate-limits/{name}",
    Role.OPERATOR,
    "Limit the starts of lane:NAME, type:CODE or key:NAME, from now on",
    errors=(507,),
)
async def put_rate_limit(name: LimitName, data: RateLimitIn, server: Server, who: Principal) -> RateLimitOut:
    await server.in_thread(server.store.rate_limits.set, name, Rate(data.rate, data.burst), actor=who.actor)
    return RateLimitOut(name, data.rate, data.burst, BY_PERSON)


@routes.delete("/api/rate-limits/{name}", Role.OPERATOR, "Have no rate limit from now on", errors=(404, 507))
async def lift_rate_limit(name: LimitName, server: Server, who: Principal) -> None:
    await server.in_thread(server.store.rate_limits.set, name, None, actor=who.actor)


def _rate_limits(server: Server) -> list[RateLimitOut]:
    pauses = server.store.pauses.by_key()
    return [_rate_limit_out(stored, pauses) for stored in server.store.rate_limits.all()]


def _rate_limit_out(stored: RateLimit, pauses: Mapping[PauseKey, Pause]) -> RateLimitOut:
    rate, burst = (None, None) if stored.limit is None else (stored.limit.rate, stored.limit.burst)
    kind, _, name = stored.name.partition(":")
    pause = pauses.get((PauseScope.KEY, name)) if kind == "key" else None
    return RateLimitOut(stored.name, rate, burst, stored.source, pause_out(pause))
