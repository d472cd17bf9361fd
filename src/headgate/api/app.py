"""The route table: who may come in, what is there, and what an error becomes."""

import asyncio
from contextlib import suppress
from functools import cache
from typing import Any

from litestar import Litestar, Request, Router
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.types import ASGIApp

import headgate
from headgate.api import (
    agents,
    callbacks,
    compensation,
    desk,
    figures,
    keys,
    lanes,
    metrics,
    periodic,
    queue,
    requests,
    session,
    slashes,
    stream,
    system,
    tasks,
    types,
)
from headgate.api.console import Console
from headgate.api.docs import POLICY, DocsPage
from headgate.api.gatekeeper import ALWAYS_OPEN, MOST_BODY_BYTES, Gatekeeper
from headgate.api.principal import Principal, Role
from headgate.api.problems import of_anything, of_headgate, of_http
from headgate.api.reading import JsonRequest, asks_only_what_is_known
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.settings import Settings
from headgate.store.base import Store

ROOMS = (tasks, desk, callbacks, agents, requests, stream, keys, periodic, session)
# What all tenants have in common: none of them may change it.
SHARED_ROOMS = (types, lanes, queue, compensation, system, figures, metrics)
HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


class App:
    """The API over a store, as an ASGI app."""

    def __init__(self, server: Server, answer: ASGIApp) -> None:
        self.server = server
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        scope.setdefault("state", {})["server"] = self.server
        await self._answer(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
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


def create_app(store: Store, settings: Settings) -> App:
    """The API over a store."""
    server = Server(store, settings)
    routed = Console(slashes.kept_apart(table()))
    guarded = Gatekeeper(routed, server)  # around the router too: nothing is answered without it
    return App(server, metrics.measured(guarded, server))


@cache
def table() -> Litestar:
    """The routes, for any server: they take a fifth of a second to build, so a process does that once."""
    return Litestar(
        route_handlers=[
            *(each.routes for each in ROOMS),
            Router("/", route_handlers=[each.routes for each in SHARED_ROOMS], opt={"shared": True}),
        ],
        before_request=admitted,
        request_class=JsonRequest,
        dependencies={
            "server": Provide(provide_server, sync_to_thread=False),
            "who": Provide(provide_who, sync_to_thread=False),
        },
        exception_handlers={
            HeadgateError: of_headgate,
            HTTPException: of_http,
            Exception: of_anything,
        },
        openapi_config=OpenAPIConfig(
            title="Headgate",
            version=headgate.__version__,
            use_handler_docstrings=True,
            openapi_router=Router(
                "/api/docs",
                route_handlers=[],
                include_in_schema=False,
                opt={"role": Role.READ},
                response_headers={"Content-Security-Policy": POLICY},
            ),
            render_plugins=[DocsPage()],
        ),
        request_max_body_size=MOST_BODY_BYTES,
        logging_config=None,
    )


def provide_server(request: Request[Any, Any, Any]) -> Server:
    found: Server = request.scope["state"]["server"]
    return found


def provide_who(request: Request[Any, Any, Any], server: NamedDependency[Server]) -> Principal:
    """After the server: of two at once the framework would make two tasks of their own."""
    return principal(request)


def principal(connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    found: Principal = connection.scope["state"]["principal"]
    return found


async def admitted(request: Request[Any, Any, Any]) -> None:
    """Whether this may be asked, by whoever asks. Not as a guard: for that the framework copies the route each time."""
    slashes.put_back(request.scope["path_params"])
    may(request, request.route_handler)
    asks_only_what_is_known(request, request.route_handler)


def may(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Whether who asks may do this at all."""
    if connection.scope["path"] in ALWAYS_OPEN:
        return
    who, needed = principal(connection), handler.opt.get("role", Role.ADMIN)
    if who.role < needed or (who.role is Role.AGENT and needed is not Role.AGENT):  # an agent sees what it holds
        raise PermissionDeniedException(f"this needs the role {needed.word}")
    if who.tenant_id is not None and handler.opt.get("shared") and connection.scope.get("method") not in HARMLESS:
        raise PermissionDeniedException("all tenants share this: it needs a key of no tenant")
