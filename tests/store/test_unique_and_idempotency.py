"""A unique key admits one open task; an idempotency key gives one call one answer."""

import pytest

from headgate.core.errors import Invalid, KeyReused, NotFound, Refused
from headgate.core.machine import CancelReached, PauseReached, Raised, Returned, Snoozed
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.store import open_store
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.submit import Submitted
from tests.factories import drain, put, record, running, settle, submit, together

UNIQUE = NewTask("plain", unique_key="u")


def test_a_unique_key_gives_the_open_task_instead_of_a_second(store):
    """Spec: X2"""
    first = store.tasks.submit(UNIQUE)
    before = record(store, first.id)
    assert store.tasks.submit(NewTask("plain", unique_key="u", ext='{"other": 1}')) == Submitted(first.id, False)
    assert record(store, first.id) == before
    assert len(store.tasks.find().items) == 1


@pytest.mark.parametrize("other", [{"tenant_id": 2}, {"type": "manual"}, {"unique_key": "v"}])
def test_a_unique_key_is_one_tenants_and_one_types(store, other):
    """Spec: X2, B11"""
    store.tasks.submit(UNIQUE)
    assert store.tasks.submit(NewTask(**{"type": "plain", "unique_key": "u", **other})).created


def test_a_unique_key_counts_within_one_batch_too(store):
    """Spec: X2"""
    first, plain, second = store.tasks.submit_many([UNIQUE, NewTask("plain"), UNIQUE])
    assert (first.created, plain.created, second) == (True, True, Submitted(first.id, False))


def test_each_wish_of_a_batch_is_answered_with_its_own_task_where_types_share_a_unique_key(store):
    """Spec: X2"""
    there = store.tasks.submit(UNIQUE)
    again, fresh = store.tasks.submit_many([UNIQUE, NewTask("manual", unique_key="u")])
    assert again == Submitted(there.id, False)
    assert fresh.created
    assert store.tasks.get(fresh.id).type == "manual"


@pytest.mark.parametrize(
    ("type_code", "end", "state"),
    [
        ("plain", Returned(), State.SUCCEEDED),
        ("plain", Raised("no"), State.FAILED),
        ("plain", CancelReached(), State.CANCELLED),
        ("manual", Raised("no"), State.DEAD),
    ],
)
def test_a_unique_key_is_taken_until_the_end_and_free_after_it(store, type_code, end, state):
    """Spec: X2"""
    execution = running(store, type_code, unique_key="u")
    assert not store.tasks.submit(NewTask(type_code, unique_key="u")).created
    assert settle(store, execution, end) is state
    assert store.tasks.submit(NewTask(type_code, unique_key="u")).created


@pytest.mark.parametrize("event", [Raised("again", 60.0), Snoozed(60.0), PauseReached()])
def test_a_unique_key_stays_taken_while_the_task_only_rests(store, event):
    """Spec: X2"""
    settle(store, running(store, unique_key="u"), event)
    assert not store.tasks.submit(UNIQUE).created


def test_a_dead_task_does_not_come_back_while_a_newer_one_has_its_unique_key(store):
    """Spec: X2, B7"""
    execution = running(store, "manual", unique_key="u")
    settle(store, execution, Raised("no"))
    newer = store.tasks.submit(NewTask("manual", unique_key="u"))
    before = record(store, execution.id)
    with pytest.raises(Refused, match=str(newer.id)):
        store.tasks.retry(execution.id)
    assert record(store, execution.id) == before
    drain(store)
    assert store.tasks.retry(execution.id).status is State.QUEUED


def test_of_many_that_submit_one_unique_key_at_once_one_makes_the_task(store, url, clock):
    """Spec: X2, C13"""
    with open_store(url, clock) as other:
        made = together(*[lambda s=s: s.tasks.submit(UNIQUE) for s in (store, other) * 4])
    assert len({task.id for task in made}) == 1
    assert [task.created for task in made].count(True) == 1


def test_an_idempotency_key_gives_the_same_answer_again_and_makes_nothing(store, url, clock):
    """Spec: X2"""
    wishes, once = [NewTask("plain"), NewTask("plain", mutex="m")], Idempotency("k", "hash")
    made = store.tasks.submit_many(wishes, once=once)
    with open_store(url, clock) as other:
        again = other.tasks.submit_many(wishes, once=once)
    assert again == [Submitted(task.id, False) for task in made]
    assert len(store.tasks.find().items) == 2


def test_an_idempotency_key_is_answered_even_after_its_task_has_ended(store):
    """Spec: X2"""
    task = store.tasks.submit(NewTask("plain"), once=Idempotency("k", "hash"))
    store.tasks.cancel(task.id)
    store.history.archive()
    assert store.tasks.submit(NewTask("plain"), once=Idempotency("k", "hash")) == Submitted(task.id, False)


def test_an_idempotency_key_with_another_body_is_refused_and_makes_nothing(store):
    """Spec: X2"""
    store.tasks.submit(NewTask("plain"), once=Idempotency("k", "hash"))
    before = store.tasks.find().items
    with pytest.raises(KeyReused):
        store.tasks.submit(NewTask("plain"), once=Idempotency("k", "another"))
    assert store.tasks.find().items == before


def test_an_idempotency_key_is_one_tenants(store):
    """Spec: B11"""
    store.tasks.submit(NewTask("plain"), once=Idempotency("k", "hash"))
    assert store.tasks.submit(NewTask("plain", tenant_id=2), once=Idempotency("k", "another")).created
    with pytest.raises(Invalid, match="the same tenant"):
        store.tasks.submit_many([NewTask("plain"), NewTask("plain", tenant_id=2)], once=Idempotency("l", "hash"))


def test_a_call_that_failed_has_not_used_up_its_idempotency_key(store):
    """Spec: X2"""
    with pytest.raises(NotFound):
        store.tasks.submit(NewTask("plain", parent_id=4711), once=Idempotency("k", "hash"))
    assert store.tasks.submit(NewTask("plain"), once=Idempotency("k", "another")).created


def test_of_many_calls_with_one_idempotency_key_at_once_all_get_the_same_task(store, url, clock):
    """Spec: C13"""
    with open_store(url, clock) as other:
        made = together(
            *[lambda s=s: s.tasks.submit(NewTask("plain"), once=Idempotency("k", "h")) for s in (store, other) * 4]
        )
    assert len({task.id for task in made}) == 1
    assert len(store.tasks.find().items) == 1


def test_a_copy_made_by_retry_takes_the_unique_key_over(store):
    """Spec: X2, A2"""
    task = put(store, State.CANCELLED)
    keyed = store.tasks.get(store.tasks.submit(UNIQUE).id)
    store.tasks.cancel(keyed.id)
    copy = store.tasks.retry(keyed.id)
    assert (copy.unique_key, copy.retry_of) == ("u", keyed.id)
    assert submit(store, unique_key="u").id == copy.id != task.id
