"""Live events: the store's feed is read once for all listeners, and each continues from its own place in it.

A place is a cursor of the feed, behind an event.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Hashable, Sequence

from headgate.core.errors import Invalid
from headgate.core.events import AuditEvent
from headgate.events.task_infos import FieldsOf, TaskInfo, TaskInfoCache, no_fields
from headgate.pauses import Backoff, wait
from headgate.store.db.pages import LAST_ID
from headgate.store.events.feed import Cursor, Gap, cursors_after, gap_around, subtract_gaps
from headgate.store.store import Store
from headgate.threads import InThread

PAGE = 500
MOST_WAITING = 2000
PAUSE = 0.2
LONGEST_PAUSE = 2.0
BREATH = 0.02  # between two looks, so that a busy feed is read in pages and not event by event
LATE_SECONDS = 1.0
BEHIND = "behind"
CLOSING = "closing"
log = logging.getLogger("headgate.events")


class FeedEvent:
    """An event, the place behind it, and what is known of its task. `rendered` is a cache of listeners' texts of it."""

    __slots__ = ("event", "place", "rendered", "task_info")

    def __init__(self, event: AuditEvent, place: Cursor, task_info: TaskInfo | None = None) -> None:
        self.event = event
        self.place = place
        self.task_info = task_info
        self.rendered: dict[Hashable, str] = {}


class Feed:
    """The store's events with what is known of their tasks, from any place on: each once, none skipped."""

    def __init__(self, store: Store, fields_of: FieldsOf = no_fields) -> None:
        self._store = store
        self.task_infos = TaskInfoCache(store, fields_of)

    def end(self) -> Cursor:
        return self._store.events.last()

    def read(self, place: Cursor, limit: int) -> tuple[list[FeedEvent], Cursor]:
        events, after = self._store.events.after(place, limit)
        task_infos = self.task_infos.of(events)
        return [
            FeedEvent(event, behind, None if event.task_id is None else task_infos[event.task_id])
            for event, behind in zip(events, cursors_after(place, events, after), strict=True)
        ], after


class BusEnded(Exception):
    """A listener gets no more events, and why: it is too far behind, or the process ends."""


class Listener:
    """One listener: everything behind `start`, in order. It keeps a bounded number of events; then it is cut off."""

    def __init__(self, start: Cursor) -> None:
        self.start = start
        self._waiting: deque[FeedEvent] = deque()
        self._changed = asyncio.Event()
        self._ended: str | None = None

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def push(self, page: list[FeedEvent]) -> None:
        """Take a whole page; if it does not fit, the listener is cut off."""
        if len(self._waiting) + len(page) > MOST_WAITING:
            self.end(BEHIND)
        else:
            self._waiting.extend(page)
            self._changed.set()

    def end(self, reason: str) -> None:
        """Drop the waiting events: a client that comes back finds them in the store."""
        self._ended = self._ended or reason
        self._waiting.clear()
        self._changed.set()

    async def next(self, seconds: float) -> FeedEvent | None:
        """The next event; None if there was none for `seconds`. `BusEnded` after the end."""
        if not self._waiting and self._ended is None:
            self._changed.clear()
            await wait(self._changed, seconds)
        if self._ended is not None:
            raise BusEnded(self._ended)
        return self._waiting.popleft() if self._waiting else None


class Bus:
    """Follows the feed while somebody listens: when it is woken, and every fifth of a second in any case."""

    _place: Cursor  # while somebody listens

    def __init__(self, feed: Feed, in_thread: InThread, pause: float = PAUSE) -> None:
        self._feed = feed
        self._in_thread = in_thread
        self._pause = pause
        self._listeners: set[Listener] = set()
        self._reading = asyncio.Lock()
        self._woken = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    async def join(self) -> Listener:
        """A new listener, which receives only events newer than the call."""
        async with self._reading:
            if not self._listeners:
                self._place = await self._in_thread(self._feed.end)
            else:
                await self._read_on()
            listener = Listener(self._place)
            if self._closed:
                listener.end(CLOSING)
                return listener
            self._listeners.add(listener)
        if self._follower is None:
            self._loop = asyncio.get_running_loop()
            self._follower = asyncio.create_task(self._follow(), name="headgate events")
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        listener.end(CLOSING)
        if not self._listeners:
            self._woken.set()

    def wake(self) -> None:
        """There may be something new. From any thread."""
        loop = self._loop
        if loop is not None and self._listeners and not loop.is_closed():
            loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """End every listener, and those to come as soon as they begin."""
        self._closed = True
        for listener in self._listeners:
            listener.end(CLOSING)
        self._listeners.clear()
        self._woken.set()

    async def _follow(self) -> None:
        failures = 0
        while self._listeners:
            self._woken.clear()  # before the look, or a wake-up during it is lost
            try:
                async with self._reading:
                    await self._read_on()
            except Exception as error:
                failures += 1
                if failures == 1:
                    log.warning("feed could not be read, retrying: error=%s", error)
            else:
                failures = 0
            await asyncio.sleep(BREATH)
            await wait(self._woken, Backoff(self._pause, LONGEST_PAUSE).pause(failures))
        self._follower = None

    async def _read_on(self) -> None:
        """Pass all visible events to every listener; the caller holds the lock."""
        while self._listeners:
            page, self._place = await self._in_thread(self._feed.read, self._place, PAGE)
            for listener in [*self._listeners] if page else []:
                listener.push(page)
                if listener.ended:
                    self._listeners.discard(listener)
            if len(page) < PAGE:
                return


