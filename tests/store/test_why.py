"""`why` says, gate by gate, what a task waits for; what it calls open, a claim starts."""

import json
from datetime import timedelta
from typing import Any

import pytest

from headgate.core.callbacks import Attempt, CallbackKind, Delivery
from headgate.core.errors import NotFound
from headgate.core.limits import Rate
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.store.callbacks.deliveries import DeliveryOutcome as Sending
from headgate.store.claim.contract import ClaimRequest
from tests.factories import START, lose, put, running, settle, start, submit, worker


def gates(store, task, **who):
    return {gate.name: gate for gate in store.tasks.why(task.id, **who)}


def shut(store, task, **who):
    return [gate.name for gate in store.tasks.why(task.id, **who) if not gate.open]


@pytest.mark.parametrize("fields", [{}, {"mutex": "m"}, {"rate_key": "k"}, {"tenant_id": 3}, {"category": "c"}])
def test_a_task_whose_every_gate_is_open_starts(store, fields):
    """Spec: X3"""
    task = submit(store, **fields)
    worker(store)
    assert shut(store, task) == []
    assert [execution.id for execution in start(store)] == [task.id]


@pytest.mark.parametrize("state", [s for s in State if s not in (State.QUEUED, State.BLOCKED)])
def test_every_state_is_explained(store, state):
    """Spec: X3"""
    task = put(store, state)
    expected = {State.PENDING: "time", State.RETRYING: "time", State.PAUSED: "pause"}.get(state, "state")
    gate = gates(store, task)[expected]
    assert not gate.open
    assert gate.reason


def test_the_time_gate_says_when_it_opens(store):
    """Spec: X3"""
    gate = gates(store, submit(store, delay_seconds=60))["time"]
    assert (gate.open, gate.until) == (False, START + timedelta(seconds=60))


@pytest.mark.parametrize(("lane", "said"), [("default", "lane default"), (None, "everything")])
def test_the_pause_gate_says_what_is_paused(store, lane, said):
    """Spec: X3, A9"""
    worker(store)
    task = submit(store)
    store.lanes.pause(lane)
    assert shut(store, task) == ["pause"]
    assert said in gates(store, task)["pause"].reason


def test_the_lane_gate_names_who_fills_it(store):
    """Spec: X3"""
    store.lanes.set_capacity("default", 2)
    held = [running(store).id, running(store).id]
    task = submit(store)
    assert shut(store, task) == ["lane"]
    gate = gates(store, task)["lane"]
    assert (gate.holders, gate.reason) == (tuple(held), "default: 2 of 2 running")


def test_holders_of_other_tenants_appear_as_a_count(store):
    """Spec: X3, B11"""
    store.types.put(TaskType("copy", uses=("disk-writer",)))
    store.lanes.set_capacity("default", 3)
    store.resources.set("disk-writer", 2)
    mine, theirs = running(store, "copy", tenant_id=1), running(store, "copy", tenant_id=2)
    running(store, tenant_id=2)
    task = submit(store, "copy", tenant_id=1)
    found = gates(store, task, tenant_id=1)
    assert found["lane"].holders == found["resource"].holders == (mine.id,)
    assert "3 of 3 running, 2 of other tenants" in found["lane"].reason
    assert "2 of 2 running, 1 of other tenants" in found["resource"].reason
    assert not any(theirs.id in gate.holders for gate in found.values())


def test_the_resource_gate_names_who_uses_it(store):
    """Spec: X3, A11"""
    store.types.put(TaskType("copy", lane="a", uses=("disk-writer",)))
    holder = running(store, "copy")
    task = submit(store, "copy")
    assert shut(store, task) == ["resource"]
    assert gates(store, task)["resource"].holders == (holder.id,)


def test_the_mutex_gate_names_the_holder_then_who_goes_first(store):
    """Spec: X3, A10"""
    holder = running(store, mutex="m")
    first, second = submit(store, mutex="m"), submit(store, mutex="m")
    assert gates(store, holder)["mutex"].reason == "m: held by this task"
    assert gates(store, second)["mutex"].holders == (holder.id,)
    settle(store, holder, Returned())
    assert shut(store, first) == []
    gate = gates(store, second)["mutex"]
    assert (gate.open, gate.holders) == (False, (first.id,))
    assert f"{first.id} goes first" in gate.reason


def test_the_mutex_gate_names_the_family_that_holds_it_to_strangers_only(store):
    """Spec: X3, A10, D7"""
    parent = running(store, mutex="m")
    child = submit(store, mutex="m", parent_id=parent.id)
    settle(store, parent, Returned())
    stranger = submit(store, mutex="m")
    assert shut(store, child) == []
    assert gates(store, stranger)["mutex"].holders == (parent.id,)


