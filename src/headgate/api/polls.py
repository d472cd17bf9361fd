"""Long polls: agents that wait for work cost no thread and no look of their own at the store.

Polls that ask for the same stand in one line. Of each piece of news the first in every line that it concerns takes a
look; whoever got all that it asked for wakes the next, since there may be more. So one new task costs one look for
each line, however many wait.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headgate.api.roster import Roster, Who
from headgate.core.errors import HeadgateError
from headgate.outside import monotonic
from headgate.service import Aside, wait
from headgate.store.base import Store
from headgate.store.catalog import Stream
from headgate.store.claims import ClaimRequest
from headgate.store.news import Wakes

SAFETY_SECONDS = 5.0  # news are hints: what was missed is found at the next look
TICK_SECONDS = 1.0
SOONEST_SECONDS = 0.005  # tokens that come faster than that come together
Line = tuple[frozenset[str] | None, frozenset[str] | None, int | None, int | None]


class Poll:
    """One agent that waits: what for, and whether it is its turn to look."""

    __slots__ = ("lease", "line", "wanted", "who", "woken")

    def __init__(self, who: Who, wanted: ClaimRequest, lease: float | None) -> None:
        self.who = who
        self.wanted = wanted
        self.lease = lease
        self.line: Line = (wanted.types, wanted.categories, wanted.tenant_id, wanted.creator)
        self.woken = asyncio.Event()


class Polls:
    """Everybody who waits at this server. All but the news happens on the event loop's thread."""

    def __init__(self, store: Store, roster: Roster, aside: Aside, stopping: asyncio.Event) -> None:
        self._store = store
        self._roster = roster
        self._aside = aside
        self._stopping = stopping
        self._lines: dict[Line, dict[Poll, None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening = False
        self._look = asyncio.Event()  # at every stream, at once
        self._lock = threading.Lock()
        self._news: set[int] = set()
        self._told = False  # the loop will take the news
        self._closing: asyncio.Task[None] | None = None
        self._later: dict[Line, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._lines.values())))

    @contextmanager
    def joined(self, poll: Poll) -> Iterator[None]:
        """Stand in line for a while. Who leaves without having looked leaves its turn to the next."""
        self._begin()
        self._lines.setdefault(poll.line, {})[poll] = None
        try:
            yield
        finally:
            line = self._lines[poll.line]
            del line[poll]
            if not line:
                del self._lines[poll.line]
            if poll.woken.is_set():
                self.wake_next(poll.line)

    def wake_next(self, line: Line) -> None:
        """Let the first look whose turn it is not already."""
        for poll in self._lines.get(line, ()):
            if not poll.woken.is_set():
                poll.woken.set()
                break

    def wake_later(self, line: Line, seconds: float) -> None:
        """Let one look when so much time has gone by: a token comes then, and nobody else says so."""
        if self._loop is not None and line not in self._later:
            self._later[line] = self._loop.call_later(max(seconds, SOONEST_SECONDS), self._wake_now, line)

    def _wake_now(self, line: Line) -> None:
        del self._later[line]
        self.wake_next(line)

    @property
    def closed(self) -> bool:
        return self._stopping.is_set()

    async def close(self) -> None:
        """Send everybody away; nothing is asked of the store any more when this returns."""
        self._stopping.set()
        if under_way := [task for task in (self._watch, self._closing) if task is not None]:
            await asyncio.wait(under_way)

    async def _send_away(self) -> None:
        """Let everybody go, with nothing, when the server goes."""
        await self._stopping.wait()
        for line in self._lines.values():
            for poll in line:
                poll.woken.set()
        self._look.set()

    def _begin(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._store.on_wake(self._hear)
            self._closing = asyncio.create_task(self._send_away(), name="headgate polls end")
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watching(), name="headgate polls")

    async def _watching(self) -> None:
        looked_at = monotonic()
        while self._lines and not self.closed:
            try:
                if not self._listening:
                    await self._aside(self._store.listen)
                    self._listening = True
                asked = await wait(self._look, TICK_SECONDS)
                self._look.clear()
                await self._aside(self._roster.renew_waiting, self._waiting())
                if asked or monotonic() - looked_at >= SAFETY_SECONDS:
                    looked_at = monotonic()
                    self._tell(await self._aside(self._store.agents.ready_streams))
            except HeadgateError:  # the store is away: whoever looks hears of it
                await asyncio.sleep(TICK_SECONDS)

    def _waiting(self) -> list[tuple[Who, float | None]]:
        return [(poll.who, poll.lease) for polls in self._lines.values() for poll in polls]

    def _hear(self, wakes: Wakes) -> None:
        """News, on any thread; the loop takes them together."""
        if not self._lines or self._loop is None:
            return
        with self._lock:
            self._news |= wakes.keys() or {0}
            told, self._told = self._told, True
        if not told:
            try:
                self._loop.call_soon_threadsafe(self._take_news)
            except RuntimeError:  # the loop is closed
                return

    def _take_news(self) -> None:
        with self._lock:
            news, self._news, self._told = self._news, set(), False
        streams = [stream for stream_id in news if (stream := self._store.agents.stream(stream_id)) is not None]
        if len(streams) < len(news):  # room was made somewhere, or the stream is new
            self._look.set()
        self._tell(streams)

    def _tell(self, streams: Iterable[Stream]) -> None:
        """Something waits in these streams: the first of each line that serves one may look."""
        assigned = [stream for stream in streams if stream.agent_id]
        free = [stream for stream in streams if not stream.agent_id]
        for line, polls in self._lines.items():
            first = next(iter(polls))
            if any(first.wanted.serves(stream) for stream in free):
                self.wake_next(line)
            for poll in polls if assigned else ():
                if any(poll.wanted.serves(stream) for stream in assigned):
                    poll.woken.set()
