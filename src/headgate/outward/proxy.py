"""A proxy for another program that asks addresses which users name: every connection of it is judged on its way.

It listens on the loopback, for as long as that program runs, and wants a password that only that program is told.
"""

import asyncio
import re
import socket
import struct
import threading
from base64 import b64encode
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from hmac import compare_digest
from secrets import token_hex
from typing import Any, TypeAlias

from headgate.core.errors import Invalid
from headgate.outward.address import Allowed, HttpTarget, parse_url
from headgate.outward.client import CONNECT_SECONDS, NoReply, NotAllowed, OutwardClient, Resolve

MOST_HEAD = 64 * 1024
HEAD_SECONDS = 10.0
ANSWER_SECONDS = 60.0  # until the head of an answer is there
BEGIN_SECONDS = 30.0
MOST_CONNECTIONS = 64  # at once; more of them wait
MOST_KEPT = 10  # of refusals, and of failures
CHUNK = 64 * 1024
USER = "headgate"
_ABSOLUTE = re.compile(r"(http://[^/?#]*)([^#]*)", re.ASCII | re.IGNORECASE)
_HOP_BY_HOP = ("connection", "keep-alive", "proxy-")  # what names of headers for one connection begin with
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_STATUS = re.compile(r"HTTP/1\.[0-9] +([0-9]{3})(?: |$)", re.ASCII)
_FOLD = re.compile(r"\r?\n[ \t]+")  # a header that goes on in the next line
_NO_HEAD = (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)

_Headers: TypeAlias = list[tuple[str, str]]  # the name in lower case, and the whole line


