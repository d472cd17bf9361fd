"""Connections that stay open for the next request to the same place: few, and not for long."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, SupportsIndex

import h11

from headgate.outside import monotonic

MOST_KEPT = 64
IDLE_SECONDS = 4.0  # most servers wait for 5, or longer
LIFE_SECONDS = 60.0  # then the name is looked up anew, and its addresses are judged anew


class Place(NamedTuple):
    """What a connection was made for. Under another name even the same address is another place."""

    scheme: str
    host: str
    port: int


class Ear(asyncio.StreamReader):
    """A reader that knows whether there is anything to read; whatever is read is read by `read`."""

    _unread = 0

    @property
    def is_quiet(self) -> bool:
        """Whether all that came was read, and neither an end nor a failure came."""
        return not self._unread and not self.at_eof() and self.exception() is None

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        came = bytes(data)
        self._unread += len(came)
        super().feed_data(came)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self._unread -= len(data)
        return data


class Connection:
    """An open connection, and how far the talk on it is."""

    def __init__(self, place: Place, reader: Ear, writer: asyncio.StreamWriter) -> None:
        self.place = place
        self.reader = reader
        self.writer = writer
        self.talk = h11.Connection(h11.CLIENT)
        self.silent = True  # nothing was heard since the last request
        self._until = monotonic() + LIFE_SECONDS

    def can_go_on(self) -> bool:
        """Whether both sides are done with the last request, have said nothing else, and agree to another."""
        done = self.talk.our_state is h11.DONE and self.talk.their_state is h11.DONE
        return done and not self.talk.trailing_data[0] and self.reader.is_quiet and monotonic() < self._until

    def close(self) -> None:
        self.writer.transport.abort()


class Kept:
    """Idle connections. One that its server closes, or says something on unasked, is not kept."""

    def __init__(self, most: int = MOST_KEPT, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._idle: dict[Connection, asyncio.Task[None]] = {}  # each with its watch; the longest idle first

    def __len__(self) -> int:
        return len(self._idle)

    async def take(self, place: Place) -> Connection | None:
        """A connection to there that is still open, as far as can be known; it is the caller's to close or keep."""
        while connection := next((each for each in reversed(self._idle) if each.place == place), None):
            watch = self._idle.pop(connection)
            watch.cancel()
            try:
                await asyncio.wait([watch])
            except BaseException:  # nobody wants it any more
                connection.close()
                raise
            # Something may have come while the watch ended: it would be taken for the answer.
            if watch.cancelled() and connection.can_go_on():
                connection.talk.start_next_cycle()
                connection.silent = True
                return connection
            connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        """Have it for the next request, if it is fit for one; close it if not."""
        if not connection.can_go_on():
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
