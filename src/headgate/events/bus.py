"""Fan-out of the feed within one process: it is read once, whoever and however many listen.

A place is a position in the feed, between any two events; it is the source's affair what it looks like.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from headgate.core.events import Happening

P = TypeVar("P")
PAGE = 500
MOST_WAITING = 2000
PAUSE = 0.2
LONGEST_PAUSE = 2.0
BREATH = 0.02  # between two looks, so that a busy feed is read in pages and not event by event
BEHIND = "behind"
CLOSING = "closing"
log = logging.getLogger("headgate.events")


class Told(Generic[P]):
    """An event, the place behind it, and what is known of its task. `shown` keeps what listeners make of it."""

    __slots__ = ("about", "event", "place", "shown")

    def __init__(self, event: Happening, place: P, about: Any = None) -> None:
        self.event = event
        self.place = place
        self.about = about
        self.shown: dict[str, str] = {}


class Source(Protocol[P]):
    """A feed that can be read from any place in it: each event once, none skipped. Both calls may block."""

    def end(self) -> P:
        """The place behind everything that is visible now."""

    def read(self, place: P, limit: int) -> tuple[list[Told[P]], P]:
        """About `limit` events behind `place`, and the place behind them; fewer if there are no more."""


class Ended(Exception):
    """A listener hears nothing more; it says why: it is too far behind, or the process ends."""


class Ear(Generic[P]):
    """One listener: everything behind `start`, in order. It keeps a bounded number of events; then it is cut off."""

    def __init__(self, start: P) -> None:
        self.start = start
        self._waiting: deque[Told[P]] = deque()
        self._changed = asyncio.Event()
        self._ended: str | None = None

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def hear(self, page: list[Told[P]]) -> None:
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

    async def next(self, seconds: float) -> Told[P] | None:
        """The next event; None if there was none for so long. `Ended` after the end."""
        if not self._waiting and self._ended is None:
            self._changed.clear()
            await _wait(self._changed, seconds)
        if self._ended is not None:
            raise Ended(self._ended)
        return self._waiting.popleft() if self._waiting else None


class Bus(Generic[P]):
    """Follows the feed while somebody listens: when it is woken, and every fifth of a second in any case."""

    def __init__(self, source: Source[P], aside: Callable[..., Awaitable[Any]], pause: float = PAUSE) -> None:
        self._source = source
        self._aside = aside
        self._pause = pause
        self._ears: set[Ear[P]] = set()
        self._reading = asyncio.Lock()
        self._woken = asyncio.Event()
        self._place: P | None = None
        self._tail: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._ears)

    async def join(self) -> Ear[P]:
        """A new listener. What anybody had seen before this was called lies before its start."""
        async with self._reading:
            if self._place is None or not self._ears:
                self._place = await self._aside(self._source.end)
            else:
                await self._read_on()
            assert self._place is not None
            ear = Ear(self._place)
            if self._closed:
                ear.end(CLOSING)
                return ear
            self._ears.add(ear)
        if self._tail is None:
            self._loop = asyncio.get_running_loop()
            self._tail = asyncio.create_task(self._follow(), name="headgate events")
        return ear

    def leave(self, ear: Ear[P]) -> None:
        self._ears.discard(ear)
        ear.end(CLOSING)
        if not self._ears:
            self._woken.set()

    def wake(self) -> None:
        """There may be something new. From any thread."""
        loop = self._loop
        if loop is not None and self._ears and not loop.is_closed():
            loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """Send everybody away; whoever comes from now on hears at once that it is over."""
        self._closed = True
        for ear in self._ears:
            ear.end(CLOSING)
        self._ears.clear()
        self._woken.set()

    async def _follow(self) -> None:
        failures = 0
        while self._ears:
            self._woken.clear()  # before the look, or a wake-up during it is lost
            try:
                async with self._reading:
                    await self._read_on()
            except Exception as error:
                failures += 1
                if failures == 1:
                    log.warning("the feed cannot be read; trying again: %s", error)
            else:
                failures = 0
            await asyncio.sleep(BREATH)
            await _wait(self._woken, min(self._pause * 2.0 ** min(failures, 10), LONGEST_PAUSE))
        self._tail = None

    async def _read_on(self) -> None:
        """Everything that is visible by now, to everybody; the caller holds the lock."""
        while self._ears:
            page, self._place = await self._aside(self._source.read, self._place, PAGE)
            for ear in [*self._ears] if page else []:
                ear.hear(page)
                if ear.ended:
                    self._ears.discard(ear)
            if len(page) < PAGE:
                return


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
