"""The API over a store, as an ASGI app: the gatekeeper, the console's pages, and the table of routes."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.api import (
    actions,
    audit,
    broker,
    callbacks,
    compensation,
    dead_letters,
    docs,
    figures,
    keys,
    lanes,
    listeners,
    metrics,
    queue,
    schedules,
    session,
    system,
    tasks,
    tenants,
    types,
)
from headgate.api.agents import consuming
from headgate.api.agents import routes as agents
from headgate.api.console import Console, is_page
from headgate.api.door.gatekeeper import Gatekeeper
from headgate.api.live import stream
from headgate.api.routing import Route, Router
from headgate.api.server import Server
from headgate.core.errors import Invalid
from headgate.pack import Pack, find_packs, load_object
from headgate.settings import Settings
from headgate.store.store import Store

MODULES = (
    tasks, actions, dead_letters, callbacks, agents, consuming, stream, listeners, keys, schedules, session, types,
    lanes, tenants, queue, compensation, broker, system, audit, figures, metrics, docs,
)  # fmt: skip
ROUTES: tuple[Route, ...] = tuple(route for module in MODULES for route in module.routes)


class ApiApp:
    """The API over a store, as an ASGI app."""

    def __init__(self, server: Server, inside: ASGIApp) -> None:
        self.server = server
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._inside(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Prepare what is needed, say so, and put everything away at the end."""
        await receive()
        with suppress(Exception):  # a server starts without its store: counting begins later
            await self.server.in_thread(self.server.store.counting.begin)
        await send({"type": "lifespan.startup.complete"})
        with suppress(asyncio.CancelledError):  # so ends a server that is to stop at once
            await receive()
        await self.server.close()
        await send({"type": "lifespan.shutdown.complete"})


def routes_of(packs: Sequence[Pack]) -> tuple[Route, ...]:
    """Every route of a server with these packs."""
    of_packs = (load_object(f"pack {pack.name}", pack.routes) for pack in packs if pack.routes)
    return (*ROUTES, *(route for routes in of_packs for route in routes))


def create_app(store: Store, settings: Settings, routes: Sequence[Route] = ()) -> ApiApp:
    """The API over a store, with that of the packs that are on; `routes` come beside."""
    packs = find_packs(settings.pack_names)
    server = Server(store, settings, packs, (*routes_of(packs), *routes))
    for route in server.routes:
        if is_page({"method": route.method, "path": route.path}):
            raise Invalid(f"{route.method} {route.path}: the console uses this path; put the route below /api/")
    # The gatekeeper is around everything: nothing is answered without it.
    return ApiApp(server, Gatekeeper(Console(Router(server, server.routes), packs), server))
