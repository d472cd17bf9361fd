"""Those who fire, and those who edit meanwhile: rows are locked first, and what was reckoned before is judged again."""

import pytest

from headgate.core.schedule import ScheduleStatus
from headgate.duties.schedules import due_firings
from tests.schedules import CALLED, fired, logged, made, new, online, take_calls
from tests.store.races import BEFORE_THE_TAKE, Stage, only

ME, ANOTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
EDIT = "UPDATE headgate_periodic_task SET version = version + 1, status = 'offline', next_tick = NULL"


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def scheduler(stage):
    return stage.store()


def reckon_due(store):
    return list(due_firings(*store.schedules.due()))


def in_flight(stage, store):
    """Somebody who fires and has not committed: they wait for the rival before their audit rows."""
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    firing = stage.beside(store.schedules.fire, reckon_due(store))
    stage.await_waiters(firing)
    return rival, firing


def test_offline_waits_for_a_tick_in_flight_and_no_other_comes_after_it(stage, clock, scheduler):
    """Spec: B9"""
    schedule = online(scheduler)
    clock.advance(60)
    rival, firing = in_flight(stage, scheduler)
    other = stage.store()
    going = stage.beside(other.schedules.offline, schedule.id)
    stage.await_waiters(firing, going)
    rival.commit()
    assert only(firing).ticks == 1
    assert only(going).status is ScheduleStatus.OFFLINE
    clock.advance(60)
    assert other.schedules.fire(reckon_due(other)).ticks == 0
    assert fired(other, schedule) == [1]


def test_who_fires_does_not_wait_for_who_edits_and_finds_out_afterwards(stage, clock, scheduler):
    """Spec: B9"""
    schedule = online(scheduler)
    clock.advance(60)
    mine = reckon_due(scheduler)
    rival = stage.rival()
    rival.run(EDIT)
    assert scheduler.schedules.fire(mine).schedules == 0
    rival.commit()
    assert scheduler.schedules.fire(mine).schedules == 0
    assert fired(scheduler, schedule) == []


def test_an_edit_that_is_given_up_leaves_the_tick_to_be_fired(stage, clock, scheduler):
    """Spec: B9"""
    schedule = online(scheduler)
    clock.advance(60)
    mine = reckon_due(scheduler)
    rival = stage.rival()
    rival.run(EDIT)
    assert scheduler.schedules.fire(mine).schedules == 0
    rival.rollback()
    assert scheduler.schedules.fire(mine).schedules == 1
    assert fired(scheduler, schedule) == [1]


def test_of_two_who_fire_at_once_the_second_waits_for_nothing_and_does_nothing(stage, clock, scheduler):
    """Spec: B9"""
    first, second = online(scheduler), online(scheduler)
    clock.advance(60)
    other = stage.store()
    theirs = reckon_due(other)
    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_periodic_task WHERE id = %s FOR NO KEY UPDATE", first.id)
    assert other.schedules.fire(theirs).schedules == 1
    rival.commit()
    assert scheduler.schedules.fire(reckon_due(scheduler)).schedules == 1
    assert (fired(scheduler, first), fired(scheduler, second)) == ([1], [1])


def test_a_trigger_by_hand_beside_a_tick_in_flight_sees_what_the_tick_began(stage, clock, scheduler):
    """Spec: B9"""
    schedule = online(scheduler, overlap="skip")
    clock.advance(60)
    rival, firing = in_flight(stage, scheduler)
    other = stage.store()
    by_hand = stage.beside(other.schedules.trigger, schedule.id)
    stage.await_waiters(firing, by_hand)
    rival.commit()
    assert only(firing).ticks == 1
    with pytest.raises(Exception, match="has not ended"):
        only(by_hand)
    assert len(made(other)) == 1


def test_calls_that_queue_are_not_taken_past_one_that_is_just_being_taken(stage, clock, scheduler):
    """Spec: B9"""
    online(scheduler, http=CALLED, overlap="queue")
    for _ in range(2):
        clock.advance(60)
        scheduler.schedules.fire(reckon_due(scheduler))
    rival = stage.rival()
    rival.run("UPDATE headgate_periodic_run SET caller = %s WHERE id = (SELECT min(id) FROM headgate_periodic_run)", ME)
    assert take_calls(scheduler, ANOTHER) == []
    rival.commit()
    assert take_calls(scheduler, ANOTHER) == []


def test_offline_ends_no_call_that_is_just_being_taken(stage, clock, scheduler):
    """Spec: B9"""
    schedule = online(scheduler, http=CALLED)
    clock.advance(60)
    scheduler.schedules.fire(reckon_due(scheduler))
    rival = stage.rival()
    rival.run("UPDATE headgate_periodic_run SET caller = %s", ME)
    going = stage.beside(scheduler.schedules.offline, schedule.id)
    stage.await_waiters(going)
    rival.commit()
    assert only(going).status is ScheduleStatus.OFFLINE
    assert logged(scheduler, schedule) == [("executing", None)]
    assert [caller for _, caller in scheduler.schedules.calls_under_way()] == [ME]


def test_two_who_end_the_same_runs_end_each_once(stage, clock, scheduler):
    """Spec: B10"""
    schedule = online(scheduler)
    clock.advance(60)
    scheduler.schedules.fire(reckon_due(scheduler))
    scheduler.tasks.cancel(made(scheduler)[0].id)
    rival = stage.rival()
    rival.run("DELETE FROM headgate_periodic_run")
    late = stage.beside(scheduler.schedules.end_runs)
    stage.await_waiters(late)
    rival.commit()
    assert only(late) == (0, None)
    assert logged(scheduler, schedule) == [("executing", None)]


def test_programs_that_declare_one_schedule_at_once_make_one(stage, scheduler):
    """Spec: B9"""
    rival = stage.rival()
    rival.run(
        "INSERT INTO headgate_periodic_task (tenant_id, type, creator, cron_expressions, timezone, status, log, ext,"
        " missed,"
        " overlap, options, code, create_date, update_date) VALUES (0, 'plain', 0, '* * * * *', 'UTC', 'offline',"
        " 'none', '{}', 'skip', 'allow', '{}', 'a', now(), now())"
    )
    late = stage.beside(scheduler.schedules.register, [new(code="a")])
    stage.await_waiters(late)
    rival.commit()
    only(late)
    assert [each.status for each in scheduler.schedules.find()] == [ScheduleStatus.OFFLINE]