@pytest.mark.parametrize("name", ["lane:default", "type:plain", "key:k"])
def test_the_rate_gate_says_when_the_next_token_comes(store, clock, name):
    """Spec: X3, D8"""
    store.rate_limits.set(name, Rate(0.25, 2))
    for _ in range(3):
        task = submit(store, rate_key="k")
    start(store, 9)
    closed = [gate for gate in store.tasks.why(task.id) if not gate.open]
    assert [(gate.name, gate.until) for gate in closed] == [("rate", START + timedelta(seconds=4))]
    assert name in closed[0].reason
    clock.advance(4)
    assert shut(store, task) == []


SERVERS: dict[str, Any] = {
    "anything": {},
    "the type": {"types": ["other", "plain"]},
    "the tenant": {"tenant_id": 0},
    "an agent": {"agent_id": "a1"},
}


@pytest.mark.parametrize("kind", SERVERS)
def test_the_worker_gate_is_open_while_somebody_alive_serves_the_task(store, clock, kind):
    """Spec: X3"""
    task = submit(store)
    assert shut(store, task) == ["worker"]
    worker_id = store.workers.register("w", **SERVERS[kind])
    assert shut(store, task) == []
    clock.advance(31)
    assert shut(store, task) == ["worker"]
    store.workers.beat(worker_id)
    assert shut(store, task) == []
    lose(store, worker_id)
    assert shut(store, task) == ["worker"]


@pytest.mark.parametrize(
    ("fields", "server"),
    [
        ({}, {"types": ["manual"]}),
        ({}, {"types": []}),
        ({}, {"tenant_id": 2}),
        ({"agent_id": "a1"}, {}),
        ({"agent_id": "a1"}, {"agent_id": "a2"}),
    ],
)
def test_the_worker_gate_is_shut_when_those_alive_do_not_serve_the_task(store, fields, server):
    """Spec: X3, E1"""
    task = submit(store, **fields)
    store.workers.register("w", **server)
    assert shut(store, task) == ["worker"]


def test_the_worker_gate_is_shut_while_every_slot_for_the_type_is_busy(store):
    """Spec: X3"""
    detail = {"pools": [{"types": ["plain"], "slots": 2}, {"types": ["manual"], "slots": 1}], "stuck": []}
    worker_id = store.workers.register("rig-7", types=["plain", "manual"], detail=json.dumps(detail))
    first, second, third = submit(store, tenant_id=1), submit(store, tenant_id=2), submit(store, tenant_id=1)
    assert shut(store, third) == []
    held = store.claims.take(ClaimRequest(worker_id, 2)).executions
    assert sorted(execution.id for execution in held) == [first.id, second.id]
    gate = gates(store, third)["worker"]
    assert (gate.open, gate.reason, gate.holders) == (False, "2 of 2 slots busy on worker rig-7", (first.id,))
    assert shut(store, submit(store, "manual")) == []
    store.workers.register("rig-8", types=["plain"], detail=json.dumps({"pools": [{"types": ["plain"], "slots": 1}]}))
    assert shut(store, third) == []


def test_an_agent_has_room_while_it_asks_for_work(store, clock):
    """Spec: X3, E1"""
    agent = store.agents.sign_on("rig-1", tenant_id=None, types=None, lease_seconds=600)
    first, second = submit(store), submit(store)
    assert shut(store, first) == []
    [held] = store.claims.take(ClaimRequest(agent.worker_id, 1)).executions
    clock.advance(5)
    gate = gates(store, second)["worker"]
    assert (gate.open, gate.code, gate.holders) == (False, "agents-busy", (held.id,))
    assert gate.reason == "agent rig-1 holds 1 task and last asked for work 5 s ago"
    store.agents.renew([agent.worker_id], 600)
    assert shut(store, second) == [], "it has asked again"
    settle(store, held, Returned())
    clock.advance(31)
    assert gates(store, second)["worker"].reason == "agent rig-1 holds 0 tasks and last asked for work 31 s ago"
    forecast = store.forecasts.why(second.id).forecast
    assert (forecast.seconds, forecast.code) == (None, "agents-busy")
    store.workers.beat(agent.worker_id)
    assert shut(store, second) == ["worker"], "a report is no question for work"
    store.workers.beat(agent.worker_id, asks=True)
    assert shut(store, second) == []


def test_a_slot_that_a_waiting_handler_lends_is_free_for_the_task_it_waits_for(store):
    """Spec: X3, D7"""
    detail: dict[str, Any] = {"pools": [{"types": ["plain"], "slots": 1}]}
    worker_id = store.workers.register("rig-7", types=["plain"], detail=json.dumps(detail))
    submit(store)
    store.claims.take(ClaimRequest(worker_id, 1))
    awaited, other = submit(store), submit(store)
    assert gates(store, awaited)["worker"].reason == "1 of 1 slots busy on worker rig-7"
    store.workers.beat(worker_id, detail=json.dumps(detail | {"awaited": [awaited.id], "lent": 1}))
    assert (shut(store, awaited), shut(store, other)) == ([], ["worker"])
    store.claims.take(ClaimRequest(worker_id, 1, ids=frozenset({awaited.id})))
    assert gates(store, other)["worker"].reason == "2 of 2 slots busy on worker rig-7"


