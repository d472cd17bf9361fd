"""`/api/lanes`, `/api/resources`, `/api/rate-limits`: how much may run at once, and how often."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import ForecastOut, PauseOut, ShortText, copied, forecast_out, or_unchanged, pause_out
from headgate.core.errors import Invalid, NotFound
from headgate.core.limits import MAX_CAPACITY, MAX_RATE, Rate
from headgate.core.pause import EVERYTHING_PAUSED, Pause, PauseKey, PauseScope
from headgate.core.task import check_lane
from headgate.store.catalog.rate_limits import RateLimit
from headgate.store.reading.facts import MOST_HOLDERS
from headgate.store.reading.resource_use import ResourceUse

PathName = Annotated[str, Meta(min_length=1, max_length=255)]
LimitName = Annotated[
    str,
    Meta(description="lane:NAME, type:CODE or key:NAME", max_length=255, pattern="^(lane|type|key):(?s:.)"),
]
Capacity = Annotated[int, Meta(ge=0, le=MAX_CAPACITY)]


class LaneOut(msgspec.Struct):
    """A lane. `capacity` null: no limit; `source`: as in `RateLimitOut`. What is blocked or comes later was counted at
    `as_of`, the rest now.

    A key of one tenant counts that tenant's tasks; `others` are the tasks of other tenants that run within the
    capacity. `drained`: when what runs and waits will likely have ended, without what comes later; null if there is
    nothing.
    """

    name: str
    capacity: int | None
    source: str
    running: int
    others: int
    queued: int
    queued_exact: bool
    blocked: int
    later: int
    as_of: datetime | None
    paused: bool
    pause: PauseOut | None
    drained: ForecastOut | None


class LanesOut(msgspec.Struct):
    """Every lane; `everything_paused` holds all of them, by the pause `pause`.

    A key of one tenant sees the lanes that its tenant's tasks have used, and those that types, packs, programs and
    settings name; so it is with rate keys and resources.
    """

    items: list[LaneOut]
    everything_paused: bool
    pause: PauseOut | None


class PausesOut(msgspec.Struct):
    """Every pause that holds now."""

    items: list[PauseOut]


class LaneIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is to change; what is left out stays. `capacity` null: no limit. `reason` and `until` belong to a pause."""

    capacity: Capacity | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    reason: ShortText | UnsetType = UNSET
    until: datetime | UnsetType | None = UNSET


class HolderOut(msgspec.Struct):
    """A running task that holds a resource, or waits to. `since` null: its type uses it, for as long as it runs."""

    task_id: int
    since: datetime | None


class ResourceOut(msgspec.Struct):
    """Something that a limited number of tasks may use at once. `source`: as in `RateLimitOut`.

    `running` counts the tasks that have it now: those whose type uses it, and those whose handler holds it for a part
    of its run; `waiting` those whose handler waits to hold it. `holders` and `waiters` name them, the first 50, those
    that wait in the order in which they asked; other tenants' tasks are counted and not named.
    """

    name: str
    capacity: int
    source: str
    running: int
    waiting: int
    holders: list[HolderOut]
    waiters: list[HolderOut]


class ResourcesOut(msgspec.Struct):
    items: list[ResourceOut]


class ResourceIn(msgspec.Struct, forbid_unknown_fields=True):
    capacity: Capacity


