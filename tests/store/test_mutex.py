"""One at a time per mutex, in the order of the line, and freed whatever becomes of its holder."""

import pytest

from headgate.core.machine import CancelReached, GivenBack, PauseReached, Raised, Returned, Snoozed
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import open_store
from tests.factories import drain, end_overdue, lose, running, settle, sql, start, submit, together, worker


def test_a_mutex_is_strictly_serial_in_the_order_of_priority_then_creation(store):
    """Spec: A10"""
    priorities = (5, 1, 5, 9, 1, -3)
    ids = [submit(store, mutex="m", priority=priority).id for priority in priorities]
    expected = [task_id for _, task_id in sorted(zip(priorities, ids, strict=True))]
    got = []
    while executions := start(store, 9):
        assert len(executions) == 1
        assert start(store, 9) == []
        got.append(executions[0].id)
        settle(store, executions[0], Returned())
    assert got == expected


def test_a_mutex_is_one_across_lanes_types_and_categories(store):
    """Spec: A10"""
    kinds = [("default", "plain", "x"), ("other", "plain", "x"), ("other", "manual", "x"), ("other", "manual", "y")]
    wishes = [NewTask(t, lane=lane, category=c, mutex="m", priority=p) for p in (7, 2) for lane, t, c in kinds]
    ids = [made.id for made in store.tasks.submit_many(wishes)]
    [handed] = start(store, 9, confirm=True)
    assert start(store, 9) == []
    store.executions.give_back(handed.id, handed.exec_id)
    assert drain(store) == ids[4:] + ids[:4]


def test_a_mutex_is_one_tenants(store):
    """Spec: A10, B11"""
    for tenant_id in (1, 2):
        submit(store, mutex="m", tenant_id=tenant_id)
    assert len(start(store, 9)) == 2


def test_tasks_of_other_mutexes_or_none_pass_by(store):
    """Spec: A10"""
    ids = [submit(store, mutex=mutex).id for mutex in ("m", "m", "n", None)]
    assert [execution.id for execution in start(store, 9)] == [ids[0], *ids[2:]]


@pytest.mark.parametrize("shut", ["capacity", "pause", "no server"])
def test_a_head_whose_lane_is_shut_holds_up_nobody(store, shut):
    """Spec: A10"""
    head = submit(store, "manual", lane="shut", mutex="m", priority=1)
    second = submit(store, mutex="m")
    wanted = {}
    if shut == "capacity":
        store.lanes.set_capacity("shut", 0)
    elif shut == "pause":
        store.lanes.pause("shut")
    else:
        wanted = {"types": frozenset({"plain"})}
    [execution] = start(store, 9, **wanted)
    assert execution.id == second.id
    store.lanes.set_capacity("shut", None)
    store.lanes.resume("shut")
    assert start(store, 9) == []
    settle(store, execution, Returned())
    assert drain(store) == [head.id]


def test_a_task_of_higher_priority_overtakes_the_line_but_not_the_holder(store):
    """Spec: A10, A4"""
    holder = running(store, mutex="m")
    second, urgent = submit(store, mutex="m"), submit(store, mutex="m", priority=1)
    assert start(store, 9) == []
    settle(store, holder, Returned())
    assert store.tasks.get(urgent.id).status is State.QUEUED
    assert store.tasks.get(second.id).status is State.BLOCKED
    assert drain(store) == [urgent.id, second.id]


def test_an_urgent_newcomer_takes_the_place_of_a_head_that_has_not_started(store):
    """Spec: A10, A4"""
    first, urgent = submit(store, mutex="m"), submit(store, mutex="m", priority=1)
    assert (store.tasks.get(first.id).status, store.tasks.get(urgent.id).status) == (State.BLOCKED, State.QUEUED)
    store.tasks.prioritize(first.id, 0)
    assert drain(store) == [first.id, urgent.id]


@pytest.mark.parametrize(
    "end", [Returned(), Raised("no"), Raised("again", 60.0), Snoozed(60.0), PauseReached(), CancelReached()]
)
def test_a_mutex_is_free_when_its_holder_ends_or_rests(store, end):
    """Spec: A10"""
    holder = running(store, mutex="m")
    following = submit(store, mutex="m")
    settle(store, holder, end)
    assert drain(store) == [following.id]


