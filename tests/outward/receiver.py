"""A server of raw bytes on loopback, and a watch over every connection this process makes."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, NamedTuple

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SOON = 120.0
_watching: list[list[tuple[str, int]]] = []


def _note_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _watching:
        address = arguments[1]
        for seen in _watching:
            seen.append(address[:2] if isinstance(address, tuple) else (str(address), 0))


sys.addaudithook(_note_connection)


@contextmanager
def connections() -> Iterator[list[tuple[str, int]]]:
    """Every (address, port) that this process connects to meanwhile, whoever asks for it."""
    seen: list[tuple[str, int]] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


async def request_of(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """A request, whole: its first line, its headers, its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    return head[0], headers, await reader.readexactly(int(headers.get("content-length", 0)))


def answering(answer: bytes) -> Serve:
    """Answers everything with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(answer)
        await writer.drain()

    return serve


@asynccontextmanager
async def listening(serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that handles each connection with `serve` and closes it."""
    under_way: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            under_way.discard(task)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    server = await asyncio.start_server(handle, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


class Got(NamedTuple):
    """One request, as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Somebody's server. It answers with what `answers` says, one after the other, and then 204 for good.

    A number is a status, bytes are sent as they are, None is never answered.
    """

    def __init__(self, *answers: int | bytes | None) -> None:
        self.answers = list(answers)
        self.got: list[Got] = []
        self.at_once = 0
        self.most_at_once = 0
        self.port = 0
        self._news = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def has(self, count: int) -> None:
        """Until so many requests have arrived."""
        async with asyncio.timeout(SOON), self._news:
            await self._news.wait_for(lambda: len(self.got) >= count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, headers, body = await request_of(reader)
        method, path, _ = line.split(" ")
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            answer = self.answers.pop(0) if self.answers else 204
            async with self._news:
                self.got.append(Got(method, path, headers, body))
                self._news.notify_all()
            if answer is None:
                await reader.read()  # until the other side has had enough
                return
            writer.write(
                answer if isinstance(answer, bytes) else f"HTTP/1.1 {answer} So\r\ncontent-length: 0\r\n\r\n".encode()
            )
            await writer.drain()
        finally:
            self.at_once -= 1


@asynccontextmanager
async def receiving(*receivers: Receiver) -> AsyncIterator[None]:
    """While these receive, each on a port of its own."""
    async with AsyncExitStack() as stack:
        for receiver in receivers:
            receiver.port = await stack.enter_async_context(listening(receiver.serve))
        yield
