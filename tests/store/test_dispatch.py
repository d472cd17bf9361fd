"""Who dispatches, and how much: no more than the free slots of live consumers of the broker."""

import json

import pytest

from headgate.core.errors import Invalid
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from tests.factories import START, lose, settle, start, submit, worker


def consumer(store, *pools, broker=True, **options):
    """A worker whose pools (types, slots) take what the broker delivers."""
    detail = {"pools": [{"types": types, "slots": slots} for types, slots in pools], "broker": broker}
    types = sorted({code for codes, _ in pools for code in codes})
    return store.workers.register("consumer", types=types, detail=json.dumps(detail), **options)


def lead(store):
    leader = store.dispatch.lead(30.0)
    assert leader is not None
    return leader


def ids(dispatched):
    return [each.execution.id for each in dispatched.handovers]


def test_one_process_at_a_time_dispatches(store, clock):
    """Spec: D1"""
    assert not store.dispatch.is_live()
    first = store.dispatch.lead(30.0)
    assert store.dispatch.is_live()
    assert store.dispatch.lead(30.0) is None
    clock.advance(20)
    store.workers.beat(first)
    clock.advance(20)
    assert store.dispatch.lead(30.0) is None
    clock.advance(11)
    assert not store.dispatch.is_live()
    second = store.dispatch.lead(30.0)
    assert second not in (None, first)
    store.workers.leave(second)
    assert not store.dispatch.is_live()
    assert store.dispatch.lead(30.0) is not None


def test_no_more_is_dispatched_than_live_consumers_have_free_slots(store):
    """Spec: D1"""
    leader, mine = lead(store), consumer(store, (["plain"], 3))
    tasks = [submit(store).id for _ in range(5)]
    assert ids(store.dispatch.take(leader)) == tasks[:3]
    assert ids(store.dispatch.take(leader)) == []
    handed = [(each.execution.id, each.execution.exec_id) for each in store.dispatch.unstarted(leader)]
    [started, *_] = store.executions.start_handed(mine, handed[:1]).executions
    assert ids(store.dispatch.take(leader)) == [], "it runs in the slot that it was dispatched for"
    settle(store, started, Returned())
    assert ids(store.dispatch.take(leader)) == tasks[3:4]


def test_what_a_lost_dispatcher_still_has_in_the_broker_takes_its_slots(store, clock):
    """Spec: D1"""
    first = lead(store)
    consumer(store, (["plain"], 3), lease_seconds=100)
    tasks = [submit(store).id for _ in range(5)]
    assert ids(store.dispatch.take(first)) == tasks[:3]
    clock.advance(31)
    second = lead(store)
    assert ids(store.dispatch.take(second)) == []
    store.executions.return_unstarted(first, None, reason="the dispatcher was lost", actor="system:reaper")
    assert ids(store.dispatch.take(second)) == tasks[:3]


def test_an_attempt_names_who_ran_it_and_not_the_dispatcher(store):
    """Spec: D1"""
    leader, mine = lead(store), consumer(store, (["plain"], 1))
    task = submit(store)
    store.dispatch.take(leader)
    handed = [(each.execution.id, each.execution.exec_id) for each in store.dispatch.unstarted(leader)]
    store.executions.start_handed(mine, handed)
    [attempt] = store.attempts.of(task.id)
    assert attempt.executor == f"worker:{mine}"


def test_a_pool_counts_once_for_all_the_types_it_serves(store):
    """Spec: D1"""
    leader = lead(store)
    consumer(store, (["plain", "manual"], 2))
    for code in ("plain", "manual", "plain", "manual"):
        submit(store, code)
    assert len(ids(store.dispatch.take(leader))) == 2


def test_what_no_live_consumer_serves_stays_in_the_store(store, clock):
    """Spec: D1"""
    leader = lead(store)
    plain, manual = submit(store), submit(store, "manual")
    consumer(store, (["plain"], 9), broker=False)
    consumer(store, (["plain"], 9), lease_seconds=5)
    gone = consumer(store, (["plain"], 9))
    lose(store, gone)
    clock.advance(6)
    assert ids(store.dispatch.take(leader)) == []
    consumer(store, (["plain"], 9))
    assert ids(store.dispatch.take(leader)) == [plain.id]
    assert store.tasks.get(manual.id).status is State.QUEUED
    assert store.dispatch.served_types() == {"plain"}


