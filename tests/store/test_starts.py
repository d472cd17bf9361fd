"""Starts of what is assigned to an agent: one in so many seconds, over all processes, and confirmed by the agent."""

from datetime import timedelta

import pytest

from headgate.core.compensation import CompensationSettings
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.store.claim.contract import ClaimRequest
from headgate.store.db.deferred import settled
from headgate.store.store import Store, open_store
from tests.factories import START, kinds, settle, sql, submit, together

S = State


class Server:
    """A process that hands tasks over to an agent."""

    def __init__(self, store: Store, agent_id: str = "rig", tenant_id: int | None = None) -> None:
        self.store = store
        self.agent_id = agent_id
        self.tenant_id = tenant_id
        self.worker_id = store.workers.register(agent_id, agent_id=agent_id, tenant_id=tenant_id)

    def claim(self, limit: int = 9, **wanted):
        request = ClaimRequest(self.worker_id, limit, agent_id=self.agent_id, tenant_id=self.tenant_id, **wanted)
        return self.store.agents.hand_over(request)

    def ids(self, limit: int = 9, **wanted) -> list[int]:
        return [execution.id for execution in self.claim(limit, **wanted).executions]


@pytest.fixture
def server(store):
    return Server(store)


def assigned(store, count, agent_id="rig", **fields):
    return [submit(store, agent_id=agent_id, **fields).id for _ in range(count)]


def test_an_assigned_task_leaves_the_queue_as_scheduling_and_runs_when_its_start_is_confirmed(store, server, clock):
    """Spec: E1"""
    [task_id] = assigned(store, 1)
    clock.advance(1)
    [execution] = server.claim().executions
    task = store.tasks.get(task_id)
    assert (task.status, task.scheduling_time, task.started_at) == (S.SCHEDULING, clock(), None)
    assert execution.status is S.SCHEDULING
    clock.advance(2)
    assert store.executions.start(task_id, execution.exec_id) is not None
    task = store.tasks.get(task_id)
    assert (task.status, task.started_at) == (S.RUNNING, clock())
    assert kinds(store, task_id) == ["submitted", "scheduled", "started"]


def test_an_unassigned_task_runs_as_soon_as_it_is_claimed(store, server):
    """Spec: E1"""
    free = submit(store)
    [execution] = server.claim().executions
    assert (execution.id, execution.status, store.tasks.get(free.id).status) == (free.id, S.RUNNING, S.RUNNING)


def test_of_what_is_assigned_to_an_agent_one_starts_in_five_seconds_and_the_rest_waits(store, server, clock):
    """Spec: E3"""
    ids = assigned(store, 3)
    assert server.ids() == ids[:1]
    for number in (1, 2):
        assert server.ids() == []
        clock.advance(4.999)
        assert server.ids() == []
        assert store.tasks.get(ids[number]).status is S.QUEUED
        clock.advance(0.001)
        assert server.ids() == [ids[number]]
    starts = [store.tasks.get(task_id).scheduling_time for task_id in ids]
    assert starts == [START + timedelta(seconds=seconds) for seconds in (0, 5, 10)]


def test_why_says_that_a_start_waits_and_until_when(store, server, clock):
    """Spec: E3, X3"""
    _, second = assigned(store, 2)
    server.ids()
    clock.advance(2)
    shut = [gate for gate in store.tasks.why(second) if not gate.open]
    assert [(gate.name, gate.until) for gate in shut] == [("start", START + timedelta(seconds=5))]
    assert shut[0].reason == "agent rig: one start every 5 s"
    assert [server.claim().start_in for _ in range(2)] == [3.0, 3.0]  # as read, then as remembered
    clock.advance(3)
    assert all(gate.open for gate in store.tasks.why(second))
    assert server.ids() == [second]


def test_what_ended_in_between_does_not_bring_the_next_start_forward(store, server, clock):
    """Spec: E3"""
    first, second = assigned(store, 2)
    [execution] = server.claim().executions
    settle(store, store.executions.start(first, execution.exec_id), Returned())
    clock.advance(4.9)
    assert server.ids() == []
    clock.advance(0.1)
    assert server.ids() == [second]


def test_any_number_of_servers_start_one_task_of_an_agent_in_its_interval(store, server, url, clock):
    """Spec: E3"""
    ids = assigned(store, 3)
    with open_store(url, clock) as one, open_store(url, clock) as other:
        servers = [Server(one), Server(other)]
        assert servers[0].ids() == ids[:1]
        assert [each.ids() for each in (*servers, server)] == [[], [], []]
        clock.advance(5)
        assert servers[1].ids() == ids[1:2]
        assert [each.ids() for each in (*servers, server)] == [[], [], []]