class _Refused(Exception):
    """What the client is told instead of an answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class OutwardProxy:
    """Takes CONNECT, and requests for `http:` addresses. Names are looked up here, and the connection goes to one of
    the judged addresses, so that redirects and changing answers of name servers lead nowhere else. A connection for
    `http:` carries one request, as the next may be for another site.

    `refusals` says what was not allowed (the first of it), `failures` which connections came to nothing (the last).
    """

    def __init__(self, allow: Allowed, resolve: Resolve | None = None) -> None:
        self.refusals: list[str] = []
        self.failures: list[str] = []
        self.password = token_hex(16)
        self.url = ""
        self._judge = OutwardClient(allow, resolve=resolve)
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)
        self._over = asyncio.Event()

    async def serve(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        """Serve until `end`."""
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0, limit=MOST_HEAD)
        self.url = f"http://{USER}:{self.password}@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            begun.set_result(asyncio.get_running_loop())
            await self._over.wait()
        finally:
            server.close()

    def end(self) -> None:
        self._over.set()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._room:
            try:
                await self._answer(reader, writer)
            except _Refused as refused:
                reason = str(refused).encode("ascii", "replace").decode()
                writer.write(
                    f"HTTP/1.1 {refused.status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
                )
            except OSError:
                _reset(writer)
            finally:
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, url, version, headers = await self._head(reader)
        target, path = _target(method, url)
        length = 0 if method == "CONNECT" else _body_length(headers)
        far_reader, far_writer = await self._connect(target)
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await _until_one_ends(_copy(reader, far_writer), _copy(far_reader, writer))
            else:
                far_writer.write(_head_of_one(f"{method} {path} {version}", headers))
                await _until_one_ends(
                    _copy_body(reader, far_writer, length), self._copy_answer(far_reader, writer, target)
                )
        finally:
            far_writer.close()

    async def _head(self, reader: asyncio.StreamReader) -> tuple[str, str, str, _Headers]:
        """The request line and the headers; refused without the password."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                first, headers = await _read_head(reader)
        except _NO_HEAD:
            raise _Refused(400, "no whole request") from None
        wanted = "Basic " + b64encode(f"{USER}:{self.password}".encode()).decode()
        if not any(compare_digest(each.encode(), wanted.encode()) for each in _values(headers, "proxy-authorization")):
            raise _Refused(407, "the proxy wants its password")
        words = first.split(" ")
        if len(words) != 3:
            raise _Refused(400, "not an HTTP request")
        return words[0], words[1], words[2], headers

    async def _copy_answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: HttpTarget
    ) -> None:
        """Copy an answer, the interim ones (1xx) before it too, and say that no request may follow it."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                interim = True
                while interim:
                    first, headers = await _read_head(reader)
                    if not (found := _STATUS.match(first)):
                        raise self._failed(target, "its answer is no HTTP/1.1")
                    writer.write(_head_of_one(first, headers))
                    await writer.drain()
                    interim = found[1].startswith("1") and found[1] != "101"
        except _NO_HEAD:
            raise self._failed(target, "no whole head of an answer") from None
        await _copy(reader, writer)

    async def _connect(self, target: HttpTarget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        failure = timed_out = f"no connection within {CONNECT_SECONDS:g} s"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for address in await self._judge.allowed_addresses(target):
                    try:
                        return await asyncio.open_connection(
                            str(address), target.port, limit=CHUNK, flags=socket.AI_NUMERICHOST
                        )
                    except OSError as error:
                        failure = error.strerror or "no connection"
        except NotAllowed as error:
            if len(self.refusals) < MOST_KEPT:
                self.refusals.append(str(error))
            raise _Refused(403, str(error)) from None
        except NoReply as error:
            failure = str(error)
        except TimeoutError:
            failure = timed_out
        raise self._failed(target, failure)

    def _failed(self, target: HttpTarget, failure: str) -> ConnectionError:
        self.failures.append(f"{target.authority}: {failure}")
        del self.failures[:-MOST_KEPT]
        return ConnectionError(failure)


@contextmanager
def outward_proxy(allow: Allowed, resolve: Resolve | None = None) -> Iterator[OutwardProxy]:
    """A proxy that runs in a thread of this process until the block ends."""
    proxy, begun = OutwardProxy(allow, resolve), Future[asyncio.AbstractEventLoop]()

    def run() -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(proxy.serve(begun))
        except BaseException as error:  # of making the loop, too
            if begun.done():
                raise
            begun.set_exception(error)

    thread = threading.Thread(target=run, name="headgate proxy", daemon=True)
    thread.start()
    try:
        loop = begun.result(BEGIN_SECONDS)
    except TimeoutError:
        begun.cancel()  # so that it does not serve when it does begin
        raise
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(proxy.end)
        thread.join()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, _Headers]:
    """The first line and the headers. Lines may end without CR, as most who read them take that for an end as well."""
    head = b""
    while (line := await reader.readuntil(b"\n")).strip(b"\r\n"):
        head += line
        if len(head) > MOST_HEAD:
            raise asyncio.LimitOverrunError("the head is too long", len(head))
    first, *lines = _FOLD.sub(" ", head.decode("latin-1")).replace("\r\n", "\n").removesuffix("\n").split("\n")
    return first, [(line.partition(":")[0].strip().lower(), line) for line in lines]


def _head_of_one(first: str, headers: _Headers) -> bytes:
    """A head after whose message the connection is over. That comes first: some stop reading at a malformed line."""
    lines = [line for name, line in headers if not name.startswith(_HOP_BY_HOP)]
    return "\r\n".join([first, "Connection: close", *lines, "", ""]).encode("latin-1")


def _values(headers: _Headers, wanted: str) -> list[str]:
    return [line.partition(":")[2].strip() for name, line in headers if name == wanted]


def _body_length(headers: _Headers) -> int:
    if _values(headers, "transfer-encoding"):
        raise _Refused(411, "the length of a request must be given")
    lengths = set(_values(headers, "content-length")) or {"0"}
    if len(lengths) > 1 or not _LENGTH.fullmatch(length := lengths.pop()):
        raise _Refused(400, "no length that is clear")
    return int(length)


def _target(method: str, url: str) -> tuple[HttpTarget, str]:
    """Where a request goes, and the path that it asks for there."""
    if method == "CONNECT":
        address, path = f"https://{url}", ""
    elif found := _ABSOLUTE.fullmatch(url.partition("#")[0]):
        address, path = found.groups()
    else:
        raise _Refused(403, "only http and https are passed on")
    try:
        return parse_url(f"{address}/"), path if path.startswith("/") else f"/{path}"
    except Invalid as error:
        raise _Refused(403, str(error)) from None


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as one that broke: what has come of an answer is not to look like all of it."""
    with suppress(OSError):  # it has ended already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _until_one_ends(*ways: Coroutine[Any, Any, None]) -> None:
    """Run both until one of them ends. Raises the error that it ended by."""
    copying = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in copying:
            each.cancel()
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(*copying, return_exceptions=True)
    for each in done:
        each.result()


async def _copy_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    """Copy what belongs to a request. What follows is another one, which nobody has judged for this site."""
    while length and (data := await reader.read(min(length, CHUNK))):
        writer.write(data)
        await writer.drain()
        length -= len(data)
    if await reader.read(1):
        raise ConnectionError("more than one request")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
