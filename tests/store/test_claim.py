"""Who gets which task, in which order, and that nobody gets one twice."""

from datetime import timedelta
from typing import Any

import pytest

from headgate.core.errors import Invalid, WorkerLost
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import Execution, NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from tests.factories import START, drain, lose, record, sql, start, submit, together, worker


def test_a_claimed_task_runs_under_an_exec_id_and_a_deadline(store):
    """Spec: B2"""
    store.types.put(TaskType("timed", timeout_seconds=90, category="cat"))
    parent = submit(store, tenant_id=2, delay_seconds=60)
    own = {"ext": '{"a": 1}', "name": "n", "correlation_id": "c", "creator": 4, "tenant_id": 2, "mutex": "m"}
    task = submit(store, "timed", **own, priority=3, max_error_count=6, parent_id=parent.id)
    worker_id = worker(store)
    [execution] = store.claims.take(ClaimRequest(worker_id, 5)).executions
    held = store.tasks.get(task.id)
    assert (held.status, held.exec_id, held.worker_id, held.attempt) == (State.RUNNING, execution.exec_id, worker_id, 1)
    assert held.executing_deadline == execution.executing_deadline == START + timedelta(seconds=90)
    assert (held.started_at, held.scheduling_time) == (START, START)
    its_own = {name: getattr(held, name) for name in Execution._fields}
    assert execution._asdict() == its_own | {"timeout_seconds": 90}
    event = store.events.of(task.id)[-1]
    assert (event.kind, event.before, event.after) == ("started", State.QUEUED, State.RUNNING)
    assert (event.actor, event.exec_id) == (f"worker:{worker_id}", execution.exec_id)


@pytest.mark.parametrize("confirm", [False, True])
def test_a_task_runs_as_what_its_row_says_whatever_its_stream_says(store, url, clock, confirm):
    """Spec: B2. A stream decides what may start, never as whose or what."""
    task = submit(store, tenant_id=2, ext='{"a": 1}')
    sql(url, "UPDATE headgate_stream SET tenant_id = 3, type = 'manual'")
    with open_store(url, clock) as other:
        [execution] = start(other, confirm=confirm)
        started = other.executions.start(task.id, execution.exec_id) if confirm else execution
        held = other.agents.holdings([task.id])[task.id].execution
    assert isinstance(started, Execution)
    assert {(each.type, each.tenant_id) for each in (execution, started, held)} == {("plain", 2)}


def test_a_tasks_own_timeout_goes_before_its_types(store):
    """Spec: B5"""
    submit(store, timeout_seconds=7)
    assert start(store)[0].executing_deadline == START + timedelta(seconds=7)


def test_a_start_to_be_confirmed_is_handed_over_as_scheduling(store):
    """Spec: E1"""
    task = submit(store)
    [execution] = start(store, confirm=True)
    held = store.tasks.get(task.id)
    assert execution.status is held.status is State.SCHEDULING
    assert (held.scheduling_time, held.started_at, held.exec_id) == (START, None, execution.exec_id)


def test_each_execution_has_an_exec_id_of_its_own_and_a_greater_attempt(store):
    """Spec: B3"""
    submit(store)
    seen = []
    for _ in range(3):
        [execution] = start(store)
        seen.append(execution)
        store.executions.give_back(execution.id, execution.exec_id)
    assert len({execution.exec_id for execution in seen}) == 3
    assert [execution.attempt for execution in seen] == [1, 2, 3]


FIELDS: dict[str, Any] = {
    "tenant": ({"tenant_id": 2}, {"tenant_id": 2}),
    "types": ({"type": "manual"}, {"types": frozenset({"manual", "called-back"})}),
    "categories": ({"category": "cat"}, {"categories": frozenset({"cat", "dog"})}),
    "creator": ({"creator": 8}, {"creator": 8}),
    "agent": ({"agent_id": "a1"}, {"agent_id": "a1", "types": frozenset({"plain"})}),
}


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "agent"])
def test_a_filter_lets_through_what_it_names_and_nothing_else(store, name):
    """Spec: B2"""
    fields, wanted = FIELDS[name]
    ids = [store.tasks.submit(NewTask(**{"type": "plain", **given})).id for given in (fields, dict[str, Any](), fields)]
    assert [execution.id for execution in start(store, 9, **wanted)] == [ids[0], ids[2]]
    assert [execution.id for execution in start(store, 9)] == [ids[1]]


