"""Ticks: each makes its task once, with its audit row and its log, or says why it made none."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.cron import MAX_MISSED
from headgate.core.errors import NotFound, Refused, UnknownType
from headgate.core.machine import Returned
from headgate.core.schedule import COLUMNS, OPTIONS
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.duties.schedules import due_firings
from headgate.store.tasks.idempotency import Idempotency
from tests.factories import START, settle, sql, start, together
from tests.schedules import fired, lines, logged, made, new, online, tick


def firings(store):
    return list(due_firings(*store.schedules.due()))


def test_a_tick_makes_the_task_that_the_schedule_says(store, clock):
    """Spec: B9"""
    schedule = online(
        store, tenant_id=7, creator=5, category="night", ext='{"a": 1}', priority=2, mutex="m", lane="slow", name="n",
        rate_key="r", unique_key="u", max_error_count=4, timeout_seconds=9.0, on_child_failure="cancel",
    )  # fmt: skip
    assert tick(store, clock) == 1
    [task] = made(store)
    asked = schedule.definition.task._replace(correlation_id=f"periodic:{schedule.id}:2026-03-01T12:01:00Z")
    kept = (*COLUMNS, *OPTIONS, "correlation_id")
    assert {name: getattr(task, name) for name in kept} == {name: getattr(asked, name) for name in kept}
    assert task.status is State.QUEUED
    assert task.start_time == START + timedelta(minutes=1)
    first = store.events.of(task.id)[0]
    assert (first.kind, first.actor) == ("submitted", "system:periodic")


def test_before_its_time_nothing_happens(store, clock):
    """Spec: B9"""
    online(store)
    clock.advance(59.999)
    assert store.schedules.next_due() == pytest.approx(0.001)
    assert firings(store) == []


def test_with_nothing_online_nothing_is_due(store):
    """Spec: B9"""
    store.schedules.add(new())
    assert store.schedules.next_due() is None
    assert store.schedules.due() == ([], START)


def test_what_two_have_reckoned_is_done_once(store, clock):
    """Spec: B9"""
    schedules = [online(store) for _ in range(3)]
    clock.advance(60)
    mine, theirs = firings(store), firings(store)
    assert store.schedules.fire(mine).schedules == 3
    assert store.schedules.fire(theirs) == (0, 0, 0)
    assert [fired(store, schedule) for schedule in schedules] == [[1]] * 3


def test_many_that_fire_at_once_fire_each_tick_once(store, clock):
    """Spec: B9"""
    schedules = [online(store) for _ in range(20)]
    for _ in range(4):
        clock.advance(60)
        together(*[lambda: store.schedules.fire(firings(store))] * 6)
    for schedule in schedules:
        assert fired(store, schedule) == [1, 2, 3, 4]
        assert len(lines(store, schedule)) == 4


def test_late_ticks_within_a_minute_all_fire(store, clock):
    """Spec: B9"""
    schedule = online(store, "*/20 * * * * *")
    assert tick(store, clock) == 1
    assert [line.tick for line in lines(store, schedule)] == [START + timedelta(seconds=s) for s in (20, 40, 60)]


@pytest.mark.parametrize(
    ("missed", "ticks", "told"),
    [("skip", [60], 1), ("once", [60], 1), ("all", list(range(1, 61)), 0)],
)
def test_what_was_missed_goes_by_the_policy_and_what_was_dropped_is_in_the_audit(
    store, clock, url, missed, ticks, told
):
    """Spec: B9"""
    schedule = online(store, missed=missed)
    assert tick(store, clock, minutes=60) == 1
    assert fired(store, schedule) == ticks
    acts = sql(url, "SELECT detail FROM headgate_task_event WHERE kind = 'ticks_missed'")
    assert [json.loads(detail) for (detail,) in acts] == [
        {
            "periodic_task": schedule.id,
            "missed": missed,
            "first": "2026-03-01T12:01:00Z",
            "until": "2026-03-01T13:00:00Z",
        }
    ] * told


def test_once_makes_a_missed_night_good_and_skip_does_not(store, clock):
    """Spec: B9"""
    schedules = [online(store, "0 13 * * *", missed=missed) for missed in ("once", "skip", "all")]
    assert tick(store, clock, minutes=50 * 60) == 3
    days = [60, 25 * 60, 49 * 60]
    assert [fired(store, schedule) for schedule in schedules] == [days[-1:], [], days]


def test_the_latest_thousand_are_made_good_in_one_transaction(store, clock):
    """Spec: B9"""
    schedule = online(store, "*/10 * * * * *", missed="all", log="none")
    clock.advance(86400)
    [firing] = firings(store)
    done = store.schedules.fire([firing])
    assert (done.schedules, done.ticks) == (1, MAX_MISSED + 6)
    assert store.schedules.get(schedule.id).next_tick == START + timedelta(days=1, seconds=10)


def test_a_clock_that_is_set_back_fires_no_tick_again_and_none_early(store, clock):
    """Spec: B9"""
    schedule = online(store)
    for _ in range(5):
        tick(store, clock)
    clock.advance(-200)
    assert tick(store, clock, minutes=0) == 0
    for _ in range(5):
        tick(store, clock)
    assert fired(store, schedule) == [1, 2, 3, 4, 5, 6]
    clock.advance(60)
    early = firings(store)
    clock.advance(-60)
    assert store.schedules.fire(early).schedules == 0


def test_a_clock_that_is_set_forward_fires_by_the_policy_and_no_tick_twice_when_it_is_set_back(store, clock):
    """Spec: B9"""
    schedule = online(store, missed="all")
    tick(store, clock, minutes=10)
    clock.advance(-600)
    for _ in range(12):
        tick(store, clock)
    assert fired(store, schedule) == list(range(1, 13))


# Overlap


def test_allowed_to_overlap_each_tick_has_its_task(store, clock):
    """Spec: B9"""
    online(store)
    tick(store, clock)
    tick(store, clock)
    assert len(start(store, 5)) == 2


def test_a_tick_is_skipped_while_the_task_of_an_earlier_one_is_open(store, clock):
    """Spec: B9"""
    schedule = online(store, overlap="skip")
    tick(store, clock)
    [running] = start(store)
    assert tick(store, clock) == 1
    settle(store, running, Returned())
    tick(store, clock)
    assert fired(store, schedule) == [1, 3]
    store.schedules.end_runs()
    assert logged(store, schedule) == [
        ("success", None), ("failure", f"skipped: task {running.id} has not ended"), ("executing", None),
    ]  # fmt: skip


@pytest.mark.parametrize("log", ["none", "trigger_log"])
def test_a_skipped_tick_is_no_trigger(store, clock, log):
    """Spec: B10"""
    schedule = online(store, overlap="skip", log=log)
    for _ in range(3):
        tick(store, clock)
    assert fired(store, schedule) == [1]
    assert len(lines(store, schedule)) == (log == "trigger_log")


def test_a_dead_task_or_one_in_history_holds_up_no_tick(store, clock):
    """Spec: B9"""
    schedule = online(store, overlap="skip")
    tick(store, clock)
    store.tasks.cancel(made(store)[0].id)
    assert store.history.archive() == 1
    tick(store, clock)
    assert fired(store, schedule) == [1, 2]


def test_of_late_ticks_that_must_not_overlap_one_fires(store, clock):
    """Spec: B9"""
    schedule = online(store, "*/20 * * * * *", overlap="skip")
    tick(store, clock)
    assert [result for result, _ in logged(store, schedule)] == ["executing", "failure", "failure"]


def test_ticks_that_queue_run_one_after_the_other_in_their_order(store, clock):
    """Spec: B9"""
    schedule = online(store, overlap="queue")
    for _ in range(3):
        tick(store, clock)
    ran = []
    while executions := start(store, 5):
        assert len(executions) == 1
        ran.append(executions[0].id)
        settle(store, executions[0], Returned())
    assert ran == sorted(task.id for task in made(store))
    assert {task.mutex for task in made(store)} == {f"periodic:{schedule.id}"}


def test_ticks_that_queue_keep_a_mutex_of_their_own(store, clock):
    """Spec: B9"""
    online(store, overlap="queue", mutex="shared")
    tick(store, clock)
    assert made(store)[0].mutex == "shared"


def test_an_open_task_with_the_unique_key_is_the_ticks_task(store, clock):
    """Spec: B9, X2"""
    schedule = online(store, unique_key="u")
    tick(store, clock)
    tick(store, clock)
    [task] = made(store)
    assert [line.task_id for line in lines(store, schedule)] == [task.id, task.id]


# What cannot be made


def test_a_type_that_is_gone_fails_its_tick_and_no_other_and_is_not_tried_again(store, clock):
    """Spec: B9"""
    store.types.put(TaskType("fleeting"))
    gone, well = online(store, type_code="fleeting"), online(store)
    store.types.remove("fleeting")
    assert tick(store, clock) == 2
    assert (logged(store, gone), logged(store, well)) == (
        [("failure", "no task type 'fleeting'")], [("executing", None)],
    )  # fmt: skip
    assert tick(store, clock, minutes=0) == 0
    store.types.put(TaskType("fleeting"))
    tick(store, clock)
    assert fired(store, gone) == [2]


def test_a_tick_s_task_gets_the_keys_that_its_type_makes_and_fails_alone_where_it_cannot(store, clock):
    """Spec: B9, B5, A10"""
    store.types.put(TaskType("keyed", mutex="film:{film}", rate_key="{film}", defaults={"film": 7}))
    keyed = online(store, type_code="keyed")
    assert tick(store, clock) == 1
    [task_id] = fired(store, keyed)
    assert (store.tasks.get(task_id).mutex, store.tasks.get(task_id).rate_key) == ("film:7", "7")
    store.types.put(TaskType("keyed", mutex="film:{film}"))
    well = online(store)
    assert tick(store, clock) == 2
    assert logged(store, keyed)[-1] == ("failure", "argument 'film' is missing: the key 'film:{film}' is made from it")
    assert logged(store, well) == [("executing", None)]


# The log


@pytest.mark.parametrize(("log", "result"), [("none", []), ("trigger_log", ["success"]), ("trans_log", ["executing"])])
def test_the_log_says_as_much_as_was_asked_for(store, clock, log, result):
    """Spec: B10"""
    schedule = online(store, log=log, tenant_id=7)
    tick(store, clock)
    found = lines(store, schedule)
    assert [line.result for line in found] == result
    for line in found:
        at = START + timedelta(minutes=1)
        assert (line.periodic_task_id, line.tenant_id, line.task_id) == (schedule.id, 7, made(store)[0].id)
        assert (line.tick, line.create_date, line.update_date, line.error_info) == (at, at, at, None)


def test_the_log_is_paged_newest_first(store, clock):
    """Spec: B10"""
    schedule = online(store)
    for _ in range(5):
        tick(store, clock)
    newest = store.schedules.logs(schedule.id, limit=2)
    assert [line.tick and line.tick.minute for line in newest] == [5, 4]
    assert [line.tick and line.tick.minute for line in store.schedules.logs(schedule.id, cursor=newest[-1].id)] == [
        3,
        2,
        1,
    ]


# By hand


@pytest.mark.parametrize("status", ["new", "online", "offline"])
def test_a_person_may_trigger_a_schedule_whatever_its_status_and_its_ticks_are_not_disturbed(store, clock, status):
    """Spec: B9"""
    schedule = online(store) if status == "online" else store.schedules.add(new())
    if status == "offline":
        store.schedules.offline(schedule.id)
    before = store.schedules.get(schedule.id)
    clock.advance(30)
    begun = store.schedules.trigger(schedule.id, actor="ann")
    assert store.schedules.get(schedule.id) == before
    [task] = made(store)
    assert (begun.task_id, task.correlation_id) == (task.id, f"periodic:{schedule.id}:by-hand")
    assert store.events.of(task.id)[0].actor == "ann"
    assert [(line.id, line.tick, line.task_id) for line in lines(store, schedule)] == [(begun.log_id, None, task.id)]
    if status == "online":
        tick(store, clock, minutes=0.5)
        assert fired(store, schedule) == [1]


def test_a_trigger_with_a_key_fires_once(store):
    """Spec: B9"""
    schedule = store.schedules.add(new())
    once = Idempotency("k", "trigger")
    assert store.schedules.trigger(schedule.id, once=once) == store.schedules.trigger(schedule.id, once=once)
    assert len(made(store)) == 1


def test_what_must_not_overlap_is_not_triggered_while_it_goes_on(store, clock):
    """Spec: B9"""
    schedule = online(store, overlap="skip")
    begun = store.schedules.trigger(schedule.id)
    with pytest.raises(Refused, match=f"task {begun.task_id} has not ended"):
        store.schedules.trigger(schedule.id)
    tick(store, clock)
    assert fired(store, schedule) == []
    store.tasks.cancel(begun.task_id)
    tick(store, clock)
    assert fired(store, schedule) == [2]


def test_what_cannot_be_made_is_not_triggered(store):
    """Spec: B9"""
    store.types.put(TaskType("fleeting"))
    schedule = store.schedules.add(new(type_code="fleeting"))
    store.types.remove("fleeting")
    with pytest.raises(UnknownType):
        store.schedules.trigger(schedule.id)
    with pytest.raises(NotFound):
        store.schedules.trigger(schedule.id + 1)
    assert made(store) == []


def test_daylight_saving_moves_the_moment_and_loses_no_day(store, clock):
    """Spec: B9"""
    schedule = online(store, "30 2 * * *", timezone="Europe/Berlin")
    clock.now = datetime(2026, 3, 28, tzinfo=UTC)
    for _ in range(4 * 48):
        tick(store, clock, minutes=30)
    assert [line.tick.isoformat()[:16] for line in lines(store, schedule) if line.tick] == [
        "2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30", "2026-03-31T00:30",
    ]  # fmt: skip
