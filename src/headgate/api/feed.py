"""The store's feed for listeners: a place behind each event, what its task is, and how to go on from any place."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate.core.errors import Invalid, NotFound
from headgate.core.events import Happening
from headgate.core.task import Task
from headgate.events.bus import PAGE, Bus, Ear, Told
from headgate.packs.media.lanes import NAMES as REQUEST_LANES
from headgate.store.base import Store
from headgate.store.feed import Cursor, Gap
from headgate.store.lists import MOST_PER_PAGE

INT64 = 2**63 - 1
MOST_KNOWN = 20_000
MOST_BELOW = 50_000  # ids in the gaps of a cursor that somebody brings: all of them are looked up at once
LATE_SECONDS = 1.0
Aside = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a listener may ask for, of an event's task: none of it changes."""

    type: str
    lane: str
    subscription_id: int | None = None


class Kinds:
    """Of which kind tasks are: the latest of them, remembered."""

    def __init__(self, store: Store, most: int = MOST_KNOWN) -> None:
        self._store = store
        self._most = most
        self._known: OrderedDict[int, Kind | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, task_ids: Iterable[int]) -> dict[int, Kind | None]:
        """The kind of each; None for a task that is gone."""
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

    def _look_up(self, missing: Sequence[int]) -> dict[int, Kind | None]:
        """The newest of those missing, and what lies beside it: ids of new tasks follow each other."""
        first, rest = missing[0], missing[:MOST_PER_PAGE]
        span = first - rest[-1] + 1
        if len(rest) < 3 or span > 2 * len(rest) or span > MOST_PER_PAGE:
            try:
                return {first: kind_of(self._store.get(first))}
            except NotFound:
                return {first: None}
        page = self._store.find(cursor=first + 1, limit=span).items
        known = {task.id: kind_of(task) for task in page}
        return {task_id: known.get(task_id) for task_id in rest}


def kind_of(task: Task) -> Kind:
    return Kind(task.type, task.lane, subscription_of(task.ext) if task.lane in REQUEST_LANES else None)


class _About(msgspec.Struct):
    subscription_id: int | None = None


def subscription_of(ext: str) -> int | None:
    try:
        return msgspec.json.decode(ext, type=_About).subscription_id
    except msgspec.MsgspecError:
        return None


