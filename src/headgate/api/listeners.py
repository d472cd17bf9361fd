"""`/api/listeners`: who is told of events across restarts, and how far behind each is."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import copied
from headgate.environment import utc_now

ListenerName = Annotated[str, Meta(description="Name of the listener.", min_length=1, max_length=255)]


class ListenerOut(msgspec.Struct):
    """A listener: what it handled, how often it failed, which events it skipped, and how far behind it is.

    `holder` is the process that calls it now. One that is not `in_use` was not used for 7 days: what it has not handled
    may be removed.
    """

    name: str
    handled: int
    failed: int
    skipped: int
    tries: int
    holder: str | None
    used_at: datetime
    in_use: bool
    waiting_since: datetime | None
    lag_seconds: float


class ListenersOut(msgspec.Struct):
    items: list[ListenerOut]


routes = Routes("events", shared=True)


@routes.get("/api/listeners", Role.READ, "List listeners of events")
async def list_listeners(server: Server, who: Principal) -> ListenersOut:
    who.require_all_tenants()
    found = await server.in_thread(server.store.subscriptions.all)
    now = utc_now()
    return ListenersOut([copied(ListenerOut, each, lag_seconds=each.lag_seconds(now)) for each in found])


@routes.delete("/api/listeners/{name}", Role.ADMIN, "Remove a listener", errors=(404, 507))
async def remove_listener(name: ListenerName, server: Server, who: Principal) -> None:
    """Events that it has not handled are no longer kept. A process that still uses it starts over with new events."""
    await server.in_thread(server.store.subscriptions.remove, name, actor=who.actor)
