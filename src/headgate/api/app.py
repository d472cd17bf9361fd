"""The API over a store, as an ASGI app: the gatekeeper, the console's pages, and the table of routes."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.api import (
    actions,
    callbacks,
    compensation,
    dead_letters,
    docs,
    figures,
    keys,
    lanes,
    metrics,
    queue,
    requests,
    schedules,
    session,
    system,
    tasks,
    types,
)
from headgate.api.agents import routes as agents
from headgate.api.console import Console
from headgate.api.door.gatekeeper import Gatekeeper
from headgate.api.live import stream
from headgate.api.routing import Route, Router
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.settings import Settings
from headgate.store.store import Store

MODULES = (
    tasks, actions, dead_letters, callbacks, agents, requests, stream, keys, schedules, session, types, lanes, queue,
    compensation, system, figures, metrics, docs,
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
        try:
            await queue.prepare(self.server)
        except HeadgateError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        with suppress(asyncio.CancelledError):  # so ends a server that is to stop at once
            await receive()
        await self.server.close()
        await send({"type": "lifespan.shutdown.complete"})


def create_app(store: Store, settings: Settings, routes: Sequence[Route] = ()) -> ApiApp:
    """The API over a store; `routes` come beside its own."""
    table = (*ROUTES, *routes)
    server = Server(store, settings, table)
    # The gatekeeper is around everything: nothing is answered without it.
    return ApiApp(server, Gatekeeper(Console(Router(server, table)), server))
