"""A client for addresses that users name: one request, one answer, and no surprise on the way.

The host is resolved once for each connection; every address it has is judged, and the connection goes to one of the
judged ones. No redirect is followed, nothing is decompressed, no cookie, proxy or password of this machine is used.
"""

import asyncio
import os
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from ipaddress import ip_address
from typing import Protocol

import h11

from headgate.core.errors import HeadgateError, Invalid
from headgate.outward.address import Address, Allowed, HttpTarget, parse_url
from headgate.outward.connections import Connection, ConnectionPool

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 15.0
MOST_READ = 64 * 1024
MOST_LOOKUPS = 32
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_OWN_HEADERS = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te", "upgrade",
    "trailer", "keep-alive", "expect", "proxy-authorization", "proxy-connection",
})  # fmt: skip
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class NoReply(HeadgateError):
    """No answer came, and this is why. Whether the request arrived is not known, unless its target was refused."""

    status = 502
    code = "unsent"


class NotAllowed(NoReply):
    """Nothing was sent: the policy (`Allowed`) does not allow the target.

    `reason` names the address and is for the operator's log; the message is for the user who named the host.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer, whatever its status; header names in lower case, at most 64 KiB of body."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpClient(Protocol):
    """Sends a request and returns the answer; `NoReply` if none came. `OutwardClient`, but for simulations."""

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply: ...


class OutwardClient:
    """Sends requests to public addresses, and to what `allow` lists (see `Allowed`).

    With a `pool`, connections are used again. If the server closes one just then, the request is sent again on a new
    one: that is for requests that may arrive twice.
    """

    def __init__(
        self,
        allow: str | Allowed = "",
        *,
        pool: ConnectionPool | None = None,
        resolve: Resolve | None = None,
        trust: ssl.SSLContext | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._allowed = Allowed.parse(allow) if isinstance(allow, str) else allow
        self._keep_alive = pool is not None
        self._pool = ConnectionPool() if pool is None else pool  # else none is ever fit to be kept
        self._resolve = resolve or Resolver()
        self._given_trust = trust
        self._connect_seconds = connect_seconds
        self._seconds = seconds

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """One request and its answer, a redirect or an error among them; `NoReply` if there was none."""
        try:
            target = parse_url(url)
        except Invalid as error:
            raise NoReply(str(error)) from None
        request = _request(method, target, body, headers, keep_alive=self._keep_alive)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._exchange(target, request, body)
        except TimeoutError:
            raise NoReply(f"no whole answer within {self._seconds:g} s") from None
        except h11.RemoteProtocolError:  # the error quotes the answer, which may come from an internal service
            raise NoReply("the answer is no HTTP/1.1") from None
        except OSError as error:
            raise NoReply(f"the connection broke: {error.strerror or error}") from None

    async def _exchange(self, target: HttpTarget, request: h11.Request, body: bytes) -> Reply:
        if (connection := await self._pool.take(target.origin)) is not None:
            try:
                return await self._exchange_on(connection, request, body)
            except (OSError, h11.RemoteProtocolError):
                if not connection.silent:
                    raise
        return await self._exchange_on(await self._connect(target), request, body)

    async def _exchange_on(self, connection: Connection, request: h11.Request, body: bytes) -> Reply:
        try:
            reply = await _exchange(connection, request, body)
        except BaseException:
            connection.close()  # the caller no longer waits for the answer
            raise
        self._pool.put(connection)
        return reply

    async def allowed_addresses(self, target: HttpTarget) -> list[Address]:
        """Every address of a target's host; `NotAllowed` if nothing may be sent to one of them."""
        if (address := target.address) is not None:
            addresses: list[Address] = [address]
        else:
            try:
                addresses = [ip_address(text) for text in await self._resolve(target.host, target.port)]
            except OSError as error:
                raise NoReply(f"{target.host} has no address: {error.strerror or error}") from None
        if not addresses:
            raise NoReply(f"{target.host} has no address")
        for address in addresses:
            if refusal := self._allowed.refusal(address, target.port, None if target.address else target.host):
                raise NotAllowed(refusal, self._allowed.refusal(address, target.port) or refusal)
        return addresses

    async def _connect(self, target: HttpTarget) -> Connection:
        failure = ""
        try:
            async with asyncio.timeout(self._connect_seconds):
                for address in await self.allowed_addresses(target):
                    try:
                        return await self._open(address, target)
                    except ssl.SSLCertVerificationError as error:
                        failure = f"its certificate is not trusted: {error.verify_message}"
                    except OSError as error:
                        failure = _failure(error, named=target.address is None)
        except TimeoutError:
            failure = f"no connection within {self._connect_seconds:g} s"
        raise NoReply(f"{target.host}:{target.port}: {failure}")

    async def _open(self, address: Address, target: HttpTarget) -> Connection:
        trust, name = (self._trust, target.host) if target.scheme == "https" else (None, None)
        _, connection = await asyncio.get_running_loop().create_connection(
            partial(Connection, target.origin), str(address), target.port,
            flags=socket.AI_NUMERICHOST, ssl=trust, server_hostname=name,
        )  # fmt: skip
        return connection

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return self._given_trust or _default_trust()


