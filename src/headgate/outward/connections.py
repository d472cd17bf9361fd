"""Connections that stay open for the next request to the same place: few, and not for long."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import h11

from headgate.environment import monotonic
from headgate.outward.address import Origin

MOST_IDLE = 64
IDLE_SECONDS = 4.0  # most servers wait for 5, or longer
LIFE_SECONDS = 60.0  # then the name is looked up anew, and its addresses are judged anew


class Connection(asyncio.Protocol):
    """An open connection, and how far the exchange on it is. `on_news` is called when data or the end arrives."""

    transport: asyncio.Transport

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.http = h11.Connection(h11.CLIENT)
        self.silent = True  # nothing was read since the last request
        self.on_news: Callable[[], object] = lambda: None
        self._until = monotonic() + LIFE_SECONDS
        self._unread = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def connection_made(self, transport: Any) -> None:  # uvloop's own is none of asyncio's classes
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._notify()

    def eof_received(self) -> None:
        self._ended = True
        self._notify()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        self._notify()

    def _notify(self) -> None:
        self._news.set()
        self.on_news()

    async def read(self, most: int) -> bytes:
        """Up to `most` bytes as soon as there are some; none at the end."""
        while not self._unread and not self._ended:
            self._news.clear()
            await self._news.wait()
        if not self._unread and self._error is not None:
            raise self._error
        data = bytes(self._unread[:most])
        del self._unread[:most]
        self.silent = self.silent and not data
        return data

    def is_reusable(self) -> bool:
        """Whether both sides are done with the last request, have said nothing else, and agree to another."""
        done = self.http.our_state is h11.DONE and self.http.their_state is h11.DONE
        quiet = not self.http.trailing_data[0] and not self._unread and not self._ended
        return done and quiet and monotonic() < self._until

    def close(self) -> None:
        self.transport.abort()


class ConnectionPool:
    """Idle connections. One that its server closes, or on which it sends unrequested data, is dropped."""

    def __init__(self, most: int = MOST_IDLE, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._idle: dict[Connection, asyncio.TimerHandle] = {}  # each with the end of its time; the longest idle first

    def __len__(self) -> int:
        return len(self._idle)

    async def take(self, origin: Origin) -> Connection | None:
        """A connection to that place that still seems open; the caller closes it or returns it with `put`."""
        for _ in range(2):  # let the loop read data that has already arrived: it would look like the answer
            await asyncio.sleep(0)
        for connection in [each for each in reversed(self._idle) if each.origin == origin]:
            if connection.is_reusable():
                self._idle.pop(connection).cancel()
                connection.http.start_next_cycle()
                connection.silent = True
                return connection
            self._drop(connection)
        return None

    def put(self, connection: Connection) -> None:
        """Keep it for the next request if it is fit for one, else close it."""
        if not connection.is_reusable():
            connection.close()
            return
        while len(self._idle) >= self._most:
            self._drop(next(iter(self._idle)))
        connection.on_news = partial(self._drop, connection)
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(self._idle_seconds, self._drop, connection)

    def close(self) -> None:
        for connection in list(self._idle):
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        """Close it, unless it was taken."""
        if (timer := self._idle.pop(connection, None)) is not None:
            timer.cancel()
            connection.close()
