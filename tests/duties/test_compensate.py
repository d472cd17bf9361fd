"""The duty that looks for lost starts: when it polls, what it says, and that many do it as one."""

import asyncio
import logging
import re
from datetime import timedelta

import pytest

from headgate.core.compensation import CompensationSettings
from headgate.core.states import State
from headgate.duties import Compensate
from headgate.duties.compensate import status_line, trigger
from headgate.events.log_lines import FIELDS
from headgate.settings import Settings
from headgate.store.execution.compensation import PollingStatus
from headgate.store.store import open_store
from headgate.threads import inline
from tests.duties.turns import changed, turn
from tests.factories import START
from tests.store.test_starts import Server, assigned

S = State
STATUS = re.compile(
    r"Task compensation polling status: interval=\d+ms, multiplier=\d+, queueSize=\d+, lastPoll=\d+, nextPollIn=\d+ms"
)


def duty_of(store, clock, **settings):
    return changed(Compensate(store, Settings(**settings), inline), monotonic=lambda: clock().timestamp())


@pytest.fixture
def duty(store, clock):
    return duty_of(store, clock)


@pytest.fixture
def logged(caplog):
    """What was logged since the last time it was asked for."""
    caplog.set_level(logging.INFO, "headgate.compensation")

    def take() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    return take


def live(clock, seconds, *duties):
    """Let time pass, each duty turning as often as it would by itself; when the store was polled."""
    times, due = [], dict.fromkeys(duties, clock())
    end = clock() + timedelta(seconds=seconds)
    while (now := min(due.values())) <= end:
        clock.now = now
        for duty in [each for each in duties if due[each] <= now]:
            before = duty._compensation.status(CompensationSettings()).last_poll
            turn(duty)
            after = duty._compensation.status(CompensationSettings()).last_poll
            if after != before:
                times.append(round((after - START).total_seconds()))
            due[duty] = now + timedelta(seconds=duty._next_pause())
    clock.now = end
    return times


def gaps(times):
    return [after - before for before, after in zip([0, *times], times, strict=False)]


def test_the_duty_polls_after_10_then_20_and_so_on_up_to_300_seconds(duty, clock):
    """Spec: E2"""
    times = live(clock, 6 * 3600, duty)
    assert all(abs(gap - wanted) <= 1 for gap, wanted in zip(gaps(times), [*range(10, 310, 10)], strict=False))
    assert set(gaps(times)[30:]) <= {300, 301}
    assert len(times) > 60


def test_duties_of_many_processes_poll_as_one(store, url, clock):
    """Spec: E2"""
    with open_store(url, clock) as second, open_store(url, clock) as third:
        duties = [duty_of(each, clock) for each in (store, second, third)]
        times = live(clock, 1000, *duties)
    assert all(abs(gap - wanted) <= 1 for gap, wanted in zip(gaps(times), range(10, 140, 10), strict=False))
    assert len(times) == 13


def test_a_lost_start_is_found_and_every_line_of_the_seed_is_logged(store, duty, clock, logged):
    """Spec: E2, E4"""
    server = Server(store)
    turn(duty)
    first, second = assigned(store, 2)
    assert server.ids(start_seconds=0) == [first, second]
    clock.advance(40)
    assert turn(duty) == 2
    assert logged() == [
        "Found 2 tasks need compensation",
        f"Compensating task start: taskId={first}, waitingTime=40000ms",
        "Task compensation executed immediately",
        f"Compensating task start: taskId={second}, waitingTime=40000ms",
        "Task compensation queued due to rate limit",
    ]
    clock.advance(10)
    assert turn(duty) == 0
    assert logged() == ["Task start queue has 2 pending tasks, skipping compensation"]


def test_the_status_is_logged_once_a_minute_in_the_seeds_words(duty, clock, logged):
    """Spec: E4"""
    live(clock, 305, duty)
    lines = logged()
    assert [bool(STATUS.fullmatch(each)) for each in lines] == [True] * 5
    assert "interval=50000ms, multiplier=5, queueSize=0, " in lines[1]


def test_the_line_is_the_seeds_word_for_word():
    """Spec: E4"""
    at = START.replace(year=2022, month=1, day=1, hour=0)
    status = PollingStatus(30.0, 3, 0, 0, at, at + timedelta(seconds=30), 15.0)
    assert status_line(status) == (
        "Task compensation polling status: interval=30000ms, multiplier=3, queueSize=0, lastPoll=1640995200000, "
        "nextPollIn=15000ms"
    )


def test_what_it_logs_of_a_task_names_it_for_programs(store, duty, clock, caplog):
    """Spec: D10, E4"""
    caplog.set_level(logging.INFO, "headgate.compensation")
    [task_id] = assigned(store, 1)
    Server(store).ids()
    clock.advance(31)
    trigger(store, CompensationSettings(), "ann")
    task_ids = [getattr(record, FIELDS, {}).get("task_id") for record in caplog.records]
    assert task_ids == [None, None, task_id, task_id]


def test_a_trigger_polls_at_once_and_a_duty_that_sleeps_goes_on_from_the_base(store, duty, clock, logged):
    """Spec: E4"""
    live(clock, 2000, duty)
    assert store.compensation.status(CompensationSettings()).interval_seconds > 100
    [task_id] = assigned(store, 1)
    Server(store).ids()
    clock.advance(31)
    logged()
    assert trigger(store, CompensationSettings(), "ann") == 1
    assert logged()[:2] == ["Manually triggering task start compensation", "Found 1 tasks need compensation"]
    assert store.tasks.get(task_id).status is S.QUEUED
    assert duty._next_pause() <= 11  # so often it looks, however far off the next poll seemed to be


def test_every_figure_can_be_set(store, clock, logged):
    """Spec: E5"""
    settings = {
        "compensation_base": 1.0, "compensation_step": 2.0, "compensation_max": 4.0, "compensation_threshold": 3.0,
        "compensation_status_seconds": 7.0, "compensation_max_skips": 1,
    }  # fmt: skip
    duty = duty_of(store, clock, **settings)
    assert gaps(live(clock, 15, duty)) == [1, 3, 4, 4]
    assert len([each for each in logged() if STATUS.fullmatch(each)]) == 2
    lost, _ = assigned(store, 2)
    Server(store).ids()
    clock.advance(3.5)
    turn(duty)
    assert logged()[0] == "Task start queue has 1 pending tasks, skipping compensation"
    clock.advance(1)
    assert turn(duty) == 1
    assert store.tasks.get(lost).status is S.QUEUED


def test_a_duty_stops_and_others_go_on_where_it_was(store, url, clock):
    """Spec: E2"""
    duty = duty_of(store, clock)
    live(clock, 100, duty)
    with open_store(url, clock) as other:
        server = Server(other)
        [task_id] = assigned(other, 1)
        server.ids()
        heir = duty_of(other, clock)
        live(clock, 60, heir)
        assert other.tasks.get(task_id).status is S.QUEUED


def test_it_runs_by_the_real_clock_too():
    """Spec: E2"""

    async def scene(store):
        settings = Settings(compensation_base=0.05, compensation_step=0.05, compensation_max=0.1)
        duty = Compensate(store, settings, asyncio.to_thread)
        duty.start()
        async with asyncio.timeout(120):
            while store.compensation.status(CompensationSettings()).last_poll is None:  # noqa: ASYNC110 nobody signals it
                await asyncio.sleep(0.01)
            await duty.stop()

    with open_store("sqlite://") as real:
        real.migrate()
        asyncio.run(scene(real))