def test_a_holder_given_back_goes_first_again(store):
    """Spec: A10, D9"""
    holder = running(store, mutex="m")
    following = submit(store, mutex="m")
    settle(store, holder, GivenBack())
    assert drain(store) == [holder.id, following.id]


def test_a_mutex_is_free_when_its_holder_dies(store):
    """Spec: A10"""
    worker_id = worker(store)
    first, second = submit(store, mutex="m", max_error_count=0), submit(store, mutex="m")
    store.claims.take(ClaimRequest(worker_id, 1))
    lose(store, worker_id)
    assert start(store) == []
    assert [task.id for task in store.executions.rescue(worker_id)] == [first.id]
    assert drain(store) == [first.id, second.id]


def test_a_holder_past_its_deadline_is_fenced_and_the_next_may_start(store, clock):
    """Spec: A10, A6"""
    holder = running(store, mutex="m", timeout_seconds=5)
    following = submit(store, mutex="m")
    clock.advance(6)
    end_overdue(store)
    assert [execution.id for execution in start(store)] == [following.id]
    assert settle(store, holder, Returned()) is None


@pytest.mark.parametrize("act", ["cancel", "pause"])
@pytest.mark.parametrize("which", [0, 1])
def test_the_line_closes_when_one_leaves_it(store, act, which):
    """Spec: A10"""
    ids = [submit(store, mutex="m").id for _ in range(3)]
    getattr(store.tasks, act)(ids.pop(which))
    assert drain(store) == ids


def test_a_resumed_task_takes_its_place_in_the_line_again(store):
    """Spec: A10, A2"""
    ids = [submit(store, mutex="m").id for _ in range(3)]
    store.tasks.pause(ids[0])
    store.tasks.resume(ids[0])
    assert drain(store) == ids


def test_a_task_handed_over_and_not_confirmed_holds_its_mutex(store):
    """Spec: A10, E1"""
    first, second = submit(store, mutex="m"), submit(store, mutex="m")
    start(store, confirm=True)
    assert start(store, 9) == []
    store.tasks.cancel(first.id)
    assert drain(store) == [second.id]


def family(store, **fields):
    """A parent that waits, holding mutex m, for a child of the same mutex."""
    parent = running(store, mutex="m")
    child = submit(store, mutex="m", parent_id=parent.id, **fields)
    return parent, child


def test_a_family_holds_its_mutex_as_one(store):
    """Spec: A10, D7"""
    parent, late = family(store)
    stranger = submit(store, mutex="m", priority=1)
    urgent = submit(store, mutex="m", parent_id=parent.id, priority=2)
    assert start(store, 9) == []
    settle(store, parent, Returned())
    [first] = start(store, 9)
    assert first.id == urgent.id
    settle(store, first, Returned())
    [second] = start(store, 9)
    assert second.id == late.id
    assert store.tasks.get(stranger.id).status is State.BLOCKED
    settle(store, second, Returned())
    assert store.tasks.get(parent.id).status is State.SUCCEEDED
    assert drain(store) == [stranger.id]


def test_a_family_keeps_its_mutex_while_a_child_waits_for_its_time(store, clock):
    """Spec: A10, D7"""
    parent, child = family(store, delay_seconds=60)
    stranger = submit(store, mutex="m")
    settle(store, parent, Returned())
    assert start(store, 9) == []
    clock.advance(60)
    store.due.bring()
    assert drain(store) == [child.id, stranger.id]


def test_a_grandchild_belongs_to_the_family_that_holds_the_mutex(store):
    """Spec: A10, D7"""
    parent, child = family(store)
    stranger = submit(store, mutex="m", priority=0)
    settle(store, parent, Returned())
    [execution] = start(store, 9)
    assert execution.id == child.id
    grandchild = submit(store, mutex="m", parent_id=child.id)
    settle(store, execution, Returned())
    assert drain(store) == [grandchild.id, stranger.id]


