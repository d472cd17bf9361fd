"""What people do to a task: allowed as the state machine says, refused otherwise without a trace."""

from datetime import timedelta

import pytest

from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.machine import CancelReached, PauseReached, Returned
from headgate.core.states import FINAL, State
from tests.factories import START, drain, end_overdue, kinds, put, record, running, settle, start, submit

S = State
LATER = START + timedelta(days=2)
ACTS = {
    "cancel": lambda store, task_id, **who: store.tasks.cancel(task_id, "because", **who),
    "pause": lambda store, task_id, **who: store.tasks.pause(task_id, **who),
    "resume": lambda store, task_id, **who: store.tasks.resume(task_id, **who),
    "prioritize": lambda store, task_id, **who: store.tasks.prioritize(task_id, 3, **who),
    "reschedule": lambda store, task_id, **who: store.tasks.reschedule(task_id, LATER, **who),
    "retry": lambda store, task_id, **who: store.tasks.retry(task_id, **who),
    "resolve": lambda store, task_id, **who: store.tasks.resolve(task_id, "by hand", **who),
    "discard": lambda store, task_id, **who: store.tasks.discard(task_id, **who),
    "delivered": lambda store, task_id, **who: store.tasks.delivered(task_id, **who),
}
_OPEN = [state for state in State if state not in FINAL]
ALLOWED = {
    "cancel": dict.fromkeys(_OPEN, S.CANCELLED) | {S.RUNNING: S.RUNNING},
    "pause": dict.fromkeys([S.PENDING, S.BLOCKED, S.QUEUED, S.SCHEDULING, S.RETRYING], S.PAUSED)
    | {S.RUNNING: S.RUNNING},
    "resume": {S.PAUSED: S.QUEUED},
    "prioritize": {state: state for state in _OPEN},
    "reschedule": {state: state for state in (S.PENDING, S.RETRYING, S.PAUSED)}
    | dict.fromkeys([S.QUEUED, S.BLOCKED], S.PENDING),
    "retry": {S.DEAD: S.QUEUED, S.RETRYING: S.QUEUED},
    "resolve": {S.DEAD: S.RESOLVED, S.NOTIFYING: S.RESOLVED},
    "discard": {S.DEAD: S.FAILED},
    "delivered": {S.NOTIFYING: S.SUCCEEDED},
}
FORBIDDEN = [
    (act, state)
    for act in ACTS
    for state in State
    if state not in ALLOWED[act] and not (act == "retry" and state in FINAL)
]


@pytest.mark.parametrize(("act", "state"), [(act, state) for act in ALLOWED for state in ALLOWED[act]])
def test_an_allowed_act_moves_the_task_where_the_machine_says_and_says_who_did_it(store, act, state):
    """Spec: A2, A12, B7, B8"""
    task = put(store, state)
    after = ACTS[act](store, task.id, actor="user:9")
    assert after.status is ALLOWED[act][state]
    assert after == store.tasks.get(task.id)
    event = next(event for event in store.events.of(task.id) if event.seq == task.seq + 1)
    assert (event.actor, event.before) == ("user:9", state)


@pytest.mark.parametrize(("act", "state"), FORBIDDEN)
def test_an_act_the_machine_does_not_know_is_refused_and_changes_nothing(store, act, state):
    """Spec: A2"""
    task = put(store, state)
    before, feed = record(store, task.id), store.events.last()
    with pytest.raises(Refused, match=state.value) as refused:
        ACTS[act](store, task.id)
    assert refused.value.status == 409
    assert (record(store, task.id), store.events.last()) == (before, feed)


@pytest.mark.parametrize("act", [act for act in ACTS if act != "retry"])
def test_a_task_in_history_refuses_every_act(store, act):
    """Spec: A2, B4"""
    task = put(store, S.SUCCEEDED)
    store.history.archive()
    before = record(store, task.id)
    with pytest.raises(Refused, match="succeeded"):
        ACTS[act](store, task.id)
    assert record(store, task.id) == before


@pytest.mark.parametrize("act", ACTS)
def test_a_task_that_never_was_is_not_found(store, act):
    """Spec: A2"""
    with pytest.raises(NotFound, match="4711"):
        ACTS[act](store, 4711)


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("state", sorted(FINAL))
def test_retrying_a_final_task_submits_a_linked_copy_and_leaves_it_alone(store, state, archived):
    """Spec: A2"""
    task = put(store, state)
    if archived:
        store.history.archive()
    before = record(store, task.id)
    copy = store.tasks.retry(task.id, actor="user:9")
    assert record(store, task.id) == before
    assert (copy.retry_of, copy.type, copy.ext, copy.status) == (task.id, task.type, task.ext, S.QUEUED)
    assert (copy.error_count, copy.attempt, copy.result) == (0, 0, None)
    assert [(event.kind, event.actor) for event in store.events.of(copy.id)] == [("submitted", "user:9")]


def test_a_cancel_keeps_its_reason(store):
    """Spec: A12"""
    assert store.tasks.cancel(submit(store).id, "not needed").remark == "not needed"


