"""`/api/lanes`, `/api/resources`, `/api/rate-limits`: how much may run at once, and how often."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import ForecastOut, copied, forecast_out
from headgate.core.errors import Invalid, NotFound
from headgate.core.gates import Bucket, CapacityLimit
from headgate.core.limits import MAX_RATE, Rate
from headgate.core.task import check_lane
from headgate.store.catalog.lanes import MAX_CAPACITY

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
    drained: ForecastOut | None


class LanesOut(msgspec.Struct):
    """Every lane; `everything_paused` holds all of them."""

    items: list[LaneOut]
    everything_paused: bool


class LaneIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is to change; `capacity` null lifts the limit."""

    capacity: Capacity | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET


class ResourceOut(msgspec.Struct):
    """Something that only so many tasks may use at once."""

    name: str
    capacity: int


class ResourcesOut(msgspec.Struct):
    items: list[ResourceOut]


class ResourceIn(msgspec.Struct, forbid_unknown_fields=True):
    capacity: Capacity


class RateLimitOut(msgspec.Struct):
    """`rate` starts a second, `burst` at most at once."""

    name: str
    rate: float
    burst: int


class RateLimitsOut(msgspec.Struct):
    items: list[RateLimitOut]


class RateLimitIn(msgspec.Struct, forbid_unknown_fields=True):
    rate: Annotated[float, Meta(gt=0, le=MAX_RATE)]
    burst: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)]


routes = Routes("limits", shared=True)


@routes.get("/api/lanes", Role.READ, "Every lane, and how full it is")
async def list_lanes(server: Server, who: Principal) -> LanesOut:
    return await server.in_thread(lambda: LanesOut(_all_lanes(server), server.store.lanes.everything_paused()))


@routes.put("/api/lanes/{name}", Role.OPERATOR, "Change a lane at once; made if it is not there", errors=(507,))
async def put_lane(name: PathName, data: LaneIn, server: Server, who: Principal) -> LaneOut:
    if data.capacity is UNSET and data.paused is UNSET:
        raise Invalid("say capacity, paused, or both")
    check_lane(name)

    def work() -> LaneOut:
        if not isinstance(data.capacity, UnsetType):
            server.store.lanes.set_capacity(name, data.capacity, actor=who.actor)
        if not isinstance(data.paused, UnsetType):
            change = server.store.lanes.pause if data.paused else server.store.lanes.resume
            change(name, actor=who.actor)
        return next(lane for lane in _all_lanes(server) if lane.name == name)

    return await server.in_thread(work)


def _all_lanes(server: Server) -> list[LaneOut]:
    return [copied(LaneOut, lane, drained=forecast_out(lane.drained)) for lane in server.store.lane_reports.all()]


@routes.get("/api/resources", Role.READ, "Every resource")
async def list_resources(server: Server, who: Principal) -> ResourcesOut:
    return ResourcesOut([_resource_out(resource) for resource in await server.in_thread(server.store.resources.all)])


@routes.get("/api/resources/{name}", Role.READ, "Look a resource up", errors=(404,))
async def get_resource(name: PathName, server: Server, who: Principal) -> ResourceOut:
    for resource in await server.in_thread(server.store.resources.all):
        if resource.name == name:
            return _resource_out(resource)
    raise NotFound(f"no resource {name}")


@routes.put("/api/resources/{name}", Role.OPERATOR, "How many may use a resource at once, from now on", errors=(507,))
async def put_resource(name: PathName, data: ResourceIn, server: Server, who: Principal) -> ResourceOut:
    await server.in_thread(server.store.resources.set, name, data.capacity, actor=who.actor)
    return ResourceOut(name, data.capacity)


def _resource_out(resource: CapacityLimit) -> ResourceOut:
    assert resource.capacity is not None
    return ResourceOut(resource.name, resource.capacity)


@routes.get("/api/rate-limits", Role.READ, "Every rate limit")
async def list_rate_limits(server: Server, who: Principal) -> RateLimitsOut:
    return RateLimitsOut([_rate_limit_out(bucket) for bucket in await server.in_thread(server.store.rate_limits.all)])


@routes.get("/api/rate-limits/{name}", Role.READ, "Look a rate limit up", errors=(404,))
async def get_rate_limit(name: LimitName, server: Server, who: Principal) -> RateLimitOut:
    for bucket in await server.in_thread(server.store.rate_limits.all):
        if bucket.name == name:
            return _rate_limit_out(bucket)
    raise NotFound(f"no rate limit {name}")


@routes.put(
    "/api/rate-limits/{name}",
    Role.OPERATOR,
    "Limit the starts of lane:NAME, type:CODE or key:NAME, from now on",
    errors=(507,),
)
async def put_rate_limit(name: LimitName, data: RateLimitIn, server: Server, who: Principal) -> RateLimitOut:
    await server.in_thread(server.store.rate_limits.set, name, Rate(data.rate, data.burst), actor=who.actor)
    return RateLimitOut(name, data.rate, data.burst)


@routes.delete("/api/rate-limits/{name}", Role.OPERATOR, "Lift a rate limit", errors=(404, 507))
async def lift_rate_limit(name: LimitName, server: Server, who: Principal) -> None:
    await server.in_thread(server.store.rate_limits.set, name, None, actor=who.actor)


def _rate_limit_out(bucket: Bucket) -> RateLimitOut:
    return RateLimitOut(bucket.name, bucket.limit.rate, bucket.limit.burst)
