"""Executions taken away: from lost workers, past a deadline, never confirmed, holding a mutex too long."""

import json
from datetime import timedelta

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.store.claim.contract import ClaimRequest
from tests.factories import START, drain, end_overdue, kinds, lose, record, running, settle, start, submit, worker

S = State


def held_by(store, worker_id, count=1, **fields):
    for _ in range(count):
        submit(store, **fields)
    return store.claims.take(ClaimRequest(worker_id, count)).executions


def test_a_worker_is_lost_only_if_its_lease_still_is_the_one_that_was_seen(store, clock):
    """Spec: A6"""
    worker_id = worker(store)
    seen = store.workers.all()[0].lease_until
    clock.advance(10)
    store.workers.beat(worker_id)
    assert not store.workers.mark_lost(worker_id, seen)
    assert store.workers.mark_lost(worker_id, seen + timedelta(seconds=10))
    assert not store.workers.mark_lost(worker_id, seen + timedelta(seconds=10))
    assert not store.workers.mark_lost(4711, seen)


def test_that_a_worker_was_declared_lost_is_on_record_once(store):
    """Spec: A12"""
    worker_id = worker(store)
    before, seen = store.events.last(), store.workers.all()[0]
    assert [store.workers.mark_lost(worker_id, seen.lease_until) for _ in range(2)] == [True, False]
    [event], _ = store.events.after(before)
    assert (event.kind, event.actor, event.task_id) == ("worker_lost", "system:reaper", None)
    assert json.loads(event.detail) == {"worker": worker_id, "name": seen.name}


def test_declaring_a_worker_lost_touches_none_of_its_tasks(store):
    """Spec: A6"""
    worker_id = worker(store)
    [execution] = held_by(store, worker_id)
    before = record(store, execution.id)
    lose(store, worker_id)
    assert record(store, execution.id) == before
    assert store.workers.lost_holders() == [worker_id]


def test_a_rescued_task_goes_back_to_the_line_counting_a_lost_lease_and_no_error(store):
    """Spec: B3"""
    worker_id = worker(store)
    [execution] = held_by(store, worker_id)
    lose(store, worker_id)
    [was] = store.executions.rescue(worker_id)
    assert (was.status, was.exec_id) == (S.RUNNING, execution.exec_id)
    task = store.tasks.get(execution.id)
    assert (task.status, task.lost_count, task.error_count, task.exec_id) == (S.QUEUED, 1, 0, None)
    lost, again = store.events.of(task.id)[-2:]
    assert (lost.kind, lost.actor, lost.after) == ("lease_lost", "system:reaper", "queued")
    assert (again.kind, again.actor, again.exec_id, again.seq) == ("retrying", "system:reaper", None, 0)
    assert lost.detail == again.detail
    assert json.loads(again.detail) == {"reason": "lost", "error": "its executor was lost", "delay": 0.0}
    assert store.workers.lost_holders() == []
    assert drain(store) == [task.id]


def test_a_rescue_goes_page_by_page_and_takes_nothing_from_others(store):
    """Spec: A6"""
    one, two = worker(store), worker(store)
    lost, safe = held_by(store, one, 5), held_by(store, two, 2)
    lose(store, one)
    pages = [len(store.executions.rescue(one, limit=2)) for _ in range(4)]
    assert pages == [2, 3, 0, 0]  # no single one is left, which would seem to have been alone
    assert {store.tasks.get(e.id).lost_count for e in lost} == {0}
    assert {store.tasks.get(e.id).status for e in lost} == {S.QUEUED}
    assert {store.tasks.get(e.id).exec_id for e in safe} == {e.exec_id for e in safe}


@pytest.mark.parametrize(("type_code", "end"), [("plain", S.FAILED), ("manual", S.DEAD)])
def test_a_task_that_lost_its_executor_three_times_is_taken_for_poison(store, type_code, end):
    """Spec: B3"""
    task = submit(store, type_code, max_error_count=99)
    for _ in range(3):
        worker_id = worker(store)
        assert store.claims.take(ClaimRequest(worker_id, 1)).executions
        lose(store, worker_id)
        store.executions.rescue(worker_id)
    ended = store.tasks.get(task.id)
    assert (ended.status, ended.lost_count, ended.error_count) == (end, 3, 0)
    assert "3 times" in ended.error_info
    assert start(store) == []


@pytest.mark.parametrize(("act", "status"), [("cancel", S.CANCELLED), ("pause", S.PAUSED)])
@pytest.mark.parametrize("how", ["lost", "overdue"])
def test_a_task_taken_away_goes_where_it_was_asked_to(store, clock, how, act, status):
    """Spec: C10, A2"""
    worker_id = worker(store)
    [execution] = held_by(store, worker_id, timeout_seconds=5)
    getattr(store.tasks, act)(execution.id)
    if how == "lost":
        lose(store, worker_id)
        store.executions.rescue(worker_id)
    else:
        clock.advance(6)
        end_overdue(store)
    task = store.tasks.get(execution.id)
    assert (task.status, task.pause_requested) == (status, False)


def test_a_task_handed_over_to_a_lost_worker_costs_nothing(store):
    """Spec: E1, B3"""
    task, worker_id = submit(store), worker(store)
    store.claims.take(ClaimRequest(worker_id, 1, confirm=True))
    lose(store, worker_id)
    store.executions.rescue(worker_id)
    back = store.tasks.get(task.id)
    assert (back.status, back.lost_count, back.error_count) == (S.QUEUED, 0, 0)