class RateLimitOut(msgspec.Struct):
    """`rate` starts a second, `burst` at most at once; null: no limit.

    `key:*` is the limit of every key that has none of its own, with a bucket for each tenant; all others are shared by
    all tenants. `source` says who set it: `person`, `settings`, `program`, `pack`, or `default` (not set). None of them
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


@routes.get("/api/lanes", Role.READ, "List lanes and their use")
async def list_lanes(server: Server, who: Principal) -> LanesOut:
    def work() -> LanesOut:
        pause = server.store.pauses.by_key().get(EVERYTHING_PAUSED)
        return LanesOut(_all_lanes(server, who), pause is not None, pause_out(pause))

    return await server.in_thread(work)


@routes.get("/api/pauses", Role.READ, "List pauses")
async def list_pauses(server: Server, who: Principal) -> PausesOut:
    """`POST /api/queue/pause` and `/api/queue/resume` change it."""

    def work() -> PausesOut:
        names = server.store.names.visible_to(who.tenant_id)
        found = server.store.pauses.active()
        return PausesOut([copied(PauseOut, pause) for pause in found if names.has_pause(pause)])

    return await server.in_thread(work)


@routes.put("/api/lanes/{name}", Role.OPERATOR, "Change a lane, or create it", errors=(507,))
async def put_lane(name: PathName, data: LaneIn, server: Server, who: Principal) -> LaneOut:
    if data.capacity is UNSET and data.paused is UNSET:
        raise Invalid("give capacity, paused, or both")
    check_lane(name)

    def work() -> LaneOut:
        if not isinstance(data.capacity, UnsetType):
            server.store.lanes.set_capacity(name, data.capacity, actor=who.actor)
        if data.paused is True:
            reason, until = or_unchanged(data.reason), or_unchanged(data.until)
            server.store.lanes.pause(name, reason=reason, until=until, actor=who.actor)
        elif data.paused is False:
            server.store.lanes.resume(name, actor=who.actor)
        return next(lane for lane in _all_lanes(server, who) if lane.name == name)

    return await server.in_thread(work)


@routes.delete("/api/lanes/{name}", Role.OPERATOR, "Remove a lane that has no open tasks", errors=(404, 409, 507))
async def remove_lane(name: PathName, server: Server, who: Principal) -> None:
    """Removes its capacity and its pause too. A submit to the lane creates it again."""
    await server.in_thread(server.store.lanes.remove, name, actor=who.actor)


@routes.post(
    "/api/lanes/{name}/reset", Role.OPERATOR, "Let programs and settings set the capacity again", errors=(404, 507)
)
async def reset_lane(name: PathName, server: Server, who: Principal) -> LaneOut:
    """The capacity stays until a program or settings that declare one start."""

    def work() -> LaneOut:
        server.store.lanes.reset(name, actor=who.actor)
        return next(lane for lane in _all_lanes(server, who) if lane.name == name)

    return await server.in_thread(work)


def _all_lanes(server: Server, who: Principal) -> list[LaneOut]:
    return [
        copied(
            LaneOut,
            lane,
            paused=lane.pause is not None,
            pause=pause_out(lane.pause),
            drained=forecast_out(lane.drained),
        )
        for lane in server.store.lane_reports.all(who.tenant_id)
    ]


@routes.get("/api/resources", Role.READ, "List resources")
async def list_resources(server: Server, who: Principal) -> ResourcesOut:
    uses = await server.in_thread(_resources, server, who)
    return ResourcesOut([_resource_out(use, who) for use in uses.values()])


@routes.get("/api/resources/{name}", Role.READ, "Get a resource", errors=(404,))
async def get_resource(name: PathName, server: Server, who: Principal) -> ResourceOut:
    return await server.in_thread(_resource, server, name, who)


@routes.put("/api/resources/{name}", Role.OPERATOR, "Set the capacity of a resource, or create it", errors=(507,))
async def put_resource(name: PathName, data: ResourceIn, server: Server, who: Principal) -> ResourceOut:
    await server.in_thread(server.store.resources.set, name, data.capacity, actor=who.actor)
    return await server.in_thread(_resource, server, name, who)


@routes.delete("/api/resources/{name}", Role.OPERATOR, "Remove a resource that nothing uses", errors=(404, 409, 507))
async def remove_resource(name: PathName, server: Server, who: Principal) -> None:
    """Programs and settings that declare it create it again when they start."""
    await server.in_thread(server.store.resources.remove, name, actor=who.actor)


@routes.post(
    "/api/resources/{name}/reset", Role.OPERATOR, "Let programs and settings set the capacity again", errors=(404, 507)
)
async def reset_resource(name: PathName, server: Server, who: Principal) -> ResourceOut:
    """The capacity stays until a program or settings that declare one start."""
    await server.in_thread(server.store.resources.reset, name, actor=who.actor)
    return await server.in_thread(_resource, server, name, who)


def _resources(server: Server, who: Principal) -> dict[str, ResourceUse]:
    """The resources that somebody may see: a tenant also those that its handlers hold or wait for now."""
    names = server.store.names.visible_to(who.tenant_id)
    uses = server.store.holds.uses()
    return {name: use for name, use in uses.items() if names.has_resource(name) or use.is_used_by(who.tenant_id)}


def _resource(server: Server, name: str, who: Principal) -> ResourceOut:
    if (use := _resources(server, who).get(name)) is None:
        raise NotFound.of("no-resource", resource=name)
    return _resource_out(use, who)


def _resource_out(use: ResourceUse, who: Principal) -> ResourceOut:
    limit = use.limit_for(who.tenant_id)
    since = {hold.task_id: hold.since for hold in use.line}
    waiters = [hold.task_id for hold in use.line if not hold.held and who.tenant_id in (None, hold.tenant_id)]
    return ResourceOut(
        use.resource.name,
        use.resource.capacity,
        use.resource.source,
        limit.running,
        limit.ahead,
        [HolderOut(task_id, since.get(task_id)) for task_id in limit.holders[:MOST_HOLDERS]],
        [HolderOut(task_id, since[task_id]) for task_id in waiters[:MOST_HOLDERS]],
    )


@routes.get("/api/rate-limits", Role.READ, "List rate limits")
async def list_rate_limits(server: Server, who: Principal) -> RateLimitsOut:
    return RateLimitsOut(await server.in_thread(_rate_limits, server, who))


@routes.get("/api/rate-limits/{name}", Role.READ, "Get a rate limit", errors=(404,))
async def get_rate_limit(name: LimitName, server: Server, who: Principal) -> RateLimitOut:
    return await server.in_thread(_rate_limit, server, name, who)


@routes.put(
    "/api/rate-limits/{name}",
    Role.OPERATOR,
    "Set the rate limit of lane:NAME, type:CODE or key:NAME",
    errors=(404, 507),
)
async def put_rate_limit(name: LimitName, data: RateLimitIn, server: Server, who: Principal) -> RateLimitOut:
    """`rate` null lifts the limit; `DELETE` removes it."""
    if (data.rate is None) != (data.burst is None):
        raise Invalid("give rate and burst, or neither for no limit")
    limit = None if data.rate is None or data.burst is None else Rate(data.rate, data.burst)
    await server.in_thread(server.store.rate_limits.set, name, limit, actor=who.actor)
    return await server.in_thread(_rate_limit, server, name, who)


@routes.delete("/api/rate-limits/{name}", Role.OPERATOR, "Remove a rate limit", errors=(404, 507))
async def remove_rate_limit(name: LimitName, server: Server, who: Principal) -> None:
    """A key has the limit of `key:*` again; `key:*` itself goes back to 10 a second, 20 at once. A program or settings
    that declare the limit set it again when they start."""
    await server.in_thread(server.store.rate_limits.remove, name, actor=who.actor)


@routes.post(
    "/api/rate-limits/{name}/reset",
    Role.OPERATOR,
    "Let programs and settings set the rate limit again",
    errors=(404, 507),
)
async def reset_rate_limit(name: LimitName, server: Server, who: Principal) -> RateLimitOut:
    """The limit stays until a program or settings that declare one start."""
    await server.in_thread(server.store.rate_limits.reset, name, actor=who.actor)
    return await server.in_thread(_rate_limit, server, name, who)


def _rate_limit(server: Server, name: str, who: Principal) -> RateLimitOut:
    for limit in _rate_limits(server, who):
        if limit.name == name:
            return limit
    raise NotFound.of("no-rate-limit", rate_limit=name)


def _rate_limits(server: Server, who: Principal) -> list[RateLimitOut]:
    pauses, names = server.store.pauses.by_key(), server.store.names.visible_to(who.tenant_id)
    found = server.store.rate_limits.all()
    return [_rate_limit_out(stored, pauses) for stored in found if names.has_rate_limit(stored.name)]


def _rate_limit_out(stored: RateLimit, pauses: Mapping[PauseKey, Pause]) -> RateLimitOut:
    rate, burst = (None, None) if stored.limit is None else (stored.limit.rate, stored.limit.burst)
    kind, _, name = stored.name.partition(":")
    pause = pauses.get((PauseScope.KEY, name)) if kind == "key" else None
    return RateLimitOut(stored.name, rate, burst, stored.source, pause_out(pause))
