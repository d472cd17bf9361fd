"""`/api/lanes`, `/api/resources`, `/api/rate-limits`: how much may run at once, and how often."""

from datetime import datetime
from typing import Annotated

import msgspec
from litestar import Router, delete, get, put
from litestar.params import PathParameter
from msgspec import UNSET, Meta, UnsetType

from headgate.api.principal import Principal, Role
from headgate.api.problems import documented
from headgate.api.server import Server
from headgate.api.shapes import ForecastOut, forecast_shown
from headgate.core.errors import Invalid, NotFound
from headgate.core.gates import Bucket, Room
from headgate.core.limits import MAX_RATE, Rate
from headgate.core.task import check_lane
from headgate.store.catalog import MAX_CAPACITY
from headgate.store.rooms import Lane, lanes_of

Called = Annotated[str, PathParameter(min_length=1, max_length=255)]
Limited = Annotated[
    str,
    PathParameter(description="lane:NAME, type:CODE or key:NAME", max_length=255, pattern="^(lane|type|key):(?s:.)"),
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


class Lanes(msgspec.Struct):
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


class Resources(msgspec.Struct):
    items: list[ResourceOut]


class ResourceIn(msgspec.Struct, forbid_unknown_fields=True):
    capacity: Capacity


class RateLimitOut(msgspec.Struct):
    """`rate` starts a second, `burst` at most at once."""

    name: str
    rate: float
    burst: int


class RateLimits(msgspec.Struct):
    items: list[RateLimitOut]


class RateLimitIn(msgspec.Struct, forbid_unknown_fields=True):
    rate: Annotated[float, Meta(gt=0, le=MAX_RATE)]
    burst: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)]


@get("/lanes", summary="Every lane, and how full it is", responses=documented(), opt={"role": Role.READ})
async def list_lanes(server: Server, who: Principal) -> Lanes:
    return await server.aside(lambda: Lanes(_lanes(server), server.store.everything_paused()))


@put("/lanes/{name:str}", summary="Change a lane at once; made if it is not there", responses=documented(413, 415, 507),
     opt={"role": Role.OPERATOR})  # fmt: skip
async def put_lane(name: Called, data: LaneIn, server: Server, who: Principal) -> LaneOut:
    if data.capacity is UNSET and data.paused is UNSET:
        raise Invalid("say capacity, paused, or both")
    check_lane(name)

    def work() -> LaneOut:
        if not isinstance(data.capacity, UnsetType):
            server.store.set_capacity(name, data.capacity, actor=who.actor)
        if not isinstance(data.paused, UnsetType):
            change = server.store.pause_lane if data.paused else server.store.resume_lane
            change(name, actor=who.actor)
        return next(lane for lane in _lanes(server) if lane.name == name)

    return await server.aside(work)


def _lanes(server: Server) -> list[LaneOut]:
    return [_lane(lane) for lane in lanes_of(server.store)]


def _lane(lane: Lane) -> LaneOut:
    told = {field: getattr(lane, field) for field in LaneOut.__struct_fields__}
    return LaneOut(**told | {"drained": None if lane.drained is None else forecast_shown(lane.drained)})


@get("/resources", summary="Every resource", responses=documented(), opt={"role": Role.READ})
async def list_resources(server: Server, who: Principal) -> Resources:
    return Resources([_resource(room) for room in await server.aside(server.store.resources)])


@get("/resources/{name:str}", summary="Look a resource up", responses=documented(404), opt={"role": Role.READ})
async def get_resource(name: Called, server: Server, who: Principal) -> ResourceOut:
    for room in await server.aside(server.store.resources):
        if room.name == name:
            return _resource(room)
    raise NotFound(f"no resource {name}")


@put("/resources/{name:str}", summary="How many may use a resource at once, from now on",
     responses=documented(413, 415, 507), opt={"role": Role.OPERATOR})  # fmt: skip
async def put_resource(name: Called, data: ResourceIn, server: Server, who: Principal) -> ResourceOut:
    await server.aside(lambda: server.store.set_resource(name, data.capacity, actor=who.actor))
    return ResourceOut(name, data.capacity)


def _resource(room: Room) -> ResourceOut:
    assert room.capacity is not None
    return ResourceOut(room.name, room.capacity)


@get("/rate-limits", summary="Every rate limit", responses=documented(), opt={"role": Role.READ})
async def list_rate_limits(server: Server, who: Principal) -> RateLimits:
    return RateLimits([_rate_limit(bucket) for bucket in await server.aside(server.store.rate_limits)])


@get("/rate-limits/{name:str}", summary="Look a rate limit up", responses=documented(404), opt={"role": Role.READ})
async def get_rate_limit(name: Limited, server: Server, who: Principal) -> RateLimitOut:
    for bucket in await server.aside(server.store.rate_limits):
        if bucket.name == name:
            return _rate_limit(bucket)
    raise NotFound(f"no rate limit {name}")


@put("/rate-limits/{name:str}", summary="Limit the starts of lane:NAME, type:CODE or key:NAME, from now on",
     responses=documented(413, 415, 507), opt={"role": Role.OPERATOR})  # fmt: skip
async def put_rate_limit(name: Limited, data: RateLimitIn, server: Server, who: Principal) -> RateLimitOut:
    limit = Rate(data.rate, data.burst)
    await server.aside(lambda: server.store.set_rate_limit(name, limit, actor=who.actor))
    return RateLimitOut(name, data.rate, data.burst)


@delete("/rate-limits/{name:str}", summary="Lift a rate limit", responses=documented(404, 507),
        opt={"role": Role.OPERATOR})  # fmt: skip
async def lift_rate_limit(name: Limited, server: Server, who: Principal) -> None:
    await server.aside(lambda: server.store.set_rate_limit(name, None, actor=who.actor))


def _rate_limit(bucket: Bucket) -> RateLimitOut:
    return RateLimitOut(bucket.name, bucket.limit.rate, bucket.limit.burst)


routes = Router(
    "/api",
    route_handlers=[
        list_lanes, put_lane, list_resources, get_resource, put_resource, list_rate_limits, get_rate_limit,
        put_rate_limit, lift_rate_limit,
    ],
    tags=["limits"],
)  # fmt: skip