def test_a_task_past_its_deadline_goes_to_another_at_once_counting_one_error(store, clock):
    """Spec: B3, A6"""
    execution = running(store, timeout_seconds=10, max_error_count=1)
    clock.advance(10)
    assert end_overdue(store) == []
    clock.advance(0.001)
    [was] = end_overdue(store)
    assert (was.id, was.exec_id) == (execution.id, execution.exec_id)
    task = store.tasks.get(execution.id)
    assert (task.status, task.error_count, task.lost_count) == (S.QUEUED, 1, 0)
    assert task.error_info == "the deadline has passed"
    assert kinds(store, task.id)[-2:] == ["overdue", "retrying"]
    told = [json.loads(event.detail) for event in store.events.of(task.id)[-2:]]
    assert told == [{"reason": "overdue", "error": "the deadline has passed", "delay": 0.0}] * 2
    [again] = start(store)
    assert (again.id, again.error_count) == (execution.id, 1)


@pytest.mark.parametrize(("type_code", "end"), [("plain", S.FAILED), ("manual", S.DEAD)])
def test_a_task_past_its_deadline_without_a_retry_left_ends(store, clock, type_code, end):
    """Spec: B3, B5"""
    execution = running(store, type_code, timeout_seconds=1)
    clock.advance(2)
    end_overdue(store)
    assert store.tasks.get(execution.id).status is end


def test_overdue_tasks_are_ended_page_by_page_and_others_left_alone(store, clock):
    """Spec: A6"""
    late = held_by(store, worker(store), 3, timeout_seconds=1)
    safe = held_by(store, worker(store), 1, timeout_seconds=100)
    clock.advance(2)
    assert [len(end_overdue(store, limit=2)) for _ in range(3)] == [2, 1, 0]
    assert {store.tasks.get(e.id).status for e in late} == {S.FAILED}
    assert store.tasks.get(safe[0].id).status is S.RUNNING


def test_what_was_handed_on_and_never_started_is_put_back_with_nothing_counted(store):
    """Spec: D1, E2"""
    early, late, started = (submit(store) for _ in range(3))
    hander = worker(store)
    first, second, third = store.claims.take(ClaimRequest(hander, 3, confirm=True)).executions
    store.executions.start(third.id, third.exec_id)
    [was] = store.executions.return_unstarted(
        hander, [(first.id, first.exec_id), (second.id, third.exec_id)], reason="unroutable", actor="system:x"
    )
    assert (was.id, was.status, was.exec_id) == (early.id, S.SCHEDULING, first.exec_id)
    back = store.tasks.get(early.id)
    assert (back.status, back.error_count, back.lost_count) == (S.QUEUED, 0, 0)
    event = store.events.of(early.id)[-1]
    assert (event.kind, event.actor, event.detail) == ("given_back", "system:x", '{"reason": "unroutable"}')
    assert store.executions.start(first.id, first.exec_id) is None
    assert [task.id for task in store.executions.return_unstarted(hander)] == [late.id]
    assert store.tasks.get(started.id).status is S.RUNNING


def test_a_mutex_held_too_long_is_freed_by_ending_and_fencing_its_holder(store, clock):
    """Spec: A10"""
    holder = running(store, mutex="m", timeout_seconds=10**6)
    following = submit(store, mutex="m")
    without = running(store, timeout_seconds=10**6)
    clock.advance(2 * 3600)
    assert end_overdue(store) == []
    clock.advance(1)
    assert [task.id for task in end_overdue(store)] == [holder.id]
    assert "mutex" in store.tasks.get(holder.id).error_info
    assert settle(store, holder, Returned()) is None
    assert store.tasks.get(without.id).status is S.RUNNING
    assert drain(store) == [following.id]


def test_how_long_a_mutex_may_be_held_can_be_chosen(store, clock):
    """Spec: A10"""
    holder = running(store, mutex="m", max_error_count=1)
    clock.advance(61)
    assert [task.id for task in end_overdue(store, mutex_seconds=60)] == [holder.id]
    assert (store.tasks.get(holder.id).status, store.tasks.get(holder.id).error_count) == (S.QUEUED, 1)


def test_a_family_that_holds_its_mutex_too_long_is_ended_children_first(store, clock):
    """Spec: A10, D7"""
    parent = running(store, mutex="m")
    first, second = (submit(store, mutex="m", parent_id=parent.id, timeout_seconds=10**6) for _ in range(2))
    settle(store, parent, Returned())
    [child] = start(store)
    stranger = submit(store, mutex="m")
    assert child.id == first.id
    clock.advance(2 * 3600 + 1)
    end_overdue(store)
    assert settle(store, child, Returned()) is None
    assert [store.tasks.get(task.id).status for task in (first, second)] == [S.FAILED, S.CANCELLED]
    assert store.tasks.get(parent.id).status is S.CANCELLED
    assert drain(store) == [stranger.id]


def test_a_child_taken_away_for_good_closes_its_family(store, clock):
    """Spec: D7, B3"""
    parent = running(store)
    submit(store, parent_id=parent.id, timeout_seconds=5)
    start(store)
    settle(store, parent, Returned())
    clock.advance(6)
    end_overdue(store)
    assert store.tasks.get(parent.id).status is S.FAILED


def test_deadlines_follow_the_type_as_it_stood_at_the_start(store, clock):
    """Spec: B5"""
    execution = running(store)
    store.types.put(TaskType("plain", timeout_seconds=1))
    clock.advance(2)
    assert end_overdue(store) == []
    assert store.tasks.get(execution.id).executing_deadline == START + timedelta(seconds=1800)
