"""Long polls: agents that wait for work cost no thread and no look of their own at the store.

Polls that ask for the same form a group. Of each piece of news the first poll of every group that it concerns takes a
look; one that got all that it asked for wakes the next, since there may be more. So one new task costs one look for
each group, however many wait.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headgate.api.agents.cache import AgentCache, AgentIdentity
from headgate.core.errors import HeadgateError
from headgate.environment import monotonic
from headgate.pauses import wait
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import Store
from headgate.store.wakeup.message import Wakes
from headgate.threads import InThread

SAFETY_SECONDS = 5.0  # news are hints: what was missed is found at the next look
TICK_SECONDS = 1.0
SOONEST_SECONDS = 0.005  # tokens that come faster than that come together
GroupKey = tuple[frozenset[str] | None, frozenset[str] | None, int | None, int | None]


class LongPoll:
    """One agent that waits: what for, and whether it is its turn to look."""

    __slots__ = ("claim_request", "group", "identity", "lease", "woken")

    def __init__(self, identity: AgentIdentity, claim_request: ClaimRequest, lease: float | None) -> None:
        self.identity = identity
        self.claim_request = claim_request
        self.lease = lease
        self.group: GroupKey = (
            claim_request.types,
            claim_request.categories,
            claim_request.tenant_id,
            claim_request.creator,
        )
        self.woken = asyncio.Event()


class Polls:
    """Everybody who waits at this server. All but the news happens on the event loop's thread."""

    def __init__(self, store: Store, agent_cache: AgentCache, in_thread: InThread, stopping: asyncio.Event) -> None:
        self._store = store
        self._agent_cache = agent_cache
        self._in_thread = in_thread
        self._stopping = stopping
        self._groups: dict[GroupKey, dict[LongPoll, None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening = False
        self._look = asyncio.Event()  # at every stream, at once
        self._lock = threading.Lock()
        self._news: set[int] = set()
        self._scheduled = False  # whether the loop will take the news
        self._closing: asyncio.Task[None] | None = None
        self._later: dict[GroupKey, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._groups.values())))

    @contextmanager
    def joined(self, poll: LongPoll) -> Iterator[None]:
        """Wait in its group for a while. A poll that leaves without having looked leaves its turn to the next."""
        self._begin()
        self._groups.setdefault(poll.group, {})[poll] = None
        try:
            yield
        finally:
            group = self._groups[poll.group]
            del group[poll]
            if not group:
                del self._groups[poll.group]
            if poll.woken.is_set():
                self.wake_next(poll.group)

    def wake_next(self, group: GroupKey) -> None:
        """Wake the first poll of the group that is not awake yet."""
        for poll in self._groups.get(group, ()):
            if not poll.woken.is_set():
                poll.woken.set()
                break

    def wake_later(self, group: GroupKey, seconds: float) -> None:
        """Wake one poll of the group after this many seconds, or sooner if asked: nothing else announces a token."""
        if self._loop is None:
            return
        at, known = self._loop.time() + max(seconds, SOONEST_SECONDS), self._later.get(group)
        if known is not None and known.when() <= at:
            return
        if known is not None:
            known.cancel()
        self._later[group] = self._loop.call_at(at, self._wake_now, group)

    def _wake_now(self, group: GroupKey) -> None:
        del self._later[group]
        self.wake_next(group)

    @property
    def closed(self) -> bool:
        return self._stopping.is_set()

    async def close(self) -> None:
        """End every poll; nothing is asked of the store any more when this returns."""
        self._stopping.set()
        if under_way := [task for task in (self._watch, self._closing) if task is not None]:
            await asyncio.wait(under_way)

    async def _wake_everybody(self) -> None:
        """End every poll, with nothing, when the server stops."""
        await self._stopping.wait()
        for group in self._groups.values():
            for poll in group:
                poll.woken.set()
        self._look.set()

    def _begin(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._store.wakeups.on_work(self._on_news)
            self._closing = asyncio.create_task(self._wake_everybody(), name="headgate polls end")
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_streams(), name="headgate polls")

    async def _watch_streams(self) -> None:
        looked_at = monotonic()
        while self._groups and not self.closed:
            try:
                if not self._listening:
                    await self._in_thread(self._store.wakeups.listen)
                    self._listening = True
                look_now = await wait(self._look, TICK_SECONDS)
                self._look.clear()
                await self._in_thread(self._agent_cache.renew_waiting, self._waiting())
                if look_now or monotonic() - looked_at >= SAFETY_SECONDS:
                    looked_at = monotonic()
                    self._wake_serving(await self._in_thread(self._store.agents.ready_streams))
            except HeadgateError:  # the store is away: the poll itself will report that
                await asyncio.sleep(TICK_SECONDS)

    def _waiting(self) -> list[tuple[AgentIdentity, float | None]]:
        return [(poll.identity, poll.lease) for polls in self._groups.values() for poll in polls]

    def _on_news(self, wakes: Wakes) -> None:
        """News, on any thread; the loop takes them together."""
        if not self._groups or self._loop is None:
            return
        with self._lock:
            self._news |= wakes.keys() or {0}
            scheduled, self._scheduled = self._scheduled, True
        if not scheduled:
            try:
                self._loop.call_soon_threadsafe(self._take_news)
            except RuntimeError:  # the loop is closed
                return

    def _take_news(self) -> None:
        with self._lock:
            news, self._news, self._scheduled = self._news, set(), False
        streams = [stream for stream_id in news if (stream := self._store.agents.stream(stream_id)) is not None]
        if len(streams) < len(news):  # room was made somewhere, or the stream is new
            self._look.set()
        self._wake_serving(streams)

    def _wake_serving(self, streams: Iterable[Stream]) -> None:
        """Something waits in these streams: wake the first poll of each group that serves one."""
        assigned = [stream for stream in streams if stream.agent_id]
        free = [stream for stream in streams if not stream.agent_id]
        for group, polls in self._groups.items():
            first = next(iter(polls))
            if any(first.claim_request.serves(stream) for stream in free):
                self.wake_next(group)
            for poll in polls if assigned else ():
                if any(poll.claim_request.serves(stream) for stream in assigned):
                    poll.woken.set()
