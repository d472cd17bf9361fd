"""Unique for a while: for so long after its making a task is the only one of its key, even when it has ended."""

import pytest

from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.db.statement import Statement
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.submit import Submitted
from headgate.store.tasks.unique import SET_KEY, lock_key
from tests.factories import put, record, settle, start, together

KEYS = Statement("SELECT key, task_id FROM headgate_submit_key")
HOURLY = NewTask("plain", unique_key="report", unique_seconds=3600)


def end(store, event=None):
    """Let what waits run to its end."""
    [execution] = start(store)
    settle(store, execution, event or Returned())
    return execution.id


@pytest.mark.parametrize("event", [Returned(), Raised("no")], ids=["succeeded", "failed"])
def test_within_the_period_the_first_one_is_given_though_it_has_ended(store, clock, event):
    """Spec: X2"""
    first = store.tasks.submit(HOURLY)
    end(store, event)
    before = record(store, first.id)
    clock.advance(3599)
    assert store.tasks.submit(HOURLY) == Submitted(first.id, False)
    assert record(store, first.id) == before


def test_after_the_period_another_is_made_and_the_period_begins_anew(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(HOURLY)
    end(store)
    clock.advance(3601)
    second = store.tasks.submit(HOURLY)
    assert second.created
    assert second.id != first.id
    end(store)
    clock.advance(3599)
    assert store.tasks.submit(HOURLY) == Submitted(second.id, False)


def test_asking_again_does_not_prolong_the_period(store, clock):
    """Spec: X2"""
    store.tasks.submit(HOURLY)
    end(store)
    for _ in range(3):
        clock.advance(1199)
        assert not store.tasks.submit(HOURLY).created
    clock.advance(10)
    assert store.tasks.submit(HOURLY).created


def test_a_task_that_is_open_longer_than_the_period_is_still_the_only_one(store, clock):
    """Spec: X2"""
    first = store.tasks.submit(HOURLY)
    clock.advance(10**6)
    assert store.tasks.submit(HOURLY) == Submitted(first.id, False)


def test_the_period_is_the_callers_that_asks(store, clock):
    """Spec: X2"""
    store.tasks.submit(HOURLY)
    end(store)
    clock.advance(60)
    assert not store.tasks.submit(HOURLY._replace(unique_seconds=61)).created
    assert store.tasks.submit(HOURLY._replace(unique_seconds=59)).created


@pytest.mark.parametrize("other", [{"tenant_id": 2}, {"type": "manual"}, {"unique_key": "other"}])
def test_a_period_is_one_tenants_one_types_and_one_keys(store, other):
    """Spec: X2, B11"""
    store.tasks.submit(HOURLY)
    assert store.tasks.submit(HOURLY._replace(**other)).created


def test_within_one_batch_too_and_each_wish_gets_its_own(store):
    """Spec: X2"""
    first, plain, again, other = store.tasks.submit_many(
        [HOURLY, NewTask("plain"), HOURLY, HOURLY._replace(unique_key="other")]
    )
    assert [made.created for made in (first, plain, again, other)] == [True, True, False, True]
    assert again.id == first.id
    assert len({first.id, plain.id, other.id}) == 3


def test_a_batch_that_fails_leaves_no_trace_of_its_keys(store):
    """Spec: X2"""
    with pytest.raises(Exception, match="no parent task 4711"):
        store.tasks.submit_many([HOURLY, NewTask("plain", parent_id=4711)])
    assert store.tasks.submit(HOURLY).created


def test_one_in_history_counts_and_one_that_was_purged_does_not(store, clock):
    """Spec: X2, B4, A7"""
    first = store.tasks.submit(HOURLY)
    end(store)
    store.history.archive()
    assert store.tasks.submit(HOURLY) == Submitted(first.id, False)
    clock.advance(60)
    assert store.history.purge([State.SUCCEEDED], seconds=1) == 1
    assert store.tasks.submit(HOURLY).created


def test_with_an_idempotency_key_the_answer_is_repeated(store):
    """Spec: X2"""
    once = Idempotency("call", "digest")
    first = store.tasks.submit(HOURLY, once=once)
    assert store.tasks.submit(HOURLY, once=once).id == first.id
    assert store.tasks.submit(HOURLY, once=Idempotency("another", "digest")) == Submitted(first.id, False)


def test_a_task_of_a_mutex_stands_in_its_line(store):
    """Spec: X2, A10"""
    first = store.tasks.submit(HOURLY._replace(mutex="m"))
    second = store.tasks.submit(NewTask("plain", mutex="m"))
    assert [store.tasks.get(made.id).status for made in (first, second)] == [State.QUEUED, State.BLOCKED]


def test_of_many_that_ask_at_once_one_makes_it(store):
    """Spec: X2"""
    made = together(*[lambda: store.tasks.submit(HOURLY)] * 8)
    assert sorted(one.created for one in made) == [False] * 7 + [True]
    assert len({one.id for one in made}) == 1


def test_keys_that_nobody_asks_for_any_more_are_forgotten_and_no_others(store, clock):
    """Spec: X2, A7"""
    ended = store.tasks.submit(HOURLY)
    end(store)
    waits = store.tasks.submit(HOURLY._replace(unique_key="open", delay_seconds=10**7))
    clock.advance(3602)
    store.history.forget_outdated(seconds=1)
    store.tasks.submit(HOURLY._replace(unique_key="young"))
    keys = store.database.read(lambda db: db.rows(KEYS))
    assert sorted(keys) == [("open", waits.id), ("young", waits.id + 1)]
    assert ended.id < waits.id


@pytest.mark.parametrize("state", State)
def test_whatever_became_of_it_the_period_holds(store, state):
    """Spec: X2"""
    task = put(store, state)
    wish = HOURLY._replace(type=task.type)
    store.database.write(lambda db: lock_key(db, wish))
    store.database.write(lambda db: db.rows(SET_KEY, task_id=task.id, tenant_id=0, type=task.type, key="report"))
    assert store.tasks.submit(wish) == Submitted(task.id, False)