def test_a_stuck_worker_has_no_free_slots(store):
    """Spec: X3"""
    detail: dict[str, Any] = {"pools": [{"types": ["plain"], "slots": 2}], "stuck": []}
    worker_id = store.workers.register("rig-7", types=["plain"], detail=json.dumps(detail))
    task = submit(store)
    assert shut(store, task) == []
    store.workers.beat(worker_id, detail=json.dumps(detail | {"stuck": [4711]}))
    assert shut(store, task) == ["worker"]


@pytest.mark.parametrize("code", ["下载", 'a"b', "a\\b", "café"])
def test_the_worker_gate_knows_types_by_any_name(store, code):
    """Spec: X3"""
    store.types.put(TaskType(code))
    task = submit(store, code)
    store.workers.register("w", types=[code])
    assert shut(store, task) == []


def test_a_task_in_history_is_explained_too_and_an_absent_one_is_not_found(store):
    """Spec: X3, B4"""
    task = put(store, State.SUCCEEDED)
    store.history.archive()
    assert "state" in shut(store, task)
    with pytest.raises(NotFound):
        store.tasks.why(4711)


def test_a_parent_names_a_child_that_has_not_ended(store):
    """Spec: X3, D7"""
    parent = running(store)
    first, second = (submit(store, parent_id=parent.id).id for _ in range(2))
    settle(store, parent, Returned())
    assert shut(store, parent) == ["state", "children"]
    gate = gates(store, parent)["children"]
    assert (gate.reason, gate.holders) == (f"0 of 2 have ended, task {second} has not", (second,))
    store.tasks.cancel(second)
    assert gates(store, parent)["children"].reason == f"1 of 2 have ended, task {first} has not"


def test_a_task_that_is_notifying_says_how_its_callback_fares(store):
    """Spec: X3, B6"""
    store.types.put(TaskType("told", callback={"success": {"url": "https://good.example/x"}}))
    task = running(store, "told")
    settle(store, task, Returned())
    store.deliveries.say_alive()
    assert shut(store, task) == ["state", "callback"]
    assert gates(store, task)["callback"].reason == "it is about to be sent"
    for status in (Delivery.PENDING, Delivery.UNDELIVERABLE):
        [leased] = store.deliveries.record_and_lease([], [("told", CallbackKind.SUCCESS, 1)], 60.0)
        store.deliveries.record([Sending(leased, "good.example", Attempt(503, 0.1), status)])
        gate = gates(store, task)["callback"]
        assert "good.example" in gate.reason
        assert "503" in gate.reason
        assert (gate.until is None) == (status is Delivery.UNDELIVERABLE)


def unfit(store, execution):
    """Its worker, of one slot, says at its beat that its handler does not stop."""
    detail = {"pools": [{"types": [execution.type], "slots": 1}], "stuck": [execution.id]}
    store.workers.beat(store.tasks.get(execution.id).worker_id, detail=json.dumps(detail))


def test_whoever_waits_behind_a_handler_that_does_not_stop_is_told_so(store):
    """Spec: X3, A6"""
    store.types.put(TaskType("copy", uses=("disk-writer",)))
    store.lanes.set_capacity("default", 1)
    store.resources.set("disk-writer", 1)
    holder = running(store, "copy", mutex="m")
    task = submit(store, "copy", mutex="m")
    before = gates(store, task)
    unfit(store, holder)
    stuck = f"; the handler of task {holder.id} does not stop on worker tester"
    found = gates(store, task)
    assert [found[name].reason for name in ("lane", "resource", "mutex", "worker")] == [
        before["lane"].reason + stuck,
        before["resource"].reason + stuck,
        before["mutex"].reason + stuck,
        f"1 of 1 slots busy on worker tester{stuck}",
    ]
    assert (found["lane"].params["stuck"], found["lane"].params["stuck_worker"]) == (holder.id, "tester")
    assert gates(store, holder)["state"].reason.endswith(stuck)
    settle(store, holder, Returned())
    assert "does not stop" not in "".join(gate.reason for gate in store.tasks.why(task.id))


def test_the_stuck_task_of_another_tenant_is_not_named(store):
    """Spec: B11"""
    store.lanes.set_capacity("default", 1)
    theirs = running(store, tenant_id=2)
    mine = submit(store, tenant_id=1)
    unfit(store, theirs)
    found = gates(store, mine)
    assert found["worker"].reason == "1 of 1 slots busy on worker tester"
    assert found["lane"].reason == "default: 1 of 1 running, 1 of other tenants"
