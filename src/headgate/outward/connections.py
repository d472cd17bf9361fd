"""Connections that stay open for the next request to the same place: few, and not for long."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, SupportsIndex

import h11

from headgate.environment import monotonic

MOST_IDLE = 64
IDLE_SECONDS = 4.0  # most servers wait for 5, or longer
LIFE_SECONDS = 60.0  # then the name is looked up anew, and its addresses are judged anew


class Peer(NamedTuple):
    """What a connection was made for. Under another name even the same address is another place."""

    scheme: str
    host: str
    port: int


class WatchedReader(asyncio.StreamReader):
    """A reader that knows whether there is anything to read; whatever is read is read by `read`."""

    _unread = 0

    @property
    def is_quiet(self) -> bool:
        """Whether all that came was read, and neither an end nor a failure came."""
        return not self._unread and not self.at_eof() and self.exception() is None

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        chunk = bytes(data)
        self._unread += len(chunk)
        super().feed_data(chunk)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self._unread -= len(data)
        return data


class Connection:
    """An open connection, and how far the talk on it is."""

    def __init__(self, peer: Peer, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.reader = reader
        self.writer = writer
        self.http = h11.Connection(h11.CLIENT)
        self.silent = True  # nothing was heard since the last request
        self._until = monotonic() + LIFE_SECONDS

    def is_reusable(self) -> bool:
        """Whether both sides are done with the last request, have said nothing else, and agree to another."""
        done = self.http.our_state is h11.DONE and self.http.their_state is h11.DONE
        return done and not self.http.trailing_data[0] and self.reader.is_quiet and monotonic() < self._until

    def close(self) -> None:
        self.writer.transport.abort()


class ConnectionPool:
    """Idle connections. One that its server closes, or says something on unasked, is not kept."""

    def __init__(self, most: int = MOST_IDLE, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._idle: dict[Connection, asyncio.Task[None]] = {}  # each with its watch; the longest idle first

    def __len__(self) -> int:
        return len(self._idle)

    async def take(self, peer: Peer) -> Connection | None:
        """A connection to there that is still open, as far as can be known; it is the caller's to close or keep."""
        while connection := next((each for each in reversed(self._idle) if each.peer == peer), None):
            watch = self._idle.pop(connection)
            watch.cancel()
            try:
                await asyncio.wait([watch])
            except BaseException:  # nobody wants it any more
                connection.close()
                raise
            # Something may have come while the watch ended: it would be taken for the answer.
            if watch.cancelled() and connection.is_reusable():
                connection.http.start_next_cycle()
                connection.silent = True
                return connection
            connection.close()
        return None

    def put(self, connection: Connection) -> None:
        """Have it for the next request, if it is fit for one; close it if not."""
        if not connection.is_reusable():
            connection.close()
            return
        while len(self._idle) >= self._most:
            self._drop(next(iter(self._idle)))
        self._idle[connection] = asyncio.create_task(self._watch(connection))

    def close(self) -> None:
        for connection in list(self._idle):
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._idle.pop(connection).cancel()
        connection.close()

    async def _watch(self, connection: Connection) -> None:
        """Until something comes, an end or a word, or it was idle for long enough; cancelled when it is taken."""
        try:
            async with asyncio.timeout(self._idle_seconds):
                await connection.reader.read(1)
        except OSError:  # a TimeoutError is one
            pass
        finally:
            if connection in self._idle:  # also when the loop ends, and with it everything
                del self._idle[connection]
                connection.close()
