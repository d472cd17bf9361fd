"""How an execution ends: what is counted, what is kept, and where the task goes."""

from typing import Any

import pytest

from headgate.core.machine import (
    Change,
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    Raised,
    Returned,
    Snoozed,
    Unconfirmed,
    decide,
)
from headgate.core.retry import RetryPolicy, fixed, never, sequence, verdict
from headgate.core.states import State
from headgate.core.task import MAX_ERROR_BYTES, TaskType
from tests.core.factories import NOW, a_task

CALLBACK = {"success": {"url": "http://example.com/done"}}


def ended(event: Event, rules: TaskType | None = None, **fields: Any) -> Change:
    return decide(a_task(State.RUNNING, **fields), event, rules or TaskType("scan"))


def outlived(policy: RetryPolicy, own: int | None, *, need_manual: bool = False) -> tuple[int, State]:
    """How many failures a task that always fails is retried after, and where it ends."""
    rules, errors = TaskType("scan", retry=policy, need_manual=need_manual), 0
    while True:
        judged = verdict(rules, ConnectionError("gone"), errors, 0.5, NOW, own)
        change = ended(Raised("gone", *judged), rules, error_count=errors, max_error_count=own)
        assert change.error_count == errors + 1
        if change.status is not State.RETRYING:
            return errors, change.status
        errors += 1


@pytest.mark.parametrize(
    ("policy", "own", "retries"),
    [
        (never, None, 0),
        (fixed(1, retries=1), None, 1),
        (sequence([1, 2]), None, 2),
        (fixed(1, retries=4), None, 4),
        (fixed(1, retries=4), 2, 2),
        (fixed(1, retries=2), 5, 5),
        (fixed(1, retries=2), 0, 0),
        (never, 1, 1),
    ],
)
@pytest.mark.parametrize(("need_manual", "end"), [(True, State.DEAD), (False, State.FAILED)])
def test_n_retries_are_outlived_and_failure_n_plus_one_ends_the_task(policy, own, retries, need_manual, end):
    """Spec: Conflicts, settled (Counting; End of retries)"""
    assert outlived(policy, own, need_manual=need_manual) == (retries, end)


@pytest.mark.parametrize(("own", "past"), [(None, 2), (0, 0), (3, 3)])
def test_a_deadline_passed_counts_as_a_failure_of_the_task(own, past):
    """Spec: B3"""
    rules = TaskType("scan", retry=fixed(60, retries=2))
    for errors in range(past):
        assert ended(Overdue(), rules, error_count=errors, max_error_count=own).status is State.QUEUED
    assert ended(Overdue(), rules, error_count=past, max_error_count=own).status is State.FAILED


def test_an_overdue_task_goes_back_at_once_with_one_error_and_the_reason():
    """Spec: B3"""
    change = ended(Overdue("too slow"), TaskType("scan", retry=fixed(60, retries=2)), error_count=1, lost_count=1)
    assert (change.status, change.delay, change.start_time) == (State.QUEUED, None, None)
    assert (change.error_count, change.lost_count, change.error_info) == (2, None, "too slow")


def test_the_last_deadline_passed_leaves_a_task_that_needs_a_person_dead():
    """Spec: B5"""
    change = ended(Overdue("too slow"), TaskType("scan", need_manual=True))
    assert (change.status, change.error_count, change.error_info) == (State.DEAD, 1, "too slow")


def test_a_failure_waits_for_its_delay_and_keeps_its_error():
    """Spec: B1, B5"""
    change = ended(Raised("boom", 90.0), error_count=3)
    assert (change.status, change.delay, change.error_count, change.error_info) == (State.RETRYING, 90.0, 4, "boom")


@pytest.mark.parametrize("delay", [1.0, None])
def test_an_error_is_kept_in_a_form_every_store_takes(delay):
    """Spec: A12"""
    error_info = ended(Raised("\0\ud800" + "é" * MAX_ERROR_BYTES, delay)).error_info
    assert error_info is not None
    assert "\0" not in error_info
    assert len(error_info.encode()) <= MAX_ERROR_BYTES


@pytest.mark.parametrize(("need_manual", "end"), [(True, State.DEAD), (False, State.FAILED)])
def test_a_task_whose_executor_is_lost_three_times_ends_with_the_reason(need_manual, end):
    """Spec: B3 (a lost lease is counted apart)"""
    rules = TaskType("scan", retry=fixed(1, retries=9), need_manual=need_manual)
    for lost in range(2):
        change = ended(LeaseLost(), rules, lost_count=lost)
        assert (change.status, change.lost_count, change.error_count) == (State.QUEUED, lost + 1, None)
    change = ended(LeaseLost(), rules, lost_count=2)
    assert (change.status, change.lost_count, change.error_count) == (end, 3, None)
    assert "3 times" in str(change.error_info)


