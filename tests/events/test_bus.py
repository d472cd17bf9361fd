"""One reader for all listeners, and only while there are any."""

import asyncio
from contextlib import suppress

import pytest

from headgate.core.task import NewTask
from headgate.events import live
from headgate.events.live import Bus, BusEnded, Feed
from headgate.store.store import open_store
from tests.factories import TYPES


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        for task_type in TYPES:
            opened.types.put(task_type)
        yield opened


class Watched(Feed):
    """The feed, with its readings counted."""

    def __init__(self, store):
        super().__init__(store)
        self.readings = 0

    def read(self, place, limit):
        self.readings += 1
        return super().read(place, limit)


async def task_ids(listener, count):
    found: list[int | None] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            if (found_event := await listener.next(0.1)) is not None:
                found.append(found_event.event.task_id)
    return found


def test_the_feed_is_read_once_however_many_listen_and_not_at_all_when_nobody_does(store):
    """Spec: D6"""

    async def story():
        feed = Watched(store)
        bus = Bus(feed, asyncio.to_thread, pause=30.0)
        listeners = [await bus.join() for _ in range(20)]
        before = feed.readings
        made = [done.id for done in store.tasks.submit_many([NewTask("plain")] * 5)]
        bus.wake()
        for listener in listeners:
            assert await task_ids(listener, 5) == made
        assert feed.readings - before <= 2
        for listener in listeners:
            bus.leave(listener)
        [tail] = [task for task in asyncio.all_tasks() if task.get_name() == "headgate events"]
        await asyncio.wait([tail], timeout=30)
        readings = feed.readings
        bus.wake()
        assert feed.readings == readings

    asyncio.run(story())


def test_without_a_word_the_bus_looks_by_itself(store):
    """Spec: D6"""

    async def story():
        bus = Bus(Feed(store), asyncio.to_thread, pause=0.01)
        listener = await bus.join()
        made = await asyncio.to_thread(store.tasks.submit, NewTask("plain"))
        assert await task_ids(listener, 1) == [made.id]
        bus.close()

    asyncio.run(story())


def test_a_listener_that_falls_behind_is_cut_off_and_the_others_are_not(store, monkeypatch):
    """Spec: D6"""
    monkeypatch.setattr(live, "MOST_WAITING", 10)

    async def story():
        bus = Bus(Feed(store), asyncio.to_thread, pause=0.01)
        slow, quick = await bus.join(), await bus.join()
        made: list[int | None] = []
        for _ in range(4):
            made += [done.id for done in await asyncio.to_thread(store.tasks.submit_many, [NewTask("plain")] * 4)]
            await task_ids(quick, 4)
        with pytest.raises(BusEnded, match="behind"):
            await slow.next(0)
        assert bus.listeners == 1
        bus.close()
        with pytest.raises(BusEnded, match="closing"):
            await quick.next(0)

    asyncio.run(story())


def test_a_store_that_is_away_for_a_while_costs_no_event(store):
    """Spec: D6"""

    class Away(Feed):
        away = False

        def read(self, place, limit):
            if self.away:
                raise ConnectionError("nobody there")
            return super().read(place, limit)

    async def story():
        feed = Away(store)
        bus = Bus(feed, asyncio.to_thread, pause=0.01)
        listener = await bus.join()
        feed.away = True
        made = await asyncio.to_thread(store.tasks.submit, NewTask("plain"))
        with suppress(TimeoutError):
            assert await listener.next(0.1) is None
        feed.away = False
        assert await task_ids(listener, 1) == [made.id]
        bus.close()

    asyncio.run(story())