def test_a_resolved_task_keeps_the_remark(store):
    """Spec: B7"""
    assert store.tasks.get(put(store, S.RESOLVED).id).remark == "done by hand"


def test_cancelling_a_running_task_asks_its_execution_and_frees_its_room_only_when_that_has_ended(store):
    """Spec: C10, B8"""
    store.lanes.set_capacity("default", 1)
    execution = running(store)
    waiting = submit(store)
    assert store.tasks.cancel(execution.id).cancel_requested
    assert start(store) == []
    assert settle(store, execution, CancelReached()) is S.CANCELLED
    assert [started.id for started in start(store)] == [waiting.id]


@pytest.mark.parametrize("state", [S.PENDING, S.QUEUED, S.BLOCKED, S.PAUSED, S.RETRYING, S.SCHEDULING])
def test_a_cancelled_task_never_starts(store, clock, state):
    """Spec: B8"""
    task = put(store, state)
    store.tasks.cancel(task.id)
    clock.advance(10**7)
    store.due.bring()
    end_overdue(store)
    assert task.id not in drain(store)


def test_a_pause_while_running_is_reached_at_a_checkpoint_and_resume_goes_on_from_there_without_an_error(store):
    """Spec: A2, D3"""
    execution = running(store)
    assert store.tasks.pause(execution.id).pause_requested
    assert store.executions.save_checkpoint(execution.id, execution.exec_id, "page", "7").pause
    assert settle(store, execution, PauseReached()) is S.PAUSED
    paused = store.tasks.get(execution.id)
    assert (paused.exec_id, paused.pause_requested, paused.error_count) == (None, False, 0)
    assert start(store) == []
    store.tasks.resume(execution.id)
    [again] = start(store)
    assert (again.id, again.attempt, again.error_count) == (execution.id, 2, 0)
    assert store.executions.checkpoints(again.id) == {"page": "7"}


def test_a_pause_asked_for_can_be_taken_back_while_the_task_runs(store):
    """Spec: A2"""
    execution = running(store)
    store.tasks.pause(execution.id)
    assert not store.tasks.resume(execution.id).pause_requested
    assert settle(store, execution, Returned()) is S.SUCCEEDED


def test_a_task_resumed_before_its_time_goes_back_to_waiting_for_it(store, clock):
    """Spec: A2"""
    task = submit(store, delay_seconds=60)
    store.tasks.pause(task.id)
    assert store.tasks.resume(task.id).status is S.PENDING
    store.tasks.pause(task.id)
    clock.advance(60)
    assert store.tasks.resume(task.id).status is S.QUEUED


def test_prioritizing_changes_the_order_of_the_line(store):
    """Spec: A4, C4"""
    first, second, third = (submit(store).id for _ in range(3))
    store.tasks.prioritize(third, 1)
    store.tasks.prioritize(first, 9)
    assert drain(store) == [third, second, first]


@pytest.mark.parametrize("others", [5, 1, -(1 << 62), 1 << 62])
def test_prioritizing_without_a_number_puts_a_task_at_the_head_of_its_lane(store, others):
    """Spec: A4, C11"""
    first, second = submit(store, priority=others).id, submit(store, priority=others).id
    task = submit(store)
    assert store.tasks.prioritize(task.id).priority < others
    assert drain(store) == [task.id, first, second]


def test_prioritizing_without_a_number_passes_those_that_are_blocked_too(store):
    """Spec: A4, A10"""
    holder = running(store, mutex="m")
    urgent, task = submit(store, mutex="m", priority=1).id, submit(store, mutex="m").id
    store.tasks.prioritize(task)
    settle(store, holder, Returned())
    assert drain(store) == [task, urgent]


def test_a_priority_is_any_integer_of_64_bits_and_none_beyond(store):
    task = submit(store)
    before = record(store, task.id)
    for priority in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(Invalid, match="priority"):
            store.tasks.prioritize(task.id, priority)
    assert record(store, task.id) == before
    assert store.tasks.prioritize(task.id, -(1 << 63)).priority == -(1 << 63)
    assert drain(store) == [task.id]


def test_a_rescheduled_task_starts_at_its_new_time(store, clock):
    """Spec: A2"""
    task = submit(store, delay_seconds=3600)
    store.tasks.reschedule(task.id, START + timedelta(seconds=5))
    clock.advance(5)
    assert store.due.bring() == 1
    assert drain(store) == [task.id]


def test_a_time_without_a_zone_is_refused(store):
    """Spec: A2"""
    task = put(store, S.PENDING)
    with pytest.raises(Invalid, match="time zone"):
        store.tasks.reschedule(task.id, LATER.replace(tzinfo=None))
    assert store.tasks.get(task.id) == task


def test_a_dead_task_retried_begins_its_count_anew(store):
    """Spec: B7"""
    task = store.tasks.retry(put(store, S.DEAD).id)
    assert (task.error_count, task.lost_count, task.status) == (0, 0, S.QUEUED)
    assert kinds(store, task.id)[-1] == "retried"
    assert drain(store) == [task.id]