@pytest.mark.parametrize("lost_count", [0, 2, 5])
def test_losing_the_executor_of_a_task_being_cancelled_cancels_it(lost_count):
    """Spec: B8, C10"""
    change = ended(LeaseLost(), lost_count=lost_count, cancel_requested=True)
    assert (change.status, change.error_count, change.error_info) == (State.CANCELLED, None, None)


def test_what_was_not_alone_in_the_process_that_died_is_not_counted_however_often():
    """Spec: A11"""
    change = ended(LeaseLost("gone", alone=False), lost_count=2)
    assert (change.status, change.kind, change.lost_count, change.error_info) == (
        State.QUEUED, "lease_lost", None, "gone",
    )  # fmt: skip


@pytest.mark.parametrize("event", [LeaseLost(), GivenBack(), Snoozed(60)], ids=repr)
def test_an_execution_that_ends_without_an_error_while_a_pause_is_asked_leaves_the_task_paused(event):
    """Spec: One engine, five views (pause)"""
    change = ended(event, pause_requested=True)
    assert (change.status, change.pause_requested, change.error_count) == (State.PAUSED, False, None)


@pytest.mark.parametrize("event", [Overdue(), Raised("boom", 60)], ids=repr)
def test_a_failure_while_a_pause_is_asked_is_counted_and_leaves_the_task_paused(event):
    """Spec: One engine, five views (pause)"""
    change = ended(event, TaskType("scan", retry=fixed(60, retries=3)), pause_requested=True)
    assert (change.status, change.pause_requested, change.error_count) == (State.PAUSED, False, 1)


@pytest.mark.parametrize(
    "event", [LeaseLost(), GivenBack(), Overdue(), Snoozed(60), Raised("stopped in the middle", 60)], ids=repr
)
def test_a_task_being_cancelled_never_runs_again_however_its_execution_ends(event):
    """Spec: B8, C10"""
    rules = TaskType("scan", retry=fixed(60, retries=3))
    assert ended(event, rules, cancel_requested=True, pause_requested=True).status is State.CANCELLED


@pytest.mark.parametrize("status", [State.RUNNING, State.SCHEDULING])
def test_a_task_handed_back_is_as_it_was_before(status):
    """Spec: D9"""
    change = decide(a_task(status, error_count=1, lost_count=1), GivenBack(), TaskType("scan"))
    assert change == Change(State.QUEUED, "given_back")


@pytest.mark.parametrize("event", [Unconfirmed(), LeaseLost(), Overdue()], ids=repr)
def test_a_start_never_confirmed_counts_neither_as_error_nor_as_loss(event):
    """Spec: E1, E2"""
    change = decide(a_task(State.SCHEDULING, lost_count=2, error_count=9), event, TaskType("scan"))
    assert (change.status, change.error_count, change.lost_count) == (State.QUEUED, None, None)


def test_a_snooze_waits_and_counts_nothing():
    """Spec: X2"""
    change = ended(Snoozed(120), error_count=1, lost_count=1)
    assert change == Change(State.PENDING, "snoozed", delay=120)


@pytest.mark.parametrize(
    ("callback", "completed", "end"),
    [
        ({}, True, State.SUCCEEDED),
        ({}, False, State.SUCCEEDED),
        (CALLBACK, True, State.NOTIFYING),
        (CALLBACK, False, State.SUCCEEDED),
        ({"error": {"url": "http://example.com/bad"}}, True, State.SUCCEEDED),
    ],
)
def test_completed_asks_for_the_callback_and_success_skips_it(callback, completed, end):
    """Spec: B6"""
    change = ended(Returned('{"n": 1}', completed), TaskType("scan", callback=callback))
    assert (change.status, change.result) == (end, '{"n": 1}')


@pytest.mark.parametrize("delay", [None, 5.0])
def test_the_error_callback_does_not_change_the_state(delay):
    """Spec: B6"""
    rules = TaskType("scan", callback={"error": {"url": "http://example.com/bad"}}, need_manual=True)
    assert ended(Raised("boom", delay), rules).status is (State.DEAD if delay is None else State.RETRYING)


@pytest.mark.parametrize("completed", [True, False])
def test_a_parent_whose_code_is_done_waits_for_its_children_with_its_result(completed):
    """Spec: D7"""
    change = ended(Returned("[1]", completed), TaskType("scan", callback=CALLBACK), has_children=True)
    assert (change.status, change.result) == (State.WAITING, "[1]")


def test_a_task_that_finished_before_it_heard_of_the_cancellation_has_succeeded():
    """Spec: B8 (cancel at any time before the end)"""
    assert ended(Returned("1"), cancel_requested=True).status is State.SUCCEEDED
