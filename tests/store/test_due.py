"""Tasks whose time comes move on to the line, at their time and in the order of their times."""

import pytest

from headgate.core.machine import Raised, Snoozed
from headgate.core.states import State
from tests.factories import drain, kinds, put, running, settle, submit

S = State


@pytest.mark.parametrize("rest", [Raised("again", 10.0), Snoozed(10.0)])
def test_a_task_that_rests_runs_again_when_its_time_has_come(store, clock, rest):
    """Spec: A2, D5, X2"""
    execution = running(store)
    settle(store, execution, rest)
    clock.advance(9.999)
    assert (store.due.bring(), drain(store)) == (0, [])
    clock.advance(0.001)
    assert (store.due.bring(), drain(store)) == (1, [execution.id])


def test_a_task_brought_to_the_line_says_so_in_its_audit(store, clock):
    """Spec: A12"""
    task = submit(store, delay_seconds=1)
    clock.advance(1)
    store.due.bring()
    event = store.events.of(task.id)[-1]
    assert (event.kind, event.before, event.after, event.actor) == ("due", S.PENDING, S.QUEUED, "system:due")


def test_due_tasks_come_page_by_page_those_that_wait_longest_first(store, clock):
    late, early, middle = (submit(store, delay_seconds=seconds).id for seconds in (30, 10, 20))
    clock.advance(60)
    assert store.due.bring(limit=1) == 1
    assert {task: store.tasks.get(task).status for task in (early, middle, late)} == {
        early: S.QUEUED, middle: S.PENDING, late: S.PENDING,
    }  # fmt: skip
    assert [store.due.bring(limit=1) for _ in range(3)] == [1, 1, 0]


def test_a_due_task_with_a_mutex_joins_its_line_by_priority_then_creation(store, clock):
    """Spec: A10, A4"""
    delayed, urgent = submit(store, mutex="m", delay_seconds=5), submit(store, mutex="m", delay_seconds=5, priority=1)
    first = submit(store, mutex="m")
    clock.advance(5)
    assert store.due.bring() == 2
    assert [store.tasks.get(task.id).status for task in (delayed, urgent, first)] == [S.BLOCKED, S.QUEUED, S.BLOCKED]
    assert drain(store) == [urgent.id, delayed.id, first.id]


@pytest.mark.parametrize("state", [state for state in State if state not in (S.PENDING, S.RETRYING)])
def test_nothing_but_what_waits_for_its_time_is_brought(store, clock, state):
    """Spec: A2"""
    task = put(store, state)
    clock.advance(3600)
    assert store.due.bring() == 0
    assert store.tasks.get(task.id) == task


def test_a_failed_task_that_is_due_again_keeps_its_count(store, clock):
    """Spec: D5"""
    execution = running(store)
    settle(store, execution, Raised("again", 1.0))
    clock.advance(1)
    store.due.bring()
    task = store.tasks.get(execution.id)
    assert (task.status, task.error_count, task.error_info) == (S.QUEUED, 1, "again")
    assert kinds(store, task.id) == ["submitted", "started", "retrying", "due"]