@cache
def _default_trust() -> ssl.SSLContext:
    return ssl.create_default_context()  # which reads every certificate of the system


def _failure(error: OSError, *, named: bool) -> str:
    """Why there is no connection; asyncio's own words have the address in them."""
    if named and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno) if error.errno else "no connection"
    return error.strerror or str(error)


def _request(
    method: str, target: HttpTarget, body: bytes, headers: Mapping[str, str], *, keep_alive: bool
) -> h11.Request:
    if method not in METHODS:
        raise NoReply(f"the method is one of {', '.join(sorted(METHODS))}")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise NoReply(f"the header {name!r} does not fit on one line of plain text")
        if name.lower() in _OWN_HEADERS:
            raise NoReply(f"the header {name!r} is not the caller's to set")
    all_headers = {"host": target.authority, "user-agent": "headgate", "accept": "*/*"}
    all_headers |= {name.lower(): value for name, value in headers.items()}
    all_headers |= {"accept-encoding": "identity", "connection": "keep-alive" if keep_alive else "close"}
    all_headers |= {"content-length": str(len(body))}
    return h11.Request(method=method, target=target.path, headers=list(all_headers.items()))


async def _exchange(connection: Connection, request: h11.Request, body: bytes) -> Reply:
    http = connection.http
    sent = [http.send(request), http.send(h11.Data(data=body)), http.send(h11.EndOfMessage())]
    # All of it is here: reading at once cannot lock up.
    connection.transport.write(b"".join(part for part in sent if part))
    answer: h11.Response | None = None
    got, left = bytearray(), MOST_READ
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            if not left:
                break
            data = await connection.read(left)
            left -= len(data)
            http.receive_data(data)
        elif isinstance(event, h11.Response):
            answer = event
        elif isinstance(event, h11.Data):
            got += event.data
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    if answer is None:
        raise NoReply("the connection ended without an answer")
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Reply(answer.status_code, headers, bytes(got))


class Resolver:
    """The system's resolver: one thread per lookup, up to a limit; the threads do not keep a process from ending."""

    def __init__(self, most: int = MOST_LOOKUPS) -> None:
        self._most = most

    @cached_property
    def _free(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self._most)

    async def __call__(self, host: str, port: int) -> list[str]:
        await self._free.acquire()  # given back when the thread ends, which may be long after the caller has left
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def finish(found: list[str] | OSError) -> None:
            self._free.release()
            if answer.cancelled():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def look_up() -> None:
            found = _addresses(host, port)
            with suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(finish, found)

        threading.Thread(target=look_up, name=f"headgate looks up {host}", daemon=True).start()
        return await answer


def _addresses(host: str, port: int) -> list[str] | OSError:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:
        return OSError(f"{host} is not a host name")
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
