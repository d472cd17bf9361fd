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
    dead_letters,
    figures,
    keys,
    lanes,
    metrics,
    queue,
    requests,
    schedules,
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
from headgate.api.problems import headgate_problem, http_problem, unexpected_problem
from headgate.api.reading import JsonRequest, check_query_parameters
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.settings import Settings
from headgate.store.store import Store

ROUTE_MODULES = (tasks, dead_letters, callbacks, agents, requests, stream, keys, schedules, session)
# What all tenants have in common: none of them may change it.
SHARED_ROUTE_MODULES = (types, lanes, queue, compensation, system, figures, metrics)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class ApiApp:
    """The API over a store, as an ASGI app."""

    def __init__(self, server: Server, inner: ASGIApp) -> None:
        self.server = server
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        scope.setdefault("state", {})["server"] = self.server
        await self._inner(scope, receive, send)

    async def _lifespan(self, receive: Any, send: Any) -> None:
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


def create_app(store: Store, settings: Settings) -> ApiApp:
    """The API over a store."""
    server = Server(store, settings)
    routed = Console(slashes.hide_encoded_slashes(route_table()))
    guarded = Gatekeeper(routed, server)  # around the router too: nothing is answered without it
    return ApiApp(server, metrics.count_requests(guarded, server))


@cache
def route_table() -> Litestar:
    """The routes, for any server: they take a fifth of a second to build, so a process does that once."""
    return Litestar(
        route_handlers=[
            *(module.routes for module in ROUTE_MODULES),
            Router("/", route_handlers=[module.routes for module in SHARED_ROUTE_MODULES], opt={"shared": True}),
        ],
        before_request=check_request,
        request_class=JsonRequest,
        dependencies={
            "server": Provide(provide_server, sync_to_thread=False),
            "who": Provide(provide_who, sync_to_thread=False),
        },
        exception_handlers={
            HeadgateError: headgate_problem,
            HTTPException: http_problem,
            Exception: unexpected_problem,
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
    return principal_of(request)


def principal_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    found: Principal = connection.scope["state"]["principal"]
    return found


async def check_request(request: Request[Any, Any, Any]) -> None:
    """Refuse what the caller may not do, or the route does not know. A guard would copy the route each time."""
    slashes.restore_slashes(request.scope["path_params"])
    check_role(request, request.route_handler)
    check_query_parameters(request, request.route_handler)


def check_role(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse the request if the caller's role or tenant does not allow it."""
    if connection.scope["path"] in ALWAYS_OPEN:
        return
    who, needed = principal_of(connection), handler.opt.get("role", Role.ADMIN)
    if who.role < needed or (who.role is Role.AGENT and needed is not Role.AGENT):  # an agent sees what it holds
        raise PermissionDeniedException(f"this needs the role {needed.word}")
    if who.tenant_id is not None and handler.opt.get("shared") and connection.scope.get("method") not in SAFE_METHODS:
        raise PermissionDeniedException("all tenants share this: it needs a key of no tenant")
