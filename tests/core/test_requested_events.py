"""What people ask of a task: cancel, pause, resume, retry, resolve, discard, another time or priority."""

from datetime import timedelta

import pytest

from headgate.core.end_reasons import EndReason
from headgate.core.machine import (
    CancelReached,
    CancelRequested,
    Change,
    Debounced,
    Discarded,
    PauseReached,
    PauseRequested,
    Prioritized,
    Rescheduled,
    Resolved,
    Resumed,
    RetryAsked,
    decide,
)
from headgate.core.states import FINAL, State
from headgate.core.task import MAX_ERROR_BYTES, TaskType
from tests.core.factories import NOW, a_task

RULES = TaskType("scan", need_manual=True)
UNDER_WAY = {State.RUNNING, State.WAITING}


@pytest.mark.parametrize("state", sorted(frozenset(State) - FINAL - UNDER_WAY))
def test_a_task_nobody_executes_is_cancelled_at_once_with_the_reason(state):
    """Spec: B8, C10"""
    assert decide(a_task(state), CancelRequested("enough"), RULES) == Change(
        State.CANCELLED, "cancelled", remark="enough", reason=EndReason.CANCELLED
    )


@pytest.mark.parametrize("state", sorted(UNDER_WAY))
def test_a_task_under_way_is_asked_to_stop_and_keeps_its_room_until_it_has(state):
    """Spec: B8, C10, Conflicts settled (cancelling a running task frees its room only when it has really ended)"""
    change = decide(a_task(state), CancelRequested("enough"), RULES)
    assert (change.status, change.cancel_requested, change.remark) == (state, True, "enough")


def test_a_task_that_stopped_because_it_was_asked_to_is_cancelled_and_keeps_the_reason():
    """Spec: B8, C10"""
    change = decide(a_task(State.RUNNING, cancel_requested=True, remark="enough"), CancelReached(), RULES)
    assert (change.status, change.remark, change.error_count) == (State.CANCELLED, None, None)


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_a_reason_for_cancelling_is_kept_in_a_form_every_store_takes(state):
    """Spec: A12"""
    remark = decide(a_task(state), CancelRequested("\0" + "é" * MAX_ERROR_BYTES), RULES).remark
    assert remark is not None
    assert "\0" not in remark
    assert len(remark.encode()) <= MAX_ERROR_BYTES


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_cancelling_without_a_reason_leaves_the_remark_alone(state):
    """Spec: B8"""
    assert decide(a_task(state, remark="mine"), CancelRequested(), RULES).remark is None


def test_a_running_task_runs_on_to_its_checkpoint_before_it_is_paused_without_an_error():
    """Spec: One engine, five views (pause)"""
    change = decide(a_task(State.RUNNING), PauseRequested(), RULES)
    assert (change.status, change.pause_requested) == (State.RUNNING, True)
    reached = decide(a_task(State.RUNNING, pause_requested=True), PauseReached(), RULES)
    assert reached == Change(State.PAUSED, "paused", pause_requested=False)


def test_a_pause_not_yet_reached_can_be_taken_back():
    """Spec: A2"""
    change = decide(a_task(State.RUNNING, pause_requested=True), Resumed(), RULES)
    assert (change.status, change.pause_requested) == (State.RUNNING, False)


@pytest.mark.parametrize(
    ("mutex", "due", "after"),
    [
        (None, True, State.QUEUED),
        ("film", True, State.BLOCKED),
        (None, False, State.PENDING),
        ("film", False, State.PENDING),
    ],
)
def test_a_resumed_task_still_waits_for_a_start_time_that_is_ahead(mutex, due, after):
    """Spec: A2 (resume → pending; a due task moves on in the same transaction)"""
    change = decide(a_task(State.PAUSED, mutex=mutex, error_count=1), Resumed(due), RULES)
    assert (change.status, change.delay, change.start_time, change.error_count) == (after, None, None, None)


def test_a_dead_task_retried_starts_over_at_once():
    """Spec: B7, D12"""
    change = decide(a_task(State.DEAD, error_count=5, lost_count=3), RetryAsked(), RULES)
    assert (change.status, change.delay, change.error_count, change.lost_count) == (State.QUEUED, 0, 0, 0)


def test_a_retrying_task_retried_runs_at_once_and_keeps_its_errors():
    """Spec: One engine, five views (Actions)"""
    change = decide(a_task(State.RETRYING, error_count=2, lost_count=1), RetryAsked(), RULES)
    assert (change.status, change.delay, change.error_count, change.lost_count) == (State.QUEUED, 0, None, None)


def test_a_dead_task_resolved_keeps_the_remark():
    """Spec: B7"""
    change = decide(a_task(State.DEAD, error_count=5), Resolved("refunded"), RULES)
    assert (change.status, change.remark, change.error_count) == (State.RESOLVED, "refunded", None)


def test_a_dead_task_discarded_has_failed_whatever_its_type_says():
    """Spec: D12"""
    change = decide(a_task(State.DEAD, error_count=5), Discarded(), RULES)
    assert (change.status, change.error_count) == (State.FAILED, None)


@pytest.mark.parametrize("priority", [-3, 0, 1, 10])
def test_a_new_priority_moves_nothing_else(priority):
    """Spec: Conflicts, settled (Priority)"""
    assert decide(a_task(State.QUEUED), Prioritized(priority), RULES) == Change(
        State.QUEUED, "prioritized", priority=priority
    )


@pytest.mark.parametrize("state", [State.PENDING, State.RETRYING, State.PAUSED])
def test_the_start_time_of_a_task_that_waits_for_it_can_be_edited(state):
    """Spec: X2, Conflicts, settled (Delayed retry: visible, cancellable, editable)"""
    later = NOW + timedelta(days=1)
    change = decide(a_task(state), Rescheduled(later), RULES)
    assert (change.status, change.start_time, change.delay) == (state, later, None)


@pytest.mark.parametrize("state", [State.QUEUED, State.BLOCKED])
def test_a_task_in_line_leaves_it_when_it_is_snoozed_and_stays_when_its_time_has_come(state):
    """Spec: X2"""
    change = decide(a_task(state), Rescheduled(delay=60.0), RULES)
    assert (change.status, change.start_time, change.delay) == (State.PENDING, None, 60.0)
    assert decide(a_task(state), Rescheduled(NOW, due=True), RULES).status is state


@pytest.mark.parametrize("state", [State.PENDING, State.PAUSED])
def test_a_task_that_waits_for_its_time_is_pushed_out_when_it_is_asked_for_again(state):
    """Spec: X2"""
    later = NOW + timedelta(seconds=5)
    assert decide(a_task(state), Debounced(later), RULES) == Change(state, "debounced", start_time=later)


@pytest.mark.parametrize("state", [State.QUEUED, State.BLOCKED, State.RETRYING])
def test_a_task_that_is_due_or_runs_again_keeps_its_time_when_it_is_asked_for_again(state):
    """Spec: X2"""
    assert decide(a_task(state), Debounced(NOW), RULES) == Change(state, "debounced")
