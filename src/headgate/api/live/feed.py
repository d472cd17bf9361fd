"""The store's feed for listeners: a place behind each event, what its task is, and how to go on from any place."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate.core.errors import Invalid, NotFound
from headgate.core.events import AuditEvent
from headgate.core.task import Task
from headgate.events.bus import PAGE, Bus, FeedEvent, Subscription
from headgate.packs.media.lanes import NAMES as REQUEST_LANES
from headgate.store.db.pages import MOST_PER_PAGE
from headgate.store.events.feed import Cursor, Gap
from headgate.store.store import Store

INT64 = 2**63 - 1
MOST_KNOWN = 20_000
MOST_IN_GAPS = 50_000  # ids in the gaps of a cursor that somebody brings: all of them are looked up at once
LATE_SECONDS = 1.0
InThread = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What listeners can filter on, of an event's task. None of it ever changes."""

    type: str
    lane: str
    subscription_id: int | None = None


class TaskInfoCache:
    """The type and lane of the tasks that were looked up last."""

    def __init__(self, store: Store, most: int = MOST_KNOWN) -> None:
        self._store = store
        self._most = most
        self._known: OrderedDict[int, TaskInfo | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, task_ids: Iterable[int]) -> dict[int, TaskInfo | None]:
        """What is known of each task; None for one that is gone."""
        with self._lock:
            wanted = set(task_ids)
            found = {task_id: self._known[task_id] for task_id in wanted if task_id in self._known}
        missing = sorted(wanted - found.keys(), reverse=True)
        while missing:
            learnt = self._look_up(missing)
            found |= learnt
            missing = [task_id for task_id in missing if task_id not in found]
        with self._lock:
            self._known |= found
            for task_id in found:
                self._known.move_to_end(task_id)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return {task_id: found[task_id] for task_id in wanted}

    def _look_up(self, missing: Sequence[int]) -> dict[int, TaskInfo | None]:
        """The newest of those missing, and what lies beside it: ids of new tasks follow each other."""
        first, rest = missing[0], missing[:MOST_PER_PAGE]
        span = first - rest[-1] + 1
        if len(rest) < 3 or span > 2 * len(rest) or span > MOST_PER_PAGE:
            try:
                return {first: task_info(self._store.tasks.get(first))}
            except NotFound:
                return {first: None}
        page = self._store.tasks.find(cursor=first + 1, limit=span).items
        known = {task.id: task_info(task) for task in page}
        return {task_id: known.get(task_id) for task_id in rest}


def task_info(task: Task) -> TaskInfo:
    return TaskInfo(task.type, task.lane, subscription_of(task.ext) if task.lane in REQUEST_LANES else None)


class _RequestArguments(msgspec.Struct):
    subscription_id: int | None = None


def subscription_of(ext: str) -> int | None:
    try:
        return msgspec.json.decode(ext, type=_RequestArguments).subscription_id
    except msgspec.MsgspecError:
        return None


