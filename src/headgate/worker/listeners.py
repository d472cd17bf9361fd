"""Calls a program's listeners with the events they want: each in one process at a time, which has its subscription."""

import asyncio
import inspect
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.environment import monotonic, new_uuid7
from headgate.events.listeners import Event, Listener, event_for_listeners
from headgate.events.live import Feed, FeedEvent
from headgate.pauses import Backoff
from headgate.service import Service
from headgate.settings import Settings
from headgate.store.events.feed import MOST_GAPS, Cursor
from headgate.store.events.subscriptions import Lease
from headgate.store.store import Store
from headgate.threads import InThread, Threads

PAGE = 500
BATCH_SECONDS = 1.0  # how much of what was handled may come again after a crash
STOP_SECONDS = 5.0  # for a call that is under way when the process is to end
BETWEEN_TRIES = Backoff(1.0, 300.0)
log = logging.getLogger("headgate.listeners")


class ListenerService(Service):
    """Calls one listener, event by event, and saves how far it is after each batch.

    A batch that a dead process left unfinished is tried again event by event, to count the tries of an event that kills
    its process.
    """

    pause = 0.5

    def __init__(
        self,
        listener: Listener,
        feed: Feed,
        store: Store,
        settings: Settings,
        in_thread: InThread,
        call_in_thread: InThread,
        holder: str,
    ) -> None:
        super().__init__()
        self.name = f"listener {listener.name}"
        self._listener = listener
        self._feed = feed
        self._subscriptions = store.subscriptions
        self._settings = settings
        self._in_thread = in_thread
        self._call_in_thread = call_in_thread
        self._holder = holder
        self._lease: Lease | None = None  # while this process has the subscription
        self._saved: Cursor | None = None  # the place that is in the store
        self._alone = 0  # how many events are handled one by one, since a batch of them was never ended
        self._lease_at = self._retry_at = self._save_at = 0.0  # not before
        self._renewing: asyncio.Task[None] | None = None
        self._cut_short = False

    def start(self) -> None:
        super().start()
        self._renewing = asyncio.create_task(self._renew(), name=f"headgate {self.name} lease")

    async def stop(self) -> None:
        """End the loop; a call that is under way has a few seconds to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await super().stop()
        if self._loop is not None and not self._loop.done():
            log.warning("%s: the call does not end; the event will be delivered again", self.name)
            self._cut_short = True
            self._loop.cancel()
            await asyncio.wait([self._loop])
        elif self._lease is not None:
            with suppress(HeadgateError):
                await self._in_thread(self._subscriptions.release, self._listener.name, self._holder)
        if self._renewing is not None:
            self._renewing.cancel()

    async def turn(self) -> int:
        lease = self._lease or await self._take()
        if lease is None or monotonic() < self._retry_at:
            return 0
        limit = min(PAGE, MOST_GAPS - len(lease.place.gaps))  # a place with more gaps would forget the oldest
        page, after = await self._in_thread(self._feed.read, lease.place, limit)
        if wanted := self._wanted(lease.place, page):
            return await self._handle(lease, wanted, after)
        self._lease = Lease(after, 0)
        if after != self._saved and monotonic() >= self._save_at:
            await self._save(self._lease)
        return int(len(page) == limit)

    # its subscription

    async def _take(self) -> Lease | None:
        if monotonic() < self._lease_at:
            return None
        self._lease_at = monotonic() + self._settings.beat_seconds
        self._lease = await self._renewed()
        if self._lease is not None:
            self._saved = self._lease.place
            self._alone = PAGE if self._lease.tries else 0
            log.info("%s: this process calls it from now on", self.name)
        return self._lease

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.beat_seconds)
            if self._lease is not None:
                try:
                    if await self._renewed() is None:
                        self._lose()
                except Exception as error:  # it is tried again; meanwhile another process may take over
                    log.warning("%s: the lease could not be renewed: %s", self.name, error)

    async def _renewed(self) -> Lease | None:
        return await self._in_thread(
            self._subscriptions.lease, self._listener.name, self._holder, self._settings.lease_seconds
        )

    async def _save(self, lease: Lease, **kinds: Sequence[str]) -> bool:
        """Save the place in the feed; False if another process has taken over the subscription."""
        saved = await self._in_thread(self._subscriptions.save, self._listener.name, self._holder, lease, **kinds)
        self._lease, self._saved, self._save_at = lease, lease.place, monotonic() + BATCH_SECONDS
        if not saved:
            self._lose()
        return saved

    def _lose(self) -> None:
        log.warning("%s: lease lost; events may be delivered twice", self.name)
        self._lease = None

    # its events

    def _wanted(self, place: Cursor, page: Sequence[FeedEvent]) -> list[tuple[Cursor, FeedEvent]]:
        """The events it wants, each with the place before it."""
        places = [place, *(entry.place for entry in page)]
        pairs = zip(places, page, strict=False)
        return [(before, entry) for before, entry in pairs if self._listener.wants(entry.event, _type_of(entry))]

    async def _handle(self, lease: Lease, wanted: list[tuple[Cursor, FeedEvent]], after: Cursor) -> int:
        """Handle a batch; returns how many events it had."""
        ends = [before for before, _ in wanted[1:]] + [after]
        if lease.tries >= self._listener.tries:
            log.error("%s: skips %s after %d tries", self.name, _text(wanted[0][1]), lease.tries)
            return int(await self._save(Lease(ends[0], 0), skipped=[wanted[0][1].event.kind]))
        batch = wanted[:1] if self._alone or lease.tries else wanted
        if not await self._save(Lease(lease.place, lease.tries + 1)):
            return 0
        began, done = monotonic(), 0
        kinds = [entry.event.kind for _, entry in batch]
        for before, entry in batch:
            error = await self._call(entry)
            if error is not None:
                tries = 1 if done else lease.tries + 1
                self._tell_failed(entry, tries, error)
                await self._save(Lease(before, tries), handled=kinds[:done], failed=[entry.event.kind])
                return 0
            done += 1
            if self._stopping or self._lease is None or monotonic() - began > BATCH_SECONDS:
                break
        self._alone = max(self._alone - done, 0)
        await self._save(Lease(ends[done - 1], 0), handled=kinds[:done])
        return done

    async def _call(self, entry: FeedEvent) -> BaseException | None:
        """Call the listener; returns what it raised."""
        event, function = event_for_listeners(entry.event, _type_of(entry) or ""), self._listener.function
        if not self._listener.is_async:
            return await self._call_in_thread(_call, function, event)
        try:
            await function(event)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if self._cut_short:
                raise
            return error
        return None

    def _tell_failed(self, entry: FeedEvent, tries: int, error: BaseException) -> None:
        stack = error if tries in (1, self._listener.tries) else None
        if tries >= self._listener.tries:
            log.error("%s: failed on %s for the last time", self.name, _text(entry), exc_info=stack)
            return
        pause = BETWEEN_TRIES.pause(tries - 1)
        self._retry_at = monotonic() + pause
        log.warning(
            "%s: failed on %s, try %d of %d, next in %g s: %s: %s",
            self.name, _text(entry), tries, self._listener.tries, pause, type(error).__name__, error, exc_info=stack,
        )  # fmt: skip


def _type_of(entry: FeedEvent) -> str | None:
    return None if entry.task_info is None else entry.task_info.type


def _text(entry: FeedEvent) -> str:
    return f"event {entry.event.id} (task {entry.event.task_id} {entry.event.kind})"


def _call(function: Callable[[Event], Any], event: Event) -> BaseException | None:
    """Call a `def`; returns what it raised, as a value, since a future takes no StopIteration."""
    try:
        answer = function(event)
    except BaseException as error:
        return error
    if inspect.iscoroutine(answer):
        answer.close()
        return TypeError(f"{function.__qualname__} returns a coroutine that is never awaited: make it an `async def`")
    return None


@asynccontextmanager
async def listening(listeners: Sequence[Listener], store: Store, settings: Settings) -> AsyncIterator[None]:
    """Call these listeners while the block runs."""
    threads = Threads("headgate listener store", 2 * len(listeners) or 1)  # for the feed of each, and its lease
    calls = Threads("headgate listener", len(listeners) or 1)
    feed, holder = Feed(store), f"{socket.gethostname()}-{os.getpid()}-{new_uuid7()[-8:]}"
    services = [ListenerService(each, feed, store, settings, threads, calls, holder) for each in listeners]
    for service in services:
        service.start()
    try:
        yield
    finally:
        await asyncio.gather(*(service.stop() for service in services))
        threads.close()
        calls.close(wait=False)