def test_a_parent_cancelled_before_its_start_does_not_let_its_children_into_anothers_mutex(store, monkeypatch):
    """Spec: A10, D7"""
    holder = running(store, mutex="m")
    late = store.tasks.submit(NewTask("plain", parent_id=holder.id, mutex="m", delay_seconds=100))
    assert settle(store, holder, Returned()) is State.WAITING
    parent = submit(store, mutex="m")
    child = store.tasks.submit(NewTask("plain", parent_id=parent.id, mutex="m"))
    monkeypatch.setattr(store.families, "cancel", lambda *_, **__: None)  # whoever cancelled it died half-way
    assert store.tasks.cancel(parent.id).status is State.WAITING
    assert store.tasks.get(child.id).status is State.BLOCKED
    assert start(store, 9) == []
    store.tasks.reschedule(late.id, store.tasks.get(late.id).create_date)
    store.due.bring()
    assert [execution.id for execution in start(store, 9)] == [late.id]


def test_a_parent_that_gave_up_keeps_its_mutex_until_its_children_have_gone(store):
    """Spec: A10, D7"""
    parent = running(store, mutex="m")
    submit(store, mutex="m", parent_id=parent.id)
    stranger = submit(store, mutex="m")
    other = submit(store, parent_id=parent.id)
    [at_work] = start(store)
    assert at_work.id == other.id
    settle(store, parent, Raised("no"))
    assert start(store, 9) == []
    settle(store, at_work, CancelReached())
    assert store.tasks.get(parent.id).status is State.FAILED
    assert [execution.id for execution in start(store, 9)] == [stranger.id]


def test_a_family_comes_forward_in_every_stream_however_many_of_it_wait(store):
    """Spec: A10, D7"""
    parent = running(store, mutex="m")
    store.tasks.submit_many([NewTask("plain", mutex="m", lane="shut", parent_id=parent.id) for _ in range(1200)])
    child = submit(store, mutex="m", lane="open", parent_id=parent.id)
    store.lanes.pause("shut")
    settle(store, parent, Returned())
    assert [execution.id for execution in start(store, 9)] == [child.id]


def test_a_child_without_the_mutex_is_not_held_by_its_family(store):
    """Spec: A10, D7"""
    parent = running(store, mutex="m")
    child = submit(store, parent_id=parent.id)
    assert [execution.id for execution in start(store, 9)] == [child.id]


def test_starts_and_ends_of_one_mutex_alternate_when_many_work_at_once(store, url):
    """Spec: A10"""
    made = store.tasks.submit_many([NewTask("plain", mutex="m", lane=f"l{n % 2}", priority=n % 3) for n in range(24)])

    def work(at):
        worker_id = worker(at)
        while any(at.tasks.get(task.id).status is not State.SUCCEEDED for task in made):
            for execution in at.claims.take(ClaimRequest(worker_id, 3)).executions:
                settle(at, execution, Returned())

    with open_store(url) as one, open_store(url) as two:  # on the wall clock: what is remembered must grow old
        assert together(*[lambda s=s: work(s) for s in (one, two) * 2]) == [None] * 4
    ordered = sql(
        url, "SELECT kind, task_id FROM headgate_task_event WHERE kind IN ('started', 'completed') ORDER BY id"
    )
    assert [kind for kind, _ in ordered] == ["started", "completed"] * 24
    assert sorted(task_id for kind, task_id in ordered if kind == "started") == [task.id for task in made]


def test_a_line_that_something_left_in_disorder_is_repaired_page_by_page(store, url):
    """Spec: A10"""
    ids = {mutex: [submit(store, mutex=mutex).id for _ in range(2)] for mutex in ("a", "b", "c")}
    sql(url, "UPDATE headgate_task SET status = 'blocked'")
    assert start(store, 9) == []
    pages, after = 0, store.mutexes.repair(limit=1)
    while after is not None:
        pages, after = pages + 1, store.mutexes.repair(after, limit=1)
    assert pages == 3
    assert sorted(execution.id for execution in start(store, 9)) == sorted(line[0] for line in ids.values())