class Feed:
    """The source of the bus."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.task_infos = TaskInfoCache(store)

    def end(self) -> Cursor:
        return self._store.events.last()

    def read(self, place: Cursor, limit: int) -> tuple[list[FeedEvent[Cursor]], Cursor]:
        events, after = self._store.events.after(place, limit)
        task_infos = self.task_infos.of(event.task_id for event in events if event.task_id is not None)
        return [
            FeedEvent(event, behind, None if event.task_id is None else task_infos[event.task_id])
            for event, behind in zip(events, cursors_after(place, events, after), strict=True)
        ], after


def cursors_after(before: Cursor, events: Sequence[AuditEvent], after: Cursor) -> list[Cursor]:
    """The cursor behind each event of a page that was read from `before` and ended at `after`."""
    found = []
    late = before.gaps
    for event in events:
        if event.id <= before.high:  # it filled a gap; those behind it are not told yet, whoever has ended meanwhile
            late = subtract_gaps(late, [Gap(event.id, event.id, 0)])
            found.append(Cursor(before.high, late))
        else:
            found.append(Cursor(event.id, tuple(gap for gap in after.gaps if gap.last < event.id)))
    return [*found[:-1], after] if found else []


def subtract_gaps(gaps: Sequence[Gap], others: Sequence[Gap]) -> tuple[Gap, ...]:
    """What is left of gaps when others are taken out of them."""
    left = list(gaps)
    for other in others:
        left = [part for gap in left for part in _cut(gap, other)]
    return tuple(left)


def _cut(gap: Gap, other: Gap) -> list[Gap]:
    if other.last < gap.first or gap.last < other.first:
        return [gap]
    parts = [Gap(gap.first, other.first - 1, gap.xmax), Gap(other.last + 1, gap.last, gap.xmax)]
    return [part for part in parts if part.first <= part.last]


def gap_around(place: Cursor, event_id: int) -> Gap | None:
    """The gap that an id lies in."""
    return next((gap for gap in place.gaps if gap.first <= event_id <= gap.last), None)


def parse_cursor(text: str, dialect: str) -> Cursor:
    """The cursor that a client brings; `Invalid` for one that no server can have given."""
    cursor = Cursor.parse(text)
    numbers = [cursor.high, *(number for gap in cursor.gaps for number in (gap.first, gap.last, gap.xmax))]
    backwards = any(gap.first > gap.last for gap in cursor.gaps)
    below = sum(gap.last - gap.first + 1 for gap in cursor.gaps)
    if not all(0 <= number <= INT64 for number in numbers) or backwards or (cursor.gaps and dialect != "postgres"):
        raise Invalid("not an event cursor of this server")
    if below > MOST_IN_GAPS:
        raise Invalid("the cursor has too much below it: begin anew without one")
    return cursor


class Follower:
    """One client's way through the feed: first what it missed, from the store, then live. Each event once."""

    def __init__(
        self, feed: Feed, subscription: Subscription[Cursor], in_thread: InThread, start: Cursor | None
    ) -> None:
        if start is not None and start.high > subscription.start.high:
            raise Invalid("the cursor is ahead of everything that has happened here")
        self._feed = feed
        self.subscription = subscription
        self._in_thread = in_thread
        self._late: tuple[Gap, ...] = ()  # what may still come to this client and not by way of the bus
        self.place = subscription.start if start is None else start

    async def entries(self, seconds: float) -> AsyncIterator[FeedEvent[Cursor] | None]:
        """Yield events as they come, None after so many seconds without one; `place` is behind the last of them."""
        async for entry in self._missed_entries():
            yield entry
        while True:
            for entry in await self._late_entries() if self._late else []:
                yield entry
            live_entry = await self.subscription.next(min(seconds, LATE_SECONDS) if self._late else seconds)
            if live_entry is not None:
                live_entry = self._with_gaps(live_entry, self._late)
                self.place = live_entry.place
            yield live_entry

    async def _missed_entries(self) -> AsyncIterator[FeedEvent[Cursor]]:
        """What lies between the client's place and the start of its subscription, which is ahead: it was read later."""
        end, read_to = self.subscription.start, self.place
        held: list[Gap] = []
        fresh = read_to == end
        while not fresh:
            page, read_to = await self._in_thread(self._feed.read, read_to, PAGE)
            for entry in page:
                if entry.event.id > end.high:
                    break
                if gap := gap_around(end, entry.event.id):  # the subscription will bring it
                    held.append(Gap(entry.event.id, entry.event.id, gap.xmax))
                    continue
                entry = self._with_gaps(entry, held)
                self.place = entry.place
                yield entry
            fresh = read_to.high >= end.high or not page
        below = [gap for gap in read_to.gaps if gap.last <= end.high]
        self._late = subtract_gaps(below, end.gaps)
        self.place = Cursor(end.high, (*end.gaps, *self._late))

    async def _late_entries(self) -> list[FeedEvent[Cursor]]:
        """What was missing when this client came back and is there by now, of ids that the bus does not look for."""
        page, after = await self._in_thread(self._feed.read, Cursor(INT64, self._late), PAGE)
        found = []
        for late in page:
            self._late = subtract_gaps(self._late, [Gap(late.event.id, late.event.id, 0)])
            base = Cursor(self.place.high, subtract_gaps(self.place.gaps, [Gap(late.event.id, late.event.id, 0)]))
            self.place = base
            found.append(FeedEvent(late.event, base, late.task_info))
        self._late = after.gaps
        return found

    @staticmethod
    def _with_gaps(entry: FeedEvent[Cursor], gaps: Sequence[Gap]) -> FeedEvent[Cursor]:
        if not gaps:
            return entry
        return FeedEvent(entry.event, Cursor(entry.place.high, (*entry.place.gaps, *gaps)), entry.task_info)


class LiveEvents:
    """Everything that happens, for whoever listens at this server."""

    def __init__(self, store: Store, in_thread: InThread, stopping: asyncio.Event) -> None:
        self.feed = Feed(store)
        self.bus = Bus(self.feed, in_thread)
        self._dialect = store.database.dialect
        self._in_thread = in_thread
        self._stopping = stopping
        self._watch: asyncio.Task[None] | None = None
        store.wakeups.on_work(lambda wakes: self.bus.wake())

    async def join(self, cursor: str | None) -> Follower:
        """A listener that goes on at its cursor, or begins now; `leave` it in the end."""
        start = None if cursor is None else parse_cursor(cursor, self._dialect)
        if self._watch is None:
            self._watch = asyncio.create_task(self._close_in_time(), name="headgate events end")
        subscription = await self.bus.join()
        try:
            return Follower(self.feed, subscription, self._in_thread, start)
        except Invalid:
            self.bus.leave(subscription)
            raise

    def leave(self, follower: Follower) -> None:
        self.bus.leave(follower.subscription)

    def close(self) -> None:
        """Send every listener away."""
        self.bus.close()
        if self._watch is not None:
            self._watch.cancel()

    async def _close_in_time(self) -> None:
        await self._stopping.wait()
        self.bus.close()
