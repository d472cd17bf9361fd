"""`/api/queue`: the lanes as a whole, those of packs among them."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import ShortText, or_unchanged
from headgate.core.errors import HeadgateError, Invalid
from headgate.core.limits import MAX_CAPACITY
from headgate.core.pause import EVERYTHING_PAUSED, PauseKey, PauseScope, parse_pause
from headgate.core.states import View, status_word
from headgate.environment import utc_now
from headgate.pack import Lane
from headgate.store.store import Store

ALL = "all"
EXACT_UP_TO = 10_000

Scope = Annotated[
    str,
    Meta(
        description="`all`, the name of a lane, or `lane:NAME`, `type:CODE`, `tenant:ID`, `key:NAME` (a rate key).",
        min_length=1,
        max_length=262,
    ),
]
Capacities = Annotated[
    dict[str, Annotated[int, Meta(ge=0, le=MAX_CAPACITY)]],
    Meta(description="Capacity by the name of the lane.", min_length=1),
]
MOST_DIGITS = len(str(MAX_CAPACITY))


class PauseIn(msgspec.Struct, forbid_unknown_fields=True):
    """Why, and until when. `until` null: until someone resumes it. A pause that is set again keeps what is left out."""

    reason: ShortText | UnsetType = UNSET
    until: datetime | UnsetType | None = UNSET


class QueueStats(msgspec.Struct):
    """Every lane by its name. `capacity` null: no limit. What runs is counted now, what is queued at `as_of`.

    A key of one tenant sees the lanes that `/api/lanes` shows it, and its own tenant's tasks in them.
    `counts_by_channel` is what is queued in the lanes of packs, as `queued_CHANNEL`.
    """

    capacity: dict[str, int | None]
    running: dict[str, int]
    queued: dict[str, int]
    paused: dict[str, bool]
    counts_by_channel: dict[str, int]
    as_of: datetime


routes = Routes("queue", shared=True)


@routes.get("/api/queue/stats", Role.READ, "Show the use of lanes")
async def stats(server: Server, who: Principal) -> QueueStats:
    return await server.in_thread(queue_stats, server, who)


def queue_stats(server: Server, who: Principal) -> QueueStats:
    """The lanes as they stand; what is queued is counted anew as long as that is quickly done."""
    store = server.store
    if sum(count.count for count in store.statistics.counts()) <= EXACT_UP_TO:
        with suppress(HeadgateError):  # if it cannot be written: as last counted
            store.statistics.take_sample()
    counts = store.statistics.counts(who.tenant_id)
    names = store.names.visible_to(who.tenant_id)
    lanes = [lane for lane in store.lanes.all() if names.has_lane(lane.name)]
    of_packs, pauses = _lanes_of_packs(server), store.pauses.by_key()
    running = dict.fromkeys([lane.name for lane in lanes] + [lane.name for lane in of_packs], 0)
    queued = dict(running)
    for count in counts:
        status = status_word(View.REQUESTS, count.status)
        if status in ("running", "queued"):
            by_lane = running if status == "running" else queued
            by_lane[count.lane] = by_lane.get(count.lane, 0) + count.count
    return QueueStats(
        capacity={lane.name: lane.capacity for lane in lanes},
        running=running,
        queued=queued,
        paused={ALL: EVERYTHING_PAUSED in pauses} | {lane.name: ("lane", lane.name) in pauses for lane in lanes},
        counts_by_channel={f"queued_{lane.channel}": queued[lane.name] for lane in of_packs if lane.channel},
        as_of=min((count.as_of for count in counts if count.as_of is not None), default=utc_now()),
    )


def _lanes_of_packs(server: Server) -> list[Lane]:
    return [lane for pack in server.packs for lane in pack.lanes]


@routes.post(
    "/api/queue/pause", Role.OPERATOR, "Pause everything, or one lane, type, tenant or rate key", errors=(404, 507)
)
@routes.post("/api/queue/resume", Role.OPERATOR, "Resume what was paused", errors=(404, 507))
async def pause_or_resume(
    action: str, server: Server, who: Principal, scope: Scope = ALL, data: PauseIn | None = None
) -> QueueStats:
    return await server.in_thread(_pause_or_resume, server, who, action, scope, data)


def _pause_or_resume(server: Server, who: Principal, action: str, scope: str, data: PauseIn | None) -> QueueStats:
    """Pause or resume. Resuming everything includes the lanes of packs; other lanes keep their pause."""
    pauses, (kind, name) = server.store.pauses, _what(server.store, scope)
    if action == "pause":
        data = data or PauseIn()
        pauses.set(
            PauseScope(kind), name, reason=or_unchanged(data.reason), until=or_unchanged(data.until), actor=who.actor
        )
    elif data is not None:
        raise Invalid("reason and until are only for a pause")
    else:
        lanes = [lane.name for lane in _lanes_of_packs(server)] if kind == PauseScope.ALL else []
        for key in [(kind, name), *((PauseScope.LANE, lane) for lane in lanes)]:
            pauses.end(PauseScope(key[0]), key[1], actor=who.actor)
    return queue_stats(server, who)


def _what(store: Store, scope: str) -> PauseKey:
    """Scope and name of what is meant: a word that is none of the scopes is a lane's name."""
    if scope in {lane.name for lane in store.lanes.all()}:
        return (PauseScope.LANE, scope)
    if scope.partition(":")[0] not in list(PauseScope):
        _check_lanes(store, [scope])
    kind, name = parse_pause(scope)
    if kind == PauseScope.LANE:
        _check_lanes(store, [name])
    elif kind == PauseScope.TYPE:
        store.types.get(name)
    return (kind, name)


@routes.post(
    "/api/queue/capacity", Role.OPERATOR, "Set the capacity of lanes", errors=(404, 507),
    any_query=Capacities,
)  # fmt: skip
async def capacity(request: Request, server: Server, who: Principal) -> QueueStats:
    """Any lane by its name: `?default=8&reports=2`. At once, without a restart."""
    wanted = _capacities(request.query_params.multi_items())
    return await server.in_thread(_set_capacities, server, who, wanted)


def _capacities(parameters: Iterable[tuple[str, str]]) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for lane, text in parameters:
        if lane in wanted:
            raise Invalid(f"lane {lane} is given twice")
        if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and int(text) <= MAX_CAPACITY):
            raise Invalid(f"{lane}: a capacity must be a whole number from 0 to {MAX_CAPACITY}")
        wanted[lane] = int(text)
    if not wanted:
        raise Invalid("name a lane: ?default=8")
    return wanted


def _set_capacities(server: Server, who: Principal, wanted: dict[str, int]) -> QueueStats:
    _check_lanes(server.store, wanted)
    for lane, most in wanted.items():
        server.store.lanes.set_capacity(lane, most, actor=who.actor)
    return queue_stats(server, who)


def _check_lanes(store: Store, names: Any) -> None:
    for name in names:
        store.lanes.check_known(name)
