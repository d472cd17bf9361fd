"""The loop around every duty: it hears what happens meanwhile, survives what goes wrong, and ends when told to."""

import asyncio
import logging

import pytest

import headgate.pauses
from headgate.core.errors import Unavailable
from headgate.pauses import wait
from headgate.service import Service
from headgate.threads import inline

SOON = 120.0  # seconds in which a machine gets anything done


class Scripted(Service):
    """Does what it is told to, turn by turn; a turn beyond the script has nothing to do."""

    name = "scripted"

    def __init__(self, pause, *script):
        super().__init__()
        self.pause = pause
        self.turns = 0
        self.happened = asyncio.Event()
        self._script = list(script)

    async def turn(self):
        self.turns += 1
        step = self._script.pop(0) if self._script else 0
        self.happened.set()
        if isinstance(step, Exception):
            raise step
        return await step() if callable(step) else step

    async def turned(self, count):
        async with asyncio.timeout(SOON):
            while self.turns < count:
                self.happened.clear()
                await self.happened.wait()


def run(scene):
    asyncio.run(scene)


def test_a_turn_that_did_something_is_followed_by_another_at_once():

    async def scene():
        service = Scripted(3600, 5, 3, 0)
        service.start()
        await service.turned(3)
        await service.stop()
        assert service.turns == 3

    run(scene())


def test_a_turn_follows_every_pause():

    async def scene():
        service = Scripted(0.001)
        service.start()
        await service.turned(5)
        await service.stop()

    run(scene())


def test_a_wake_up_during_a_turn_is_not_lost():

    async def scene():
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def long():
            begun.set()
            await go_on.wait()
            return 0

        service = Scripted(3600, long)
        service.start()
        await begun.wait()
        service.wake()
        go_on.set()
        await service.turned(2)
        await service.stop()

    run(scene())


@pytest.mark.parametrize("in_thread", [inline, asyncio.to_thread], ids=["the loop's thread", "another thread"])
def test_a_wake_up_from_any_thread_ends_the_pause(in_thread):

    async def scene():
        service = Scripted(3600)
        service.start()
        for count in (1, 2, 3):
            await service.turned(count)
            await in_thread(service.wake)
        await service.turned(4)
        await service.stop()

    run(scene())


def test_a_wake_up_after_the_event_loop_has_ended_is_nobodys():
    """Spec: D9"""
    service = Scripted(3600)

    async def scene():
        service.start()
        await service.stop()

    run(scene())
    service.wake()


def test_a_stop_waits_for_the_turn_under_way_and_no_other_follows():
    """Spec: D9"""

    async def scene():
        begun, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def long():
            begun.set()
            await go_on.wait()
            ended.set()
            return 7

        service = Scripted(3600, long)
        service.start()
        await begun.wait()
        stopping = asyncio.create_task(service.stop())
        assert not await wait(ended, 0.01)
        assert not stopping.done()
        go_on.set()
        async with asyncio.timeout(SOON):
            await stopping
        assert ended.is_set()
        assert service.turns == 1

    run(scene())


@pytest.mark.parametrize("pause", [3600, 0.001])
def test_a_stop_ends_the_pause(pause):
    """Spec: D9"""

    async def scene():
        service = Scripted(pause)
        service.start()
        await service.turned(1)
        async with asyncio.timeout(SOON):
            await service.stop()
        await service.stop()

    run(scene())


def test_a_service_that_always_has_something_to_do_hears_the_stop():
    """Spec: D9"""

    class Busy(Scripted):
        async def turn(self):
            self.turns += 1
            self.happened.set()
            return await inline(lambda: 1)

    async def scene():
        service = Busy(3600)
        service.start()
        await service.turned(10)
        async with asyncio.timeout(SOON):
            await service.stop()

    run(scene())


def test_a_service_can_be_started_again():
    """Spec: D9"""

    async def scene():
        service = Scripted(3600)
        for count in (1, 2):
            service.start()
            await service.turned(count)
            await service.stop()

    run(scene())


def test_stopping_what_never_started_is_nothing():
    """Spec: D9"""
    run(Scripted(1).stop())


def test_a_cancelled_service_can_be_stopped():
    """Spec: D9"""

    async def scene():
        service = Scripted(3600)
        service.start()
        await service.turned(1)
        assert service._loop is not None
        service._loop.cancel()
        await service.stop()

    run(scene())


@pytest.mark.parametrize("error", [Unavailable("the store did not answer"), ZeroDivisionError("a bug")])
def test_a_service_survives_its_failures_and_says_so_once(error, caplog):

    async def scene():
        service = Scripted(0.001, error, error, error, 1, error, 1)
        service.start()
        await service.turned(7)
        await service.stop()

    with caplog.at_level(logging.INFO, logger="headgate"):
        run(scene())
    logged = [(record.levelno >= logging.WARNING, record.getMessage()) for record in caplog.records]
    assert [bad for bad, _ in logged] == [True, False, True, False]
    assert all("scripted" in text for _, text in logged)


def test_failures_are_tried_again_later_each_time_and_in_time_after_all(monkeypatch):
    monkeypatch.setattr(headgate.pauses, "random_number", lambda: 0.0)
    service = Scripted(1.0, *[Unavailable("no")] * 8, 0)
    pauses = []

    async def scene():
        for _ in range(9):
            await service._safe_turn()
            pauses.append(service._next_pause())

    run(scene())
    assert pauses == [2, 4, 8, 16, 30, 30, 30, 30, 1]


def test_a_pause_longer_than_the_longest_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(headgate.pauses, "random_number", lambda: 0.0)
    service = Scripted(60.0, Unavailable("no"))
    run(service._safe_turn())
    assert service._next_pause() == 60


def test_processes_do_not_march_in_step():
    service = Scripted(1.0)
    pauses = {service._next_pause() for _ in range(20)}
    assert len(pauses) > 1
    assert all(0.9 <= pause <= 1.0 for pause in pauses)