def test_the_creator_nobody_is_a_filter_too(store):
    """Spec: B2"""
    _, nobodys = submit(store, creator=8), submit(store, creator=0)
    assert [execution.id for execution in start(store, 9, creator=0)] == [nobodys.id]


def test_filters_hold_together(store):
    """Spec: B2"""
    for tenant_id in (1, 2):
        for creator in (1, 2):
            submit(store, tenant_id=tenant_id, creator=creator, category="cat")
    found = start(store, 9, tenant_id=2, creator=1, categories=frozenset({"cat"}))
    assert [(execution.tenant_id, execution.creator) for execution in found] == [(2, 1)]


def test_an_assigned_task_goes_to_its_agent_alone_which_gets_unassigned_ones_too(store):
    """Spec: E1"""
    mine, theirs, anyones = (submit(store, agent_id=agent).id for agent in ("a1", "a2", None))
    assert [execution.id for execution in start(store, 9, agent_id="a1")] == [mine, anyones]
    assert start(store, 9) == []
    assert start(store, 9, agent_id="a3") == []
    assert [execution.id for execution in start(store, 9, agent_id="a2")] == [theirs]


def test_only_due_tasks_are_handed_out(store, clock):
    """Spec: B2"""
    task = submit(store, delay_seconds=10)
    clock.advance(9.999)
    assert (store.due.bring(), start(store)) == (0, [])
    clock.advance(0.001)
    assert (store.due.bring(), [e.id for e in start(store)]) == (1, [task.id])


@pytest.mark.parametrize("at_once", [1, 3, 50])
def test_priority_goes_first_then_creation_across_lanes_types_and_categories(store, at_once):
    """Spec: A4"""
    wishes = [
        NewTask(("plain", "manual")[n % 2], priority=(5, 1, 9, 5, -4)[n % 5], lane=f"l{n % 3}", category=f"c{n % 4}")
        for n in range(30)
    ]
    ids = [made.id for made in store.tasks.submit_many(wishes)]
    expected = [task_id for _, task_id in sorted(zip([new.priority for new in wishes], ids, strict=True))]
    got: list[int] = []
    while executions := start(store, at_once):
        got += [execution.id for execution in executions]
    assert got == expected


@pytest.mark.parametrize("filters", [{}, {"creator": 0}])
def test_the_smallest_and_the_greatest_integer_are_priorities_like_others(store, filters):
    """Spec: A4"""
    priorities = [0, (1 << 63) - 1, -(1 << 63), -(1 << 62) - 1]
    ids = [submit(store, priority=priority).id for priority in priorities]
    assert drain(store, **filters) == [ids[2], ids[3], ids[0], ids[1]]


@pytest.mark.parametrize("at_once", [1, 4])
def test_tenants_take_turns_so_that_a_long_queue_holds_up_nobody(store, at_once):
    """Spec: B11"""
    store.tasks.submit_many([NewTask("plain", tenant_id=1)] * 20)
    store.tasks.submit_many([NewTask("plain", tenant_id=tenant) for tenant in (2, 2, 3, 3)])
    worker_id = worker(store)
    got: list[int] = []
    while len(got) < 8:
        got += [e.tenant_id for e in store.claims.take(ClaimRequest(worker_id, at_once)).executions]
    assert sorted(got[:3]) == [1, 2, 3]
    assert (got.count(2), got.count(3)) == (2, 2)


def test_a_claim_repeated_under_its_claim_id_gives_the_same_tasks_again(store):
    """Spec: B2"""
    for _ in range(4):
        submit(store)
    worker_id = worker(store)
    first = store.claims.take(ClaimRequest(worker_id, 2, claim_id="c")).executions
    before = [record(store, execution.id) for execution in first]
    assert store.claims.take(ClaimRequest(worker_id, 2, claim_id="c")).executions == first
    assert [record(store, execution.id) for execution in first] == before
    other = store.claims.take(ClaimRequest(worker_id, 2, claim_id="d")).executions
    assert not {e.id for e in other} & {e.id for e in first}
    assert len(other) == 2


