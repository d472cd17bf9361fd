"""Listeners that come and go at any moment, while events commit in any order: each hears each event once."""

import asyncio
import random
from contextlib import closing

import psycopg
import pytest

from headgate.core.events import AuditEvent
from headgate.environment import monotonic, utc_now
from headgate.events.live import BusEnded, Feed, Follower, Listener, LiveEvents
from headgate.store.events.feed import Cursor, Gap, cursors_after, subtract_gaps
from headgate.store.store import open_store

NOTE = """
INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor) VALUES (NULL, 0, 0, now(), 'note', 'rival')
RETURNING id
"""
STEPS = 150


class Rival:
    """Somebody who takes ids and commits them when it likes, or never."""

    def __init__(self, url):
        self._connection = psycopg.connect(url)
        self._ids: list[int] = []

    def note(self):
        self._connection.execute("SELECT pg_current_xact_id()")
        [[event_id]] = self._connection.execute(NOTE).fetchall()
        self._ids.append(event_id)

    def end(self, commit):
        ids, self._ids = self._ids, []
        if commit:
            self._connection.commit()
            return ids
        self._connection.rollback()
        return []

    def close(self):
        self._connection.close()


class Client:
    """A listener that keeps its cursor as text, and comes back with it."""

    def __init__(self, cursor):
        self.cursor = cursor
        self.event_ids: list[int] = []
        self._task = None

    async def come(self, live):
        follower = await live.join(self.cursor)

        async def listen():
            try:
                async for found in follower.entries(0.05):
                    if found is not None:
                        self.event_ids.append(found.event.id)
                        self.cursor = str(found.place)
            except BusEnded:
                pass

        self._follower = follower
        self._live = live
        self._task = asyncio.create_task(listen())

    async def go(self):
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._live.leave(self._follower)
            self._task = None


@pytest.mark.parametrize("seed", range(4))
def test_every_listener_hears_every_event_once_whatever_commits_when_and_whoever_restarts(postgres, seed):
    """Spec: D6"""

    async def story():
        dice = random.Random(seed)
        clients = [Client("0") for _ in range(3)]
        committed: list[int] = []
        lives = [LiveEvents(store, asyncio.to_thread, asyncio.Event()) for store in stores]
        for _ in range(STEPS):
            match dice.randrange(8):
                case 0 | 1 | 2:
                    dice.choice(rivals).note()
                case 3 | 4:
                    committed += dice.choice(rivals).end(commit=dice.random() < 0.8)
                case 5:
                    client = dice.choice(clients)
                    await client.go()
                    await client.come(dice.choice(lives))
                case 6:
                    await dice.choice(clients).go()
                case 7:
                    which = dice.randrange(2)  # a server restarts
                    lives[which].close()
                    lives[which] = LiveEvents(stores[which], asyncio.to_thread, asyncio.Event())
            await asyncio.sleep(dice.random() * 0.02)
        for rival in rivals:
            committed += rival.end(commit=True)
        for client in clients:
            await client.go()
            await client.come(lives[0])
        end = monotonic() + 30
        while any(len(client.event_ids) < len(committed) for client in clients) and monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for client in clients:
            await client.go()
            assert sorted(client.event_ids) == sorted(committed)
        for live in lives:
            live.close()

    rivals = [Rival(postgres) for _ in range(4)]
    with open_store(postgres) as first, open_store(postgres) as second:
        stores = [first, second]
        try:
            asyncio.run(story())
        finally:
            for rival in rivals:
                rival.close()


def test_a_place_is_never_behind_an_event_that_is_still_to_come(postgres):
    """Spec: D6"""

    async def story(store, rival):
        start = store.events.last()
        rival.note()
        rival.note()
        store.lanes.pause(None)
        end = Cursor(store.events.last().high)  # of a bus that does not look for what the rival has
        follower = Follower(Feed(store), Listener(end), asyncio.to_thread, start)
        heard = []
        async with asyncio.timeout(120):
            async for found in follower.entries(0.01):
                if found is None:
                    continue
                heard.append(found.event.id)
                assert follower.place == found.place
                if len(heard) == 1:
                    late = rival.end(commit=True)
                if len(heard) == 3:
                    break
        assert heard[1:] == late

    with open_store(postgres) as store, closing(Rival(postgres)) as rival:
        asyncio.run(story(store, rival))


def happening(number):
    return AuditEvent(number, None, 0, 0, utc_now(), "note", None, None, "x", None, None, None)


def test_the_place_behind_each_event_of_a_page_leaves_out_those_and_no_others():
    """Spec: D6"""
    before = Cursor(10, (Gap(3, 5, 70), Gap(8, 8, 80)))
    after = Cursor(15, (Gap(5, 5, 70), Gap(11, 11, 90), Gap(13, 14, 90)))
    events = [happening(number) for number in (3, 4, 8, 12, 15)]
    assert cursors_after(before, events, after) == [
        Cursor(10, (Gap(4, 5, 70), Gap(8, 8, 80))),
        Cursor(10, (Gap(5, 5, 70), Gap(8, 8, 80))),
        Cursor(10, (Gap(5, 5, 70),)),
        Cursor(12, (Gap(5, 5, 70), Gap(11, 11, 90))),
        after,
    ]
    assert cursors_after(before, [], after) == []


@pytest.mark.parametrize(
    ("other", "left"),
    [
        (Gap(1, 2, 0), [Gap(3, 9, 7)]),
        (Gap(3, 9, 0), []),
        (Gap(1, 20, 0), []),
        (Gap(5, 5, 0), [Gap(3, 4, 7), Gap(6, 9, 7)]),
        (Gap(1, 5, 0), [Gap(6, 9, 7)]),
        (Gap(8, 12, 0), [Gap(3, 7, 7)]),
    ],
)
def test_a_gap_without_another_is_what_is_left_of_it(other, left):
    """Spec: D6"""
    assert list(subtract_gaps([Gap(3, 9, 7)], [other])) == left
