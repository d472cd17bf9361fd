"""The HTTP API inside a process that does other things too."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import uvicorn

from headgate.api.app import create_app
from headgate.api.door.address import TrustedProxies, is_loopback
from headgate.api.door.connection import Connection
from headgate.api.door.connections import ConnectionLimits, Connections, check_deadlines, most_files
from headgate.api.routing import Route
from headgate.core.errors import Invalid, Refused
from headgate.settings import Settings
from headgate.store.store import Store

GRACE_SECONDS = 5  # for answers under way; long polls and streams are told to end at once
DEADLINE_TICKS = 5  # of uvicorn's, a tenth of a second each: how often deadlines are checked
log = logging.getLogger("headgate")


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the process around it; `answering` is set when it has started. Looks after deadlines."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answering.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % DEADLINE_TICKS == 0:
            check_deadlines(self.server_state.connections)
        return await super().on_tick(counter)


class Api:
    """The API on a socket that listens (`listen_on`); `Refused` on a public address while there is no key."""

    def __init__(
        self, store: Store, settings: Settings, listening: socket.socket, routes: Sequence[Route] = ()
    ) -> None:
        self._socket = listening
        address, port = self._socket.getsockname()[:2]
        if not is_loopback(address) and not store.keys.exist(alive=True):
            self._socket.close()
            raise Refused(
                f"{settings.host} can be reached from other machines, and there is no key: anyone could do anything. "
                "Create a key first (`headgate keys create NAME --role admin`), or listen on 127.0.0.1"
            )
        name = f"[{address}]" if ":" in address else address
        self.address = f"http://{name}:{port}"
        settings = replace(settings, host=address, port=port)
        app = create_app(store, settings, routes)
        limits = ConnectionLimits.of(settings, most_files())
        connections = Connections(limits, TrustedProxies(settings.trusted_proxies))
        self._stopping: asyncio.Event = app.server.stopping
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                http=cast(type[asyncio.Protocol], partial(Connection, connections=connections)),
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # HEADGATE_TRUSTED_PROXIES are asked instead
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self, on_end: Callable[[], None]) -> None:
        """Start answering; `on_end` is called if the server ends before it was stopped."""
        self._task = asyncio.create_task(self._uvicorn.serve([self._socket]), name="headgate api")
        self._task.add_done_callback(lambda _: None if self._uvicorn.should_exit else on_end())
        answering = asyncio.create_task(self._uvicorn.answering.wait())
        await asyncio.wait([self._task, answering], return_when=asyncio.FIRST_COMPLETED)
        answering.cancel()
        log.info("the API and the console are at %s", self.address)

    def stop(self) -> None:
        """Accept nothing more, and finish what is under way; a second call stops at once."""
        self._stopping.set()
        self._uvicorn.force_exit = self._uvicorn.should_exit
        self._uvicorn.should_exit = True

    async def ended(self) -> None:
        """Wait until everything is answered."""
        if not self._uvicorn.should_exit:
            self.stop()
        if self._task is not None:
            await self._task


def listen_on(host: str, port: int) -> socket.socket:
    """A socket that listens there; `Refused` if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise Invalid(f"host {host!r} cannot be resolved: {error}") from None
    server_socket = socket.socket(family, kind, protocol)
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server_socket.bind(address)
        server_socket.listen()
    except OSError as error:
        server_socket.close()
        reason = "already in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise Refused(f"port {port} of {host}: {reason}; choose another with --port or HEADGATE_PORT") from None
    return server_socket
