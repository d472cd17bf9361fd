"""The duty that fires: at its time, a batch a turn, and one that is broken holds up nobody."""

import asyncio
import logging
from dataclasses import replace

import pytest

import headgate.duties.schedules
from headgate.core.schedule import ScheduleStatus
from headgate.duties import FireSchedules
from headgate.settings import Settings
from headgate.store.schedules.schedules import Schedules
from headgate.store.store import open_store
from headgate.threads import inline
from tests.duties.turns import settle_down, turn
from tests.factories import TYPES, sql
from tests.schedules import CALLED, fired, lines, logged, made, new, online

SOON = 120.0


@pytest.fixture
def periodic(store):
    return FireSchedules(store, Settings(), inline)


def test_it_fires_what_is_due_and_then_there_is_nothing_to_do(store, clock, periodic):
    """Spec: B9"""
    schedule = online(store)
    assert turn(periodic) == 0
    clock.advance(60)
    assert settle_down(periodic) == [1]
    assert fired(store, schedule) == [1]


def test_it_sleeps_until_the_next_tick_and_a_second_at_most(store, clock, periodic):
    """Spec: B9"""
    turn(periodic)
    assert 0.9 <= periodic._next_pause() <= 1.1
    online(store)
    turn(periodic)
    assert 0.9 <= periodic._next_pause() <= 1.1
    clock.advance(59.75)
    turn(periodic)
    assert 0.25 <= periodic._next_pause() <= 0.28


def test_many_are_fired_batch_by_batch_and_many_in_one_transaction(store, clock, periodic, monkeypatch):
    """Spec: B9"""
    monkeypatch.setattr(headgate.duties.schedules, "BATCH", 4)
    monkeypatch.setattr(headgate.duties.schedules, "MOST_TICKS", 3)
    sizes = []
    fire = Schedules.fire

    def counted(self, firings):
        sizes.append(len(firings))
        return fire(self, firings)

    monkeypatch.setattr(Schedules, "fire", counted)
    schedules = [online(store) for _ in range(10)]
    clock.advance(60)
    assert settle_down(periodic) == [4, 4, 2]
    assert sizes == [3, 1, 3, 1, 2]
    assert {tuple(fired(store, schedule)) for schedule in schedules} == {(1,)}


def test_it_ends_the_log_of_what_has_ended(store, clock, periodic):
    """Spec: B10"""
    schedule = online(store)
    clock.advance(60)
    settle_down(periodic)
    store.tasks.cancel(made(store)[0].id)
    periodic._look_at = 0.0
    settle_down(periodic)
    assert logged(store, schedule)[0][0] == "failure"


def test_after_a_crash_between_a_tasks_end_and_its_log_another_process_writes_the_end(store, clock, periodic):
    """Spec: B10"""
    schedule = online(store)
    clock.advance(60)
    settle_down(periodic)
    store.tasks.cancel(made(store)[0].id)
    settle_down(FireSchedules(store, Settings(), inline))
    assert logged(store, schedule)[0][0] == "failure"


def test_a_schedule_that_cannot_be_fired_is_told_about_and_the_others_fire(store, clock, periodic, url, caplog):
    """Spec: B9"""
    bad, well = online(store), online(store)
    clock.advance(60)
    tick = sql(url, f"SELECT next_tick FROM headgate_periodic_task WHERE id = {bad.id}")[0][0]
    moment = tick if isinstance(tick, int) else f"'{tick}'"
    sql(
        url,
        "INSERT INTO headgate_periodic_task_log (periodic_task_id, tenant_id, result, tick, create_date, update_date)"
        f" VALUES ({bad.id}, 0, 'success', {moment}, {moment}, {moment})",
    )
    with caplog.at_level(logging.ERROR):
        turn(periodic)
    assert f"tick could not be run: schedule={bad.id}" in caplog.text
    assert (fired(store, bad), fired(store, well)) == ([], [1])


def test_a_zone_that_this_machine_does_not_know_is_left_to_others(store, clock, periodic, url, caplog):
    """Spec: B9"""
    odd, well = online(store), online(store)
    sql(url, f"UPDATE headgate_periodic_task SET timezone = 'Moon/Tranquility' WHERE id = {odd.id}")
    clock.advance(60)
    with caplog.at_level(logging.ERROR):
        turn(periodic)
    assert "no time zone 'Moon/Tranquility'" in caplog.text
    assert (fired(store, odd), fired(store, well)) == ([], [1])
    assert store.schedules.get(odd.id).next_tick == odd.next_tick


def test_one_that_was_stored_before_its_expression_was_refused_holds_up_no_other_and_can_be_mended(
    store, clock, periodic, url, caplog
):
    """Spec: B9"""
    odd, well = online(store), online(store)
    sql(url, f"UPDATE headgate_periodic_task SET cron_expressions = '*/61 * * * *' WHERE id = {odd.id}")
    clock.advance(60)
    with caplog.at_level(logging.ERROR):
        turn(periodic)
    assert "the step of minutes must be at most 59, not 61" in caplog.text
    assert (fired(store, odd), fired(store, well)) == ([], [1])
    found = store.schedules.get(odd.id)
    assert found in store.schedules.find()
    store.schedules.offline(odd.id)
    store.schedules.put(odd.id, replace(found.definition, cron_expressions="* * * * *"))
    store.schedules.online(odd.id)
    clock.advance(60)
    turn(periodic)
    assert fired(store, odd) == [2]


