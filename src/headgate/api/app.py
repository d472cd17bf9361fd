"""The route table: who may come in, what is there, and what an error becomes."""

from functools import partial
from typing import Any

from litestar import Litestar, Request, Router
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.openapi import OpenAPIConfig

import headgate
from headgate.api import agents, figures, keys, lanes, metrics, queue, requests, session, stream, system, tasks, types
from headgate.api.console import Console
from headgate.api.docs import DocsPage
from headgate.api.gatekeeper import ALWAYS_OPEN, MOST_BODY_BYTES, Gatekeeper
from headgate.api.principal import Principal, Role
from headgate.api.problems import of_anything, of_headgate, of_http
from headgate.api.reading import JsonRequest, asks_only_what_is_known
from headgate.api.server import Server
from headgate.core.errors import HeadgateError
from headgate.settings import Settings
from headgate.store.base import Store

ROOMS = (tasks, agents, requests, stream, keys, session)
SHARED_ROOMS = (
    types,
    lanes,
    queue,
    system,
    figures,
    metrics,
)  # what all tenants have in common: none of them may change it
HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


def create_app(store: Store, settings: Settings) -> Litestar:
    """The API over a store."""
    server = Server(store, settings)

    def provide_server() -> Server:
        return server

    def provide_who(request: Request[Any, Any, Any], server: NamedDependency[Server]) -> Principal:
        """After the server: of two at once the framework would make two tasks of their own."""
        return principal(request)

    app = Litestar(
        route_handlers=[
            *(each.routes for each in ROOMS),
            Router("/", route_handlers=[each.routes for each in SHARED_ROOMS], opt={"shared": True}),
        ],
        guards=[admitted],
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
            openapi_router=Router("/api/docs", route_handlers=[], include_in_schema=False, opt={"role": Role.READ}),
            render_plugins=[DocsPage()],
        ),
        request_max_body_size=MOST_BODY_BYTES,
        on_startup=[partial(queue.prepare, server)],
        on_shutdown=[server.close],
        logging_config=None,
    )
    app.state.server = server
    app.asgi_handler = Console(app.asgi_handler)
    app.asgi_handler = Gatekeeper(app.asgi_handler, server)  # around the router too: nothing is answered without it
    app.asgi_handler = metrics.measured(app.asgi_handler, server)
    return app


def principal(connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    found: Principal = connection.scope["state"]["principal"]
    return found


async def admitted(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Whether this may be asked, by whoever asks. Async, or it would be called in a thread."""
    may(connection, handler)
    asks_only_what_is_known(connection, handler)


def may(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Whether who asks may do this at all."""
    if connection.scope["path"] in ALWAYS_OPEN:
        return
    who, needed = principal(connection), handler.opt.get("role", Role.ADMIN)
    if who.role < needed or (who.role is Role.AGENT and needed is not Role.AGENT):  # an agent sees what it holds
        raise PermissionDeniedException(f"this needs the role {needed.word}")
    if who.tenant_id is not None and handler.opt.get("shared") and connection.scope.get("method") not in HARMLESS:
        raise PermissionDeniedException("all tenants share this: it needs a key of no tenant")
