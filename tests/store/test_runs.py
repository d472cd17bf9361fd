"""What ticks began: the log ends with its task, however that ends; a call is made once at most."""

import pytest

from headgate.core.machine import Raised, Returned
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask
from headgate.store.schedules.tick_runs import LOST, STOPPED
from tests.factories import settle, start
from tests.schedules import CALLED, lines, logged, made, new, online, take_calls, tick

ME, ANOTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def begun(store, clock, type_code="plain", **said):
    """A schedule with a tick, and what the tick began."""
    schedule = online(store, type_code=type_code, **said)
    tick(store, clock)
    return schedule, made(store)[0].id


def ended(store, schedule):
    store.schedules.end_runs()
    return logged(store, schedule)[0]


# Tasks


def test_while_its_task_goes_on_the_log_says_executing(store, clock):
    """Spec: B10"""
    schedule, _ = begun(store, clock)
    assert ended(store, schedule) == ("executing", None)
    start(store)
    assert ended(store, schedule) == ("executing", None)


@pytest.mark.parametrize(
    ("type_code", "event", "end"),
    [
        ("plain", Returned(), ("success", None)),
        ("called-back", Returned(), ("success", None)),
        ("plain", Raised("no luck"), ("failure", "task 1 is failed: no luck")),
        ("manual", Raised("no luck"), ("failure", "task 1 is dead: no luck")),
        ("plain", Raised("again", 60.0), ("executing", None)),
    ],
)
def test_the_log_ends_with_its_task(store, clock, type_code, event, end):
    """Spec: B10"""
    schedule, _ = begun(store, clock, type_code)
    [execution] = start(store)
    settle(store, execution, event)
    assert ended(store, schedule) == end


def test_a_task_that_is_cancelled_before_its_start_ends_the_log(store, clock):
    """Spec: B10"""
    schedule, task_id = begun(store, clock)
    store.tasks.cancel(task_id)
    clock.advance(5)
    assert ended(store, schedule) == ("failure", f"task {task_id} is cancelled")
    [line] = lines(store, schedule)
    assert (line.update_date - line.create_date).total_seconds() == 5


def test_a_parent_with_failed_children_is_a_success_as_far_as_it_goes(store, clock):
    """Spec: B10, D7"""
    schedule, task_id = begun(store, clock)
    [parent] = start(store)
    for event in (Returned(), Raised("no")):
        store.tasks.submit(NewTask("plain", parent_id=task_id))
        [child] = start(store)
        settle(store, child, event)
    settle(store, parent, Returned())
    assert store.tasks.get(task_id).status is State.PARTIAL
    assert ended(store, schedule) == ("success", None)


def test_a_task_that_has_left_for_history_ends_the_log_too(store, clock):
    """Spec: B10, B4. Nobody looked in time."""
    schedule, _ = begun(store, clock)
    [execution] = start(store)
    settle(store, execution, Raised("no luck"))
    store.history.archive()
    assert ended(store, schedule) == ("failure", f"task {execution.id} is failed: no luck")


def test_a_task_that_is_gone_altogether_ends_the_log_as_a_failure(store, clock):
    """Spec: B10, A7"""
    schedule, task_id = begun(store, clock)
    store.tasks.cancel(task_id)
    store.history.archive()
    clock.advance(60)
    store.history.purge(FINAL, seconds=1)
    assert ended(store, schedule) == ("failure", f"task {task_id} has been purged, so its result is unknown")


def test_a_dead_task_that_is_retried_does_not_open_the_log_again(store, clock):
    """Spec: B10, B7"""
    schedule, task_id = begun(store, clock, "manual")
    [execution] = start(store)
    settle(store, execution, Raised("no luck"))
    before = ended(store, schedule)
    store.tasks.retry(task_id)
    [execution] = start(store)
    settle(store, execution, Returned())
    assert ended(store, schedule) == before


def test_the_end_is_written_once_and_by_one(store, clock):
    """Spec: B10"""
    _, task_id = begun(store, clock)
    store.tasks.cancel(task_id)
    assert store.schedules.end_runs() == (1, None)
    assert store.schedules.end_runs() == (0, None)


def test_what_goes_on_is_looked_at_page_by_page(store, clock):
    """Spec: B10"""
    schedules = [online(store) for _ in range(5)]
    tick(store, clock)
    for task in made(store):
        store.tasks.cancel(task.id)
    after, pages = 0, []
    while after is not None:
        count, after = store.schedules.end_runs(after, 2)
        pages.append(count)
    assert pages == [2, 2, 1]
    assert {logged(store, schedule)[0][0] for schedule in schedules} == {"failure"}


def test_old_lines_leave_the_log_in_batches_and_open_ones_stay(store, clock):
    """Spec: A7"""
    schedule, task_id = begun(store, clock)
    store.tasks.cancel(task_id)
    store.schedules.end_runs()
    tick(store, clock)  # is open
    tick(store, clock)
    store.tasks.cancel(made(store)[0].id)
    store.schedules.end_runs()
    clock.advance(86400)
    assert store.schedules.forget_logs(seconds=86400 + 30, limit=10) == 1
    assert [line.result for line in lines(store, schedule)] == ["executing", "failure"]
    store.schedules.remove(schedule.id)
    assert [store.schedules.forget_logs(seconds=0, limit=1) for _ in range(3)] == [1, 1, 0]