class Follower:
    """One client's way through the feed: first what it missed, from the store, then live. Each event once."""

    def __init__(self, feed: Feed, listener: Listener, in_thread: InThread, start: Cursor | None) -> None:
        if start is not None and start.high > listener.start.high:
            raise Invalid("the cursor is newer than every event of this server")
        self._feed = feed
        self.listener = listener
        self._in_thread = in_thread
        self._late: tuple[Gap, ...] = ()  # what may still come to this client and not by way of the bus
        self.place = listener.start if start is None else start

    async def entries(self, seconds: float) -> AsyncIterator[FeedEvent | None]:
        """Yield events as they come, None after `seconds` without one; `place` is behind the last of them."""
        async for entry in self._missed_entries():
            yield entry
        while True:
            async for entry in self._late_entries():
                yield entry
            live_entry = await self.listener.next(min(seconds, LATE_SECONDS) if self._late else seconds)
            if live_entry is not None:
                live_entry = self._with_gaps(live_entry, self._late)
                self.place = live_entry.place
            yield live_entry

    async def _missed_entries(self) -> AsyncIterator[FeedEvent]:
        """What lies between the client's place and the start of its listener, which is ahead: it was read later."""
        end, read_to = self.listener.start, self.place
        held: list[Gap] = []
        fresh = read_to == end
        while not fresh:
            page, read_to = await self._in_thread(self._feed.read, read_to, PAGE)
            for entry in page:
                if entry.event.id > end.high:
                    break
                if gap := gap_around(end, entry.event.id):  # the listener will bring it
                    held.append(Gap(entry.event.id, entry.event.id, gap.xmax))
                    continue
                entry = self._with_gaps(entry, held)
                self.place = entry.place
                yield entry
            fresh = read_to.high >= end.high or not page
        below = [gap for gap in read_to.gaps if gap.last <= end.high]
        self._late = subtract_gaps(below, end.gaps)
        self.place = Cursor(end.high, (*end.gaps, *self._late))

    async def _late_entries(self) -> AsyncIterator[FeedEvent]:
        """Events that were missing when this client came back and are visible now, where the bus does not look."""
        if not self._late:
            return
        page, after = await self._in_thread(self._feed.read, Cursor(LAST_ID, self._late), PAGE)
        self._late = after.gaps
        for late in page:
            gaps = subtract_gaps(self.place.gaps, [Gap(late.event.id, late.event.id, 0)])
            self.place = Cursor(self.place.high, gaps)
            yield FeedEvent(late.event, self.place, late.task_info)

    @staticmethod
    def _with_gaps(entry: FeedEvent, gaps: Sequence[Gap]) -> FeedEvent:
        if not gaps:
            return entry
        return FeedEvent(entry.event, Cursor(entry.place.high, (*entry.place.gaps, *gaps)), entry.task_info)


class LiveEvents:
    """All events, for the clients of this server."""

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        stopping: asyncio.Event,
        fields_of: FieldsOf = no_fields,
        *,
        for_clients: InThread | None = None,
    ) -> None:
        """`for_clients`: where each client's own reading runs; that of all of them together runs `in_thread`."""
        self.feed = Feed(store, fields_of)
        self.bus = Bus(self.feed, in_thread)
        self._events = store.events
        self._for_clients = for_clients or in_thread
        self._stopping = stopping
        self._watch: asyncio.Task[None] | None = None
        store.wakeups.on_work(lambda wakes: self.bus.wake())

    async def join(self, cursor: str | None) -> Follower:
        """A listener that continues at its cursor, or begins now; `leave` it at the end."""
        start = None if cursor is None else self._events.parse_cursor(cursor)
        if self._watch is None:
            self._watch = asyncio.create_task(self._close_in_time(), name="headgate events end")
        listener = await self.bus.join()
        try:
            return Follower(self.feed, listener, self._for_clients, start)
        except Invalid:
            self.bus.leave(listener)
            raise

    def leave(self, follower: Follower) -> None:
        self.bus.leave(follower.listener)

    def close(self) -> None:
        """End every listener."""
        self.bus.close()
        if self._watch is not None:
            self._watch.cancel()

    async def _close_in_time(self) -> None:
        await self._stopping.wait()
        self.bus.close()
