"""Debounced: a task starts when nobody has asked for it again for so long, with what was asked last."""

from datetime import timedelta

import pytest

from headgate.core.machine import Raised, Returned, Snoozed
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.tasks.submit import Submitted
from tests.factories import START, kinds, record, settle, start, submit, together


def save(text, **fields):
    """A wish to save a document five seconds after the last change."""
    said = {"unique_key": "document:7", "debounce_seconds": 5, "debounce_longest_seconds": 12, **fields}
    return NewTask("plain", f'{{"text": "{text}"}}', **said)


def at(seconds):
    return START + timedelta(seconds=seconds)


def test_whoever_asks_again_pushes_the_start_out_and_has_the_last_word(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    assert (store.tasks.get(first.id).status, store.tasks.get(first.id).start_time) == (State.PENDING, at(5))
    clock.advance(3)
    assert store.tasks.submit(save("ab")) == Submitted(first.id, False)
    task = store.tasks.get(first.id)
    assert (task.status, task.start_time, task.ext) == (State.PENDING, at(8), '{"text": "ab"}')
    assert kinds(store, first.id) == ["submitted", "debounced"]
    assert [event.seq for event in store.events.of(first.id)] == [1, 2]


def test_it_waits_no_longer_than_the_longest_time_after_it_was_first_asked_for(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    starts = []
    for _ in range(5):
        clock.advance(2.5)
        store.tasks.submit(save("more"))
        starts.append(store.tasks.get(first.id).start_time)
    assert starts == [at(7.5), at(10), at(12), at(12), at(12)]
    store.due.bring()
    assert [execution.id for execution in start(store)] == [first.id]


def test_arguments_may_be_kept_as_they_were_first(store):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    store.tasks.submit(save("b", debounce_replace=False))
    assert store.tasks.get(first.id).ext == '{"text": "a"}'
    assert store.tasks.get(first.id).start_time == at(5)


def test_while_one_runs_the_next_one_waits_and_then_runs_with_what_was_asked_last(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    clock.advance(5)
    store.due.bring()
    [execution] = start(store)
    second = store.tasks.submit(save("b"))
    assert second.created
    assert store.tasks.submit(save("c")) == Submitted(second.id, False)
    assert store.tasks.get(first.id).ext == '{"text": "a"}'
    settle(store, execution, Returned())
    clock.advance(5)
    store.due.bring()
    assert [each.ext for each in start(store)] == ['{"text": "c"}']


def test_one_that_is_due_and_waits_in_line_stays_there_and_runs_with_what_was_asked_last(store, clock):
    """Spec: X2"""
    store.lanes.set_capacity("default", 0)
    first = store.tasks.submit(save("a"))
    clock.advance(6)
    store.due.bring()
    assert store.tasks.submit(save("b")) == Submitted(first.id, False)
    task = store.tasks.get(first.id)
    assert (task.status, task.start_time, task.ext) == (State.QUEUED, at(5), '{"text": "b"}')
    store.lanes.set_capacity("default", 1)
    assert [execution.ext for execution in start(store)] == ['{"text": "b"}']


def test_one_that_failed_runs_again_at_its_time_with_what_was_asked_last(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    clock.advance(5)
    store.due.bring()
    [execution] = start(store)
    settle(store, execution, Raised("again", 60.0))
    assert store.tasks.submit(save("b")) == Submitted(first.id, False)
    task = store.tasks.get(first.id)
    assert (task.status, task.start_time, task.ext) == (State.RETRYING, at(65), '{"text": "b"}')


def test_one_that_snoozes_is_not_woken_sooner(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    clock.advance(5)
    store.due.bring()
    [execution] = start(store)
    settle(store, execution, Snoozed(3600.0))
    store.tasks.submit(save("b"))
    assert store.tasks.get(first.id).start_time == at(3605)


def test_one_that_is_paused_stays_so_and_waits_for_its_time_when_it_goes_on(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    store.tasks.pause(first.id)
    clock.advance(4)
    store.tasks.submit(save("b"))
    assert store.tasks.get(first.id).status is State.PAUSED
    assert store.tasks.resume(first.id).status is State.PENDING
    assert store.tasks.get(first.id).start_time == at(9)


@pytest.mark.parametrize("event", [Returned(), Raised("no")], ids=["succeeded", "failed"])
def test_when_it_has_ended_the_next_one_is_made(store, clock, event):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    clock.advance(5)
    store.due.bring()
    [execution] = start(store)
    settle(store, execution, event)
    before = record(store, first.id)
    second = store.tasks.submit(save("b"))
    assert second.created
    assert record(store, first.id) == before


def test_a_cancelled_one_is_left_alone(store):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    store.tasks.cancel(first.id)
    assert store.tasks.submit(save("b")).created
    assert store.tasks.get(first.id).ext == '{"text": "a"}'


@pytest.mark.parametrize("other", [{"tenant_id": 2}, {"unique_key": "document:8"}])
def test_a_key_is_one_tenants(store, other):
    """Spec: X2, B11"""
    first = store.tasks.submit(save("a"))
    assert store.tasks.submit(save("b", **other)).created
    assert store.tasks.get(first.id).ext == '{"text": "a"}'


def test_a_batch_is_debounced_wish_by_wish(store):
    """Spec: X2"""
    made = store.tasks.submit_many([save("a"), save("b"), save("c", unique_key="document:8"), save("d")])
    assert [each.created for each in made] == [True, False, True, False]
    assert store.tasks.get(made[0].id).ext == '{"text": "d"}'


def test_the_key_of_one_that_is_debounced_does_not_shut_out_others(store):
    """Spec: X2"""
    first = store.tasks.submit(save("a"))
    assert store.tasks.get(first.id).unique_key is None
    assert submit(store, unique_key="document:7").id != first.id


def test_of_many_that_ask_at_once_one_makes_it_and_the_others_push_it(store):
    """Spec: X2"""
    made = together(*[lambda number=number: store.tasks.submit(save(str(number))) for number in range(8)])
    assert sorted(one.created for one in made) == [False] * 7 + [True]
    assert kinds(store, made[0].id) == ["submitted"] + ["debounced"] * 7


def test_whatever_was_asked_for_is_kept_in_the_audit(store):
    """Spec: A12, X2"""
    first = store.tasks.submit(save("a"))
    store.tasks.submit(save("b"))
    store.tasks.submit(save("c", debounce_replace=False))
    assert store.tasks.get(first.id).ext == '{"text": "b"}'
    assert [event.detail for event in store.events.of(first.id)] == [None, '{"text": "a"}', None]
