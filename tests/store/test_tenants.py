"""A tenant never sees, claims, changes or learns of another's tasks."""

from datetime import timedelta

import pytest

from headgate.core.errors import NotFound, Refused
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.reading.lists import Filter
from tests.factories import START, put, record, running, start, submit

ACTS = {
    "get": lambda store, task_id, tenant: store.tasks.get(task_id, tenant),
    "why": lambda store, task_id, tenant: store.tasks.why(task_id, tenant),
    "cancel": lambda store, task_id, tenant: store.tasks.cancel(task_id, tenant_id=tenant),
    "pause": lambda store, task_id, tenant: store.tasks.pause(task_id, tenant_id=tenant),
    "resume": lambda store, task_id, tenant: store.tasks.resume(task_id, tenant_id=tenant),
    "prioritize": lambda store, task_id, tenant: store.tasks.prioritize(task_id, 1, tenant_id=tenant),
    "to the head": lambda store, task_id, tenant: store.tasks.prioritize(task_id, tenant_id=tenant),
    "reschedule": lambda store, task_id, tenant: store.tasks.reschedule(
        task_id, START + timedelta(1), tenant_id=tenant
    ),
    "retry": lambda store, task_id, tenant: store.tasks.retry(task_id, tenant_id=tenant),
    "resolve": lambda store, task_id, tenant: store.tasks.resolve(task_id, "mine", tenant_id=tenant),
    "discard": lambda store, task_id, tenant: store.tasks.discard(task_id, tenant_id=tenant),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("state", "archived"),
    [
        (State.QUEUED, False),
        (State.RUNNING, False),
        (State.DEAD, False),
        (State.SUCCEEDED, False),
        (State.FAILED, True),
    ],
)
def test_anothers_task_is_as_absent_as_one_that_never_was(store, act, state, archived):
    """Spec: B11"""
    task = put(store, state)
    if archived:
        store.history.archive()
    before, last = record(store, task.id), store.events.last()
    with pytest.raises(NotFound) as foreign:
        ACTS[act](store, task.id, 1)
    with pytest.raises(NotFound) as missing:
        ACTS[act](store, task.id + 1000, 1)
    assert str(foreign.value).replace(str(task.id), "N") == str(missing.value).replace(str(task.id + 1000), "N")
    assert (record(store, task.id), store.events.last()) == (before, last)


@pytest.mark.parametrize("act", ACTS)
def test_ones_own_task_is_there(store, act):
    """Spec: B11"""
    task = submit(store, tenant_id=1)
    if act in ("resume", "retry", "resolve", "discard"):
        with pytest.raises(Refused, match="queued"):
            ACTS[act](store, task.id, 1)
    else:
        assert ACTS[act](store, task.id, 1)


def test_a_list_for_one_tenant_holds_nothing_of_anothers(store):
    """Spec: B11"""
    mine = [submit(store, tenant_id=1).id for _ in range(3)]
    submit(store, tenant_id=2)
    store.tasks.cancel(mine[0])
    store.history.archive()
    assert {task.id for task in store.tasks.find(Filter(tenant_id=1)).items} == set(mine)
    assert store.tasks.find(Filter(tenant_id=3)).items == []


def test_a_claim_for_one_tenant_starts_nothing_of_anothers(store):
    """Spec: B11, B2"""
    theirs = submit(store, tenant_id=2, priority=1)
    before = record(store, theirs.id)
    assert start(store, 9, tenant_id=1) == []
    mine = submit(store, tenant_id=1)
    assert [execution.id for execution in start(store, 9, tenant_id=1)] == [mine.id]
    assert record(store, theirs.id) == before


def test_tenants_share_lanes_but_neither_mutexes_nor_keys(store):
    """Spec: B11, A9"""
    store.lanes.set_capacity("default", 2)
    for tenant_id in (1, 2, 3):
        assert store.tasks.submit(NewTask("plain", tenant_id=tenant_id, mutex="m", unique_key="u")).created
    assert len(start(store, 9)) == 2


def test_the_copy_of_a_final_task_stays_with_its_tenant(store):
    """Spec: B11"""
    task = submit(store, tenant_id=1)
    store.tasks.cancel(task.id, tenant_id=1)
    assert store.tasks.retry(task.id, tenant_id=1).tenant_id == 1


def test_every_event_says_whose_it_is(store):
    """Spec: B11, D6"""
    execution = running(store, tenant_id=1)
    store.executions.progress(execution.id, execution.exec_id, "1")
    store.tasks.cancel(execution.id)
    assert {event.tenant_id for event in store.events.of(execution.id)} == {1}
