"""A server of raw bytes on loopback, and a watch over every connection this process makes."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_watching: list[list[tuple[str, int]]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _watching:
        address = arguments[1]
        for seen in _watching:
            seen.append(address[:2] if isinstance(address, tuple) else (str(address), 0))


sys.addaudithook(_hear)


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
