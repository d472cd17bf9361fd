"""`/api/compensation`: the search for starts that agents never confirmed."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.duties.compensate import trigger


class CompensationOut(msgspec.Struct, kw_only=True):
    """How the polling stands, whichever processes do it; `next_poll` null: none does yet.

    `queue_size` counts what waits in the start queues of agents, of the key's tenant if it has one; 10,001 stands for
    anything above 10,000.
    """

    interval_seconds: float
    multiplier: int
    queue_size: int
    skips: int
    last_poll: datetime | None
    next_poll: datetime | None
    next_poll_in_seconds: float | None
    threshold_seconds: float
    start_interval_seconds: float


class CompensationTriggered(CompensationOut, kw_only=True):
    """How it stands behind the poll, and how many lost starts that found."""

    found: int


routes = Routes("agents", shared=True)


@routes.get("/api/compensation", Role.READ, "Show the search for lost starts")
async def show(server: Server, who: Principal) -> CompensationOut:
    return CompensationOut(**await server.in_thread(_status, server, who.tenant_id))


@routes.post("/api/compensation/trigger", Role.OPERATOR, "Search for lost starts now", errors=(507,))
async def trigger_now(server: Server, who: Principal) -> CompensationTriggered:
    """Polls before it answers, even if tasks wait in the start queue, and resets the interval."""

    def work() -> CompensationTriggered:
        found = trigger(server.store, server.settings.compensation, who.actor)
        return CompensationTriggered(**_status(server, who.tenant_id), found=found)

    return await server.in_thread(work)


def _status(server: Server, tenant_id: int | None) -> dict[str, Any]:
    figures = server.settings.compensation
    status = server.store.compensation.status(figures, tenant_id)
    settings = {"threshold_seconds": figures.threshold, "start_interval_seconds": figures.start_interval}
    return asdict(status) | settings
