"""`/api/series`, `/api/counts`: what happened lately, of all tenants together, and how it stands."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import copied
from headgate.store.reading.series import COARSE, RETENTION, Point

HOUR_SECONDS = 3600.0


class PointOut(msgspec.Struct, kw_only=True):
    """What happened from `at` on, for one step, and the levels at that time (null: not sampled). Times are in seconds.

    A wait is from when a task was due to its start; `oldest` is the age of the oldest task that is queued or blocked.
    """

    at: datetime
    submitted: int
    started: int
    succeeded: int
    failed: int
    retried: int
    cancelled: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None
    waiting: int | None
    later: int | None
    running: int | None
    dead: int | None
    oldest: float | None


class SeriesOut(msgspec.Struct):
    """Points, oldest first, each `step` seconds long."""

    step: int
    items: list[PointOut]


class CountOut(msgspec.Struct):
    """How many tasks of a lane, of the key's tenant if it has one, are in a state. `as_of` null: now."""

    lane: str
    status: str
    count: int
    oldest: datetime | None
    as_of: datetime | None


class CountsOut(msgspec.Struct):
    items: list[CountOut]


def point_out(point: Point) -> PointOut:
    return copied(PointOut, point)


routes = Routes("figures", shared=True)


@routes.get("/api/series", Role.READ, "Get recent figures for charts")
async def series(
    server: Server,
    who: Principal,
    seconds: Annotated[
        float,
        Meta(
            description="Seconds to look back. Points are 10 s apart up to 2 h, else 5 min.", gt=0, le=RETENTION[COARSE]
        ),
    ] = HOUR_SECONDS,
) -> SeriesOut:
    who.require_all_tenants()
    step, points = await server.in_thread(server.store.series.since, seconds)
    return SeriesOut(step, [point_out(point) for point in points])


@routes.get("/api/counts", Role.READ, "Count tasks by state")
async def counts(server: Server, who: Principal) -> CountsOut:
    found = await server.in_thread(server.store.statistics.counts, who.tenant_id)
    return CountsOut([copied(CountOut, each, status=each.status.value) for each in found])
