"""Fan-out of the feed within one process: it is read once, whoever and however many listen.

A place is a position in the feed, between any two events; it is the source's affair what it looks like.
"""

import asyncio
import logging
from collections import deque
from typing import Any, Generic, Protocol, TypeVar

from headgate.core.events import AuditEvent
from headgate.pauses import Backoff, wait
from headgate.threads import InThread

P = TypeVar("P")
PAGE = 500
MOST_WAITING = 2000
PAUSE = 0.2
LONGEST_PAUSE = 2.0
BREATH = 0.02  # between two looks, so that a busy feed is read in pages and not event by event
BEHIND = "behind"
CLOSING = "closing"
log = logging.getLogger("headgate.events")


class FeedEvent(Generic[P]):
    """An event, the place behind it, and what is known of its task. `rendered` is a cache of listeners' texts of it."""

    __slots__ = ("event", "place", "rendered", "task_info")

    def __init__(self, event: AuditEvent, place: P, task_info: Any = None) -> None:
        self.event = event
        self.place = place
        self.task_info = task_info
        self.rendered: dict[str, str] = {}


class Source(Protocol[P]):
    """A feed that can be read from any place in it: each event once, none skipped. Both calls may block."""

    def end(self) -> P:
        """The place behind everything that is visible now."""

    def read(self, place: P, limit: int) -> tuple[list[FeedEvent[P]], P]:
        """About `limit` events behind `place`, and the place behind them; fewer if there are no more."""


class BusEnded(Exception):
    """A listener hears nothing more; it says why: it is too far behind, or the process ends."""


class Subscription(Generic[P]):
    """One listener: everything behind `start`, in order. It keeps a bounded number of events; then it is cut off."""

    def __init__(self, start: P) -> None:
        self.start = start
        self._waiting: deque[FeedEvent[P]] = deque()
        self._changed = asyncio.Event()
        self._ended: str | None = None

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def push(self, page: list[FeedEvent[P]]) -> None:
        """Take on a page, all of it or, if that is too much, nothing any more."""
        if len(self._waiting) + len(page) > MOST_WAITING:
            self.end(BEHIND)
        else:
            self._waiting.extend(page)
            self._changed.set()

    def end(self, reason: str) -> None:
        """Forget what waits: whoever comes back finds it in the store."""
        self._ended = self._ended or reason
        self._waiting.clear()
        self._changed.set()

    async def next(self, seconds: float) -> FeedEvent[P] | None:
        """The next event; None if there was none for so long. `BusEnded` after the end."""
        if not self._waiting and self._ended is None:
            self._changed.clear()
            await wait(self._changed, seconds)
        if self._ended is not None:
            raise BusEnded(self._ended)
        return self._waiting.popleft() if self._waiting else None


class Bus(Generic[P]):
    """Follows the feed while somebody listens: when it is woken, and every fifth of a second in any case."""

    _place: P  # while somebody listens

    def __init__(self, source: Source[P], in_thread: InThread, pause: float = PAUSE) -> None:
        self._source = source
        self._in_thread = in_thread
        self._pause = pause
        self._subscriptions: set[Subscription[P]] = set()
        self._reading = asyncio.Lock()
        self._woken = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._subscriptions)

    async def join(self) -> Subscription[P]:
        """A new listener, which receives only events newer than the call."""
        async with self._reading:
            if not self._subscriptions:
                self._place = await self._in_thread(self._source.end)
            else:
                await self._read_on()
            subscription = Subscription(self._place)
            if self._closed:
                subscription.end(CLOSING)
                return subscription
            self._subscriptions.add(subscription)
        if self._follower is None:
            self._loop = asyncio.get_running_loop()
            self._follower = asyncio.create_task(self._follow(), name="headgate events")
        return subscription

    def leave(self, subscription: Subscription[P]) -> None:
        self._subscriptions.discard(subscription)
        subscription.end(CLOSING)
        if not self._subscriptions:
            self._woken.set()

    def wake(self) -> None:
        """There may be something new. From any thread."""
        loop = self._loop
        if loop is not None and self._subscriptions and not loop.is_closed():
            loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """End every subscription, and those to come as soon as they begin."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.end(CLOSING)
        self._subscriptions.clear()
        self._woken.set()

    async def _follow(self) -> None:
        failures = 0
        while self._subscriptions:
            self._woken.clear()  # before the look, or a wake-up during it is lost
            try:
                async with self._reading:
                    await self._read_on()
            except Exception as error:
                failures += 1
                if failures == 1:
                    log.warning("feed could not be read, retrying: %s", error)
            else:
                failures = 0
            await asyncio.sleep(BREATH)
            await wait(self._woken, Backoff(self._pause, LONGEST_PAUSE).pause(failures))
        self._follower = None

    async def _read_on(self) -> None:
        """Everything that is visible by now, to everybody; the caller holds the lock."""
        while self._subscriptions:
            page, self._place = await self._in_thread(self._source.read, self._place, PAGE)
            for subscription in [*self._subscriptions] if page else []:
                subscription.push(page)
                if subscription.ended:
                    self._subscriptions.discard(subscription)
            if len(page) < PAGE:
                return