class Feed:
    """The source of the bus."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.kinds = Kinds(store)

    def end(self) -> Cursor:
        return self._store.last_event()

    def read(self, place: Cursor, limit: int) -> tuple[list[Told[Cursor]], Cursor]:
        events, after = self._store.feed(place, limit)
        kinds = self.kinds.of(event.task_id for event in events if event.task_id is not None)
        return [
            Told(event, behind, None if event.task_id is None else kinds[event.task_id])
            for event, behind in zip(events, places(place, events, after), strict=True)
        ], after


def places(before: Cursor, events: Sequence[Happening], after: Cursor) -> list[Cursor]:
    """The cursor behind each event of a page that was read from `before` and ended at `after`."""
    found = []
    late = before.gaps
    for event in events:
        if event.id <= before.high:  # it filled a gap; those behind it are not told yet, whoever has ended meanwhile
            late = without(late, [Gap(event.id, event.id, 0)])
            found.append(Cursor(before.high, late))
        else:
            found.append(Cursor(event.id, tuple(gap for gap in after.gaps if gap.last < event.id)))
    return [*found[:-1], after] if found else []


def without(gaps: Sequence[Gap], others: Sequence[Gap]) -> tuple[Gap, ...]:
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


def gap_at(place: Cursor, event_id: int) -> Gap | None:
    """The gap that an id lies in."""
    return next((gap for gap in place.gaps if gap.first <= event_id <= gap.last), None)


def brought(text: str, dialect: str) -> Cursor:
    """The cursor that a client brings; `Invalid` for one that no server can have given."""
    cursor = Cursor.parse(text)
    numbers = [cursor.high, *(number for gap in cursor.gaps for number in (gap.first, gap.last, gap.xmax))]
    backwards = any(gap.first > gap.last for gap in cursor.gaps)
    below = sum(gap.last - gap.first + 1 for gap in cursor.gaps)
    if not all(0 <= number <= INT64 for number in numbers) or backwards or (cursor.gaps and dialect != "postgres"):
        raise Invalid("not an event cursor of this server")
    if below > MOST_BELOW:
        raise Invalid("the cursor has too much below it: begin anew without one")
    return cursor


class Follower:
    """One client's way through the feed: first what it missed, from the store, then live. Each event once."""

    def __init__(self, feed: Feed, ear: Ear[Cursor], aside: Aside, start: Cursor | None) -> None:
        if start is not None and start.high > ear.start.high:
            raise Invalid("the cursor is ahead of everything that has happened here")
        self._feed = feed
        self.ear = ear
        self._aside = aside
        self._late: tuple[Gap, ...] = ()  # what may still come to this client and not by way of the bus
        self.place = ear.start if start is None else start

    async def hear(self, seconds: float) -> AsyncIterator[Told[Cursor] | None]:
        """Events as they come, None when there was none for so long; `place` is behind the last of them."""
        async for told in self._missed():
            yield told
        while True:
            for told in await self._latecomers() if self._late else []:
                yield told
            told_live = await self.ear.next(min(seconds, LATE_SECONDS) if self._late else seconds)
            if told_live is not None:
                told_live = self._placed(told_live, self._late)
                self.place = told_live.place
            yield told_live

    async def _missed(self) -> AsyncIterator[Told[Cursor]]:
        """What lies between the client's place and the ear's, which is ahead: it was read later."""
        end, read_to = self.ear.start, self.place
        held: list[Gap] = []
        fresh = read_to == end
        while not fresh:
            page, read_to = await self._aside(self._feed.read, read_to, PAGE)
            for told in page:
                if told.event.id > end.high:
                    break
                if gap := gap_at(end, told.event.id):  # it came after the ear's start: the ear hears of it
                    held.append(Gap(told.event.id, told.event.id, gap.xmax))
                    continue
                told = self._placed(told, held)
                self.place = told.place
                yield told
            fresh = read_to.high >= end.high or not page
        below = [gap for gap in read_to.gaps if gap.last <= end.high]
        self._late = without(below, end.gaps)
        self.place = Cursor(end.high, (*end.gaps, *self._late))

    async def _latecomers(self) -> list[Told[Cursor]]:
        """What was missing when this client came back and is there by now, of ids that the bus does not look for."""
        page, after = await self._aside(self._feed.read, Cursor(INT64, self._late), PAGE)
        told = []
        for late in page:
            self._late = without(self._late, [Gap(late.event.id, late.event.id, 0)])
            base = Cursor(self.place.high, without(self.place.gaps, [Gap(late.event.id, late.event.id, 0)]))
            self.place = base
            told.append(Told(late.event, base, late.about))
        self._late = after.gaps
        return told

    @staticmethod
    def _placed(told: Told[Cursor], gaps: Sequence[Gap]) -> Told[Cursor]:
        if not gaps:
            return told
        return Told(told.event, Cursor(told.place.high, (*told.place.gaps, *gaps)), told.about)


class Live:
    """Everything that happens, for whoever listens at this server."""

    def __init__(self, store: Store, aside: Aside, stopping: asyncio.Event) -> None:
        self.feed = Feed(store)
        self.bus = Bus(self.feed, aside)
        self._dialect = store.dialect
        self._aside = aside
        self._stopping = stopping
        self._watch: asyncio.Task[None] | None = None
        store.on_wake(lambda wakes: self.bus.wake())

    async def join(self, cursor: str | None) -> Follower:
        """A listener that goes on at its cursor, or begins now; `leave` it in the end."""
        start = None if cursor is None else brought(cursor, self._dialect)
        if self._watch is None:
            self._watch = asyncio.create_task(self._close_in_time(), name="headgate events end")
        ear = await self.bus.join()
        try:
            return Follower(self.feed, ear, self._aside, start)
        except Invalid:
            self.bus.leave(ear)
            raise

    def leave(self, follower: Follower) -> None:
        self.bus.leave(follower.ear)

    def close(self) -> None:
        """Send every listener away."""
        self.bus.close()
        if self._watch is not None:
            self._watch.cancel()

    async def _close_in_time(self) -> None:
        await self._stopping.wait()
        self.bus.close()