# Calls


def taken(store, caller=ME, limit=10):
    return take_calls(store, caller, limit)


def test_a_tick_of_an_endpoint_waits_to_be_called_and_its_log_says_executing(store, clock):
    """Spec: B9, B10"""
    schedule = online(store, type_code="report", http=CALLED, ext='{"a": 1}')
    assert store.schedules.waiting_calls(tenants=1, hosts=1) == {}
    tick(store, clock)
    assert made(store) == []
    assert store.schedules.waiting_calls(tenants=1, hosts=1) == {0: ["example.org"]}
    [call] = taken(store)
    assert (call.schedule_id, call.type, call.ext, call.http) == (schedule.id, "report", '{"a": 1}', CALLED)
    assert call.tick == lines(store, schedule)[0].tick
    assert logged(store, schedule) == [("executing", None)]


@pytest.mark.parametrize(("error", "end"), [(None, ("success", None)), ("answered 500", ("failure", "answered 500"))])
def test_the_log_ends_with_the_call(store, clock, error, end):
    """Spec: B10"""
    schedule = online(store, http=CALLED)
    tick(store, clock)
    [call] = taken(store)
    assert store.schedules.end_call(call, error)
    assert logged(store, schedule) == [end]
    assert not store.schedules.end_call(call, "once more")
    assert logged(store, schedule) == [end]


def test_a_call_is_taken_once_whoever_comes_and_whatever_happens(store, clock):
    """Spec: B9"""
    online(store, http=CALLED)
    tick(store, clock)
    assert len(taken(store)) == 1
    assert taken(store, ANOTHER) == []
    clock.advance(86400)
    assert taken(store, ANOTHER) == []
    assert store.schedules.waiting_calls(tenants=1, hosts=1) == {}


def test_a_call_whose_caller_is_lost_ends_as_a_failure_and_is_not_made_again(store, clock):
    """Spec: B9, B10"""
    schedule = online(store, http=CALLED)
    tick(store, clock)
    [call] = taken(store)
    assert store.schedules.calls_under_way() == [(call.run_id, ME)]
    assert store.schedules.give_up_calls([(call.run_id, ANOTHER)]) == 0
    assert store.schedules.give_up_calls([(call.run_id, ME)]) == 1
    assert logged(store, schedule) == [("failure", LOST)]
    assert not store.schedules.end_call(call)
    assert logged(store, schedule) == [("failure", LOST)]
    assert taken(store, ANOTHER) == []


@pytest.mark.parametrize("log", ["none", "trigger_log"])
def test_a_trigger_log_of_a_call_is_a_success_from_the_start(store, clock, log):
    """Spec: B10"""
    schedule = online(store, http=CALLED, log=log)
    tick(store, clock)
    [call] = taken(store)
    store.schedules.end_call(call, "no answer")
    assert logged(store, schedule) == ([("success", None)] if log == "trigger_log" else [])


def test_offline_lets_no_call_be_taken_that_was_not_taken_before(store, clock):
    """Spec: B9"""
    schedule = online(store, http=CALLED)
    tick(store, clock)
    store.schedules.offline(schedule.id)
    assert taken(store) == []
    store.schedules.online(schedule.id)
    assert taken(store) == []
    assert logged(store, schedule) == [("failure", STOPPED)]


def test_by_hand_a_call_is_made_though_the_schedule_is_offline(store):
    """Spec: B9"""
    schedule = store.schedules.add(new(http=CALLED))
    store.schedules.trigger(schedule.id)
    store.schedules.offline(schedule.id)
    [call] = taken(store)
    assert call.tick is None


def test_calls_that_queue_are_made_one_after_the_other(store, clock):
    """Spec: B9"""
    online(store, http=CALLED, overlap="queue")
    for _ in range(3):
        tick(store, clock)
    order = []
    while calls := taken(store):
        [call] = calls
        assert taken(store, ANOTHER) == []
        order.append(call.tick)
        store.schedules.end_call(call)
    assert order == sorted(order)
    assert len(order) == 3


def test_a_tick_is_skipped_while_a_call_is_under_way(store, clock):
    """Spec: B9"""
    schedule = online(store, http=CALLED, overlap="skip")
    tick(store, clock)
    [call] = taken(store)
    tick(store, clock)
    store.schedules.end_call(call)
    tick(store, clock)
    assert logged(store, schedule) == [
        ("success", None), ("failure", "skipped: a call is under way"), ("executing", None),
    ]  # fmt: skip


def test_a_schedule_that_makes_tasks_from_now_on_calls_nobody(store, clock):
    """Spec: B9"""
    schedule = online(store, http=CALLED)
    tick(store, clock)
    store.schedules.trigger(schedule.id)
    store.schedules.put(schedule.id, new())
    assert taken(store) == []
    assert {result for result, _ in logged(store, schedule)} == {"failure"}
    tick(store, clock)
    assert len(made(store)) == 1