def lost_on_the_moon(url, *schedules):
    ids = ", ".join(str(schedule.id) for schedule in schedules)
    sql(url, f"UPDATE headgate_periodic_task SET timezone = 'Moon/Tranquility' WHERE id IN ({ids})")


def cannot_fire(monkeypatch, schedule):
    fire = Schedules.fire

    def failing(self, firings):
        if schedule.id in {firing.schedule.id for firing in firings}:
            raise RuntimeError("its row is broken at 10.0.0.1")
        return fire(self, firings)

    monkeypatch.setattr(Schedules, "fire", failing)


def test_one_that_stays_due_is_said_once_and_looked_at_a_pause_apart(store, clock, periodic, url, caplog, monkeypatch):
    """Spec: B9"""
    odd, broken = online(store), online(store)
    lost_on_the_moon(url, odd)
    cannot_fire(monkeypatch, broken)
    clock.advance(60)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert turn(periodic) == 0
            assert periodic._next_pause() >= 0.9
    assert len(caplog.records) == 2
    store.schedules.put(broken.id, new("*/2 * * * *"))
    clock.advance(90)
    turn(periodic)
    assert len(caplog.records) == 3  # it was changed, and ails still
    monkeypatch.undo()
    turn(periodic)
    assert fired(store, broken) == [2]
    assert turn(periodic) == 0
    cannot_fire(monkeypatch, broken)
    clock.advance(120)
    turn(periodic)
    assert len(caplog.records) == 4  # it had been well


def test_many_that_stay_due_hold_up_nobody(store, clock, periodic, url, monkeypatch):
    """Spec: B9"""
    monkeypatch.setattr(headgate.duties.schedules, "BATCH", 2)
    odd = [online(store) for _ in range(5)]
    lost_on_the_moon(url, *odd)
    well = [online(store) for _ in range(3)]
    clock.advance(60)
    settle_down(periodic)
    assert [fired(store, each) for each in well] == [[1]] * 3
    clock.advance(60)
    settle_down(periodic)
    assert [fired(store, each) for each in well] == [[1, 2]] * 3


def test_its_log_says_once_why_a_tick_waits_and_then_what_became_of_it(store, clock, periodic, url, monkeypatch):
    """Spec: B10"""
    odd, broken = online(store, missed="all"), online(store, missed="all")
    quiet, brief = online(store, log="none"), online(store, log="trigger_log")
    lost_on_the_moon(url, odd, quiet, brief)
    cannot_fire(monkeypatch, broken)
    clock.advance(60)
    turn(periodic)
    assert logged(store, odd) == []  # others may know its zone
    clock.advance(61)
    for duty in (periodic, periodic, FireSchedules(store, Settings(), inline)):
        turn(duty)
    assert logged(store, odd) == [("failure", "not fired yet: no time zone 'Moon/Tranquility'")]
    assert logged(store, broken) == [("failure", "not fired yet: RuntimeError, of which the scheduler's log says more")]
    assert lines(store, odd)[0].tick == odd.next_tick
    assert logged(store, quiet) == logged(store, brief) == []
    sql(url, f"UPDATE headgate_periodic_task SET timezone = 'UTC' WHERE id = {odd.id}")
    monkeypatch.undo()
    settle_down(periodic)
    for schedule in (odd, broken):
        assert fired(store, schedule) == [1, 2]
        assert logged(store, schedule) == [("executing", None)] * 2


def test_a_log_that_cannot_be_written_holds_up_nobody(store, clock, periodic, url, monkeypatch):
    """Spec: B9"""
    odd, well = online(store), online(store)
    lost_on_the_moon(url, odd)

    def fail(*_):
        raise RuntimeError("no log")

    monkeypatch.setattr(Schedules, "log_unfired", fail)
    clock.advance(120)
    turn(periodic)
    assert fired(store, well) == [2]


def test_who_makes_calls_is_told_of_them(store, clock):
    """Spec: B9"""
    notified = []
    periodic = FireSchedules(store, Settings(), inline, lambda: notified.append(1))
    online(store)
    clock.advance(60)
    turn(periodic)
    assert notified == []
    online(store, http=CALLED)
    clock.advance(60)
    turn(periodic)
    assert notified == [1]


def test_three_schedulers_by_the_real_clock_fire_each_second_once(url):
    """Spec: B9"""
    with open_store(url) as store:
        for task_type in TYPES:
            store.types.put(task_type)

        async def scene():
            duties = [FireSchedules(store, Settings(), asyncio.to_thread) for _ in range(3)]
            schedules = [store.schedules.add(new("* * * * * *"), status=ScheduleStatus.ONLINE) for _ in range(5)]
            for duty in duties:
                duty.start()
            try:
                async with asyncio.timeout(SOON):
                    while min(len(lines(store, each)) for each in schedules) < 3:  # noqa: ASYNC110 nobody signals it
                        await asyncio.sleep(0.05)
            finally:
                await asyncio.gather(*(duty.stop() for duty in duties))
            return schedules

        for schedule in asyncio.run(scene()):
            ticks = [line.tick.timestamp() for line in lines(store, schedule) if line.tick]
            assert ticks == [ticks[0] + number for number in range(len(ticks))]