def test_servers_that_ask_at_the_same_moment_start_one_task_together(store, url, clock):
    """Spec: E3"""
    stores = [open_store(url, clock) for _ in range(4)]
    servers = [Server(each) for each in stores]
    ids = assigned(store, 5)

    def until_told(one: Server) -> list[int]:
        while (claimed := one.claim()).busy and not claimed.executions:
            pass
        return [execution.id for execution in claimed.executions]

    for number in range(3):
        taken = together(*[lambda one=one: until_told(one) for one in servers])
        assert [task_id for each in taken for task_id in each] == ids[number : number + 1]
        clock.advance(5)
    for each in stores:
        each.close()


def test_a_start_that_is_not_committed_holds_up_nothing(store, server, clock):
    """Spec: E3"""
    [task_id] = assigned(store, 1)
    request = ClaimRequest(server.worker_id, 1, agent_id="rig")

    def cut_short(db):
        assert settled(store.claims.take_in(db, request)).executions
        raise ConnectionError

    with pytest.raises(ConnectionError):
        store.database.write(cut_short)
    clock.advance(1)  # so long a claimer may believe that it has taken what it has not
    assert server.ids() == [task_id]


def test_other_agents_other_tenants_and_what_is_assigned_to_nobody_are_not_held_up(store, clock):
    """Spec: B11, E3"""
    first, second = assigned(store, 2, tenant_id=1)
    [theirs] = assigned(store, 1, tenant_id=2)
    [others] = assigned(store, 1, "other", tenant_id=1)
    assert Server(store, tenant_id=1).ids() == [first]
    assert Server(store, tenant_id=2).ids() == [theirs]
    assert Server(store, "other", 1).ids() == [others]
    free = submit(store, tenant_id=1)
    assert Server(store, tenant_id=1).ids() == [free.id]
    assert store.tasks.get(second).status is S.QUEUED
    assert [gate.name for gate in store.tasks.why(second) if not gate.open] == ["start"]


def test_the_interval_is_configurable_and_none_lets_everything_through(store, server, clock):
    """Spec: E3, E5"""
    ids = assigned(store, 6)
    assert server.ids(start_seconds=60) == ids[:1]
    clock.advance(59)
    assert server.ids(start_seconds=0) == []  # the start before it said how long
    clock.advance(1)
    assert server.ids(start_seconds=0) == ids[1:]


def test_the_limit_outlives_the_processes_and_an_archived_task(store, server, url, clock):
    """Spec: E3, C12"""
    first, second = assigned(store, 2)
    [execution] = server.claim().executions
    settle(store, store.executions.start(first, execution.exec_id), Returned())
    store.history.archive()
    with open_store(url, clock) as reborn:
        again = Server(reborn)
        assert again.ids() == []
        clock.advance(5)
        assert again.ids() == [second]


def test_a_clock_that_is_set_back_does_not_hold_up_an_agent(store, server, clock):
    """Spec: E3"""
    _, second = assigned(store, 2)
    server.ids()
    clock.advance(-3600)
    assert all(gate.open for gate in store.tasks.why(second))
    with_fresh_memory = Server(store)
    store.claims._cursors.forget()
    assert with_fresh_memory.ids() == [second]


def test_a_repeated_claim_never_gets_what_another_claim_was_handed_since(store, server, clock):
    """Spec: B2, E2"""
    [task_id] = assigned(store, 1)
    [lost] = server.claim(claim_id="x").executions
    clock.advance(31)
    store.compensation.trigger(CompensationSettings())
    [second] = server.claim(claim_id="y").executions
    assert (second.id, lost.exec_id == second.exec_id) == (task_id, False)
    assert server.claim(claim_id="x").executions == []
    assert server.claim(claim_id="y").executions == [second]


def test_an_answer_kept_by_an_older_program_is_still_given_again(store, server, url):
    """Spec: B2"""
    submit(store)
    [first] = server.claim(1, claim_id="x").executions
    sql(url, "UPDATE headgate_claim_answer SET exec_ids = NULL")
    assert [again.exec_id for again in server.claim(1, claim_id="x").executions] == [first.exec_id]


def test_a_last_start_is_forgotten_when_it_says_nothing_any_more(store, server, clock):
    """Spec: A7, E3"""
    assigned(store, 2)
    server.ids(1, start_seconds=3600)
    clock.advance(600)
    assert store.history.forget_outdated(seconds=60) == 0
    clock.advance(3001)
    assert store.history.forget_outdated(seconds=3600) == 1
    assert len(server.ids()) == 1