def test_a_claim_id_is_one_workers_and_gives_only_what_it_still_holds(store):
    """Spec: B2, B3"""
    done, _ = submit(store), submit(store)
    one, two = worker(store), worker(store)
    first = store.claims.take(ClaimRequest(one, 2, claim_id="c")).executions
    store.executions.settle([Outcome(first[0], Returned())])
    assert first[0].id == done.id
    assert store.claims.take(ClaimRequest(one, 2, claim_id="c")).executions == first[1:]
    assert store.claims.take(ClaimRequest(two, 2, claim_id="c")).executions == []


@pytest.mark.parametrize("gone", ["lost", "left", "never registered"])
def test_who_is_not_alive_gets_nothing(store, gone):
    """Spec: B3"""
    task = submit(store)
    worker_id = worker(store)
    if gone == "lost":
        lose(store, worker_id)
    elif gone == "left":
        store.workers.leave(worker_id)
    else:
        worker_id += 1000
    before = record(store, task.id)
    with pytest.raises(WorkerLost):
        store.claims.take(ClaimRequest(worker_id, 1))
    assert record(store, task.id) == before


def test_a_claim_asks_for_at_least_one(store):
    """Spec: B2"""
    with pytest.raises(Invalid):
        ClaimRequest(worker(store), 0)


def test_settling_and_claiming_go_together(store):
    first, second = submit(store), submit(store)
    worker_id = worker(store)
    [execution] = store.claims.take(ClaimRequest(worker_id, 1)).executions
    done, claimed = store.executions.settle_and_claim([Outcome(execution, Returned())], ClaimRequest(worker_id, 1))
    assert (execution.id, done) == (first.id, [State.SUCCEEDED])
    assert [e.id for e in claimed.executions] == [second.id]
    assert store.executions.settle_and_claim([], None)[0] == []


def test_a_lost_worker_that_settles_and_claims_changes_nothing(store):
    """Spec: B3"""
    submit(store)
    worker_id = worker(store)
    [execution] = store.claims.take(ClaimRequest(worker_id, 1)).executions
    lose(store, worker_id)
    before = record(store, execution.id)
    with pytest.raises(WorkerLost):
        store.executions.settle_and_claim([Outcome(execution, Returned())], ClaimRequest(worker_id, 1))
    assert record(store, execution.id) == before


def test_of_many_that_claim_at_once_each_task_goes_to_one(store, url, clock):
    """Spec: D2"""
    ids = [made.id for made in store.tasks.submit_many([NewTask("plain", lane=f"l{n % 3}") for n in range(90)])]
    with open_store(url, clock) as other:

        def everything(at):
            worker_id, got = worker(at), []
            while (claimed := at.claims.take(ClaimRequest(worker_id, 4))).executions or claimed.busy:
                got += claimed.executions
            return got

        got = [execution for part in together(*[lambda s=s: everything(s) for s in (store, other) * 2])
               for execution in part]  # fmt: skip
    clock.advance(1)  # what somebody else was just looking at is looked for again then
    got += start(store, 90)
    assert sorted(execution.id for execution in got) == ids
    assert {store.tasks.get(execution.id).attempt for execution in got} == {1}


def test_a_claim_of_certain_tasks_gets_no_others_and_passes_every_gate(store):
    """Spec: A4, D7"""
    store.lanes.set_capacity("narrow", 1)
    ids = [submit(store).id for _ in range(5)]
    narrow = [submit(store, lane="narrow").id for _ in range(2)]
    paused = submit(store).id
    store.tasks.pause(paused)
    me = worker(store)

    def claim(*wanted: int, limit: int = 10) -> list[int]:
        request = ClaimRequest(me, limit, ids=frozenset(wanted))
        return [execution.id for execution in store.claims.take(request).executions]

    assert claim(ids[3], ids[2], paused) == [ids[2], ids[3]]
    assert claim(ids[2], ids[3]) == [], "they have started"
    assert claim(*narrow) == narrow[:1]
    assert claim(*narrow) == []
    assert claim(ids[4], ids[1], limit=1) == [ids[1]]
    assert [execution.id for execution in store.claims.take(ClaimRequest(me, 10)).executions] == [ids[0], ids[4]]