def test_a_type_has_room_while_a_consumer_of_it_has_a_slot_that_nothing_runs_in(store):
    """Spec: D1"""
    here = consumer(store, (["plain"], 1))
    leader = lead(store)
    submit(store)
    [handover] = store.dispatch.take(leader).handovers
    assert store.dispatch.types_with_room() == {"plain"}, "its message is on its way to that slot"
    store.executions.start_handed(here, [(handover.execution.id, handover.exec_id)])
    assert store.dispatch.types_with_room() == frozenset()


def test_what_is_assigned_to_an_agent_stays_with_it(store):
    """Spec: D1, B2"""
    leader = lead(store)
    consumer(store, (["plain"], 9))
    submit(store, agent_id="camera")
    assert ids(store.dispatch.take(leader)) == []


def test_what_is_paused_is_not_dispatched(store):
    """Spec: A9, D1"""
    leader = lead(store)
    consumer(store, (["plain"], 9))
    submit(store, lane="x")
    store.lanes.pause("x")
    assert ids(store.dispatch.take(leader)) == []


def test_a_dispatched_task_says_where_its_message_goes(store):
    """Spec: D1"""
    leader = lead(store)
    store.types.put(TaskType("shop.mail"))
    consumer(store, (["shop.mail"], 9))
    task = submit(store, "shop.mail", lane="slow lane")
    [handover] = store.dispatch.take(leader).handovers
    assert (handover.queue, handover.submitted_at) == ("headgate.tasks.slow@20lane.shop@2Email", task.create_date)
    own = "headgate.tasks.default.shop@2Email"
    assert store.dispatch.queues(frozenset({"shop.mail"})) == [own, handover.queue]
    assert store.dispatch.unstarted(leader) == [handover]


def test_tasks_of_a_dispatcher_that_died_go_back_to_their_queue_with_nothing_counted(store, clock):
    """Spec: D1, A11"""
    leader = lead(store)
    consumer(store, (["plain"], 9), lease_seconds=1000)
    task = submit(store)
    store.dispatch.take(leader)
    clock.advance(31)
    assert store.dispatch.is_stalled(frozenset({"plain"}), 30)
    assert not store.dispatch.is_stalled(frozenset({"plain"}), 32)
    assert not store.dispatch.is_stalled(frozenset({"manual"}), 30)
    lead(store)
    assert store.workers.lost_holders() == [leader]
    store.executions.rescue(leader)
    back = store.tasks.get(task.id)
    assert (back.status, back.error_count, back.lost_count) == (State.QUEUED, 0, 0)


def test_the_dispatcher_serves_no_type_and_is_of_its_own_kind(store):
    """Spec: D1"""
    leader = lead(store)
    tester = worker(store)
    kinds = {each.id: (each.kind, each.types) for each in store.workers.all()}
    assert kinds == {leader: ("dispatcher", ()), tester: ("worker", None)}
    with pytest.raises(Invalid, match="are reserved"):
        store.workers.register("headgate:dispatcher")


def test_why_says_since_when_a_task_is_in_the_broker_and_in_which_queue(store, clock):
    """Spec: X3, D1"""
    leader = lead(store)
    consumer(store, (["plain"], 9))
    task = submit(store)
    store.dispatch.take(leader)
    gate = next(gate for gate in store.tasks.why(task.id) if gate.name == "state")
    assert (gate.open, gate.code) == (False, "in-broker")
    since = START.isoformat(timespec="seconds")
    assert gate.reason == f"in the broker queue headgate.tasks.default.plain since {since}"
    other = submit(store)
    start(store, confirm=True)
    assert next(gate.code for gate in store.tasks.why(other.id) if gate.name == "state") == "started"
