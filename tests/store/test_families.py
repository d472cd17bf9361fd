"""Parents and children: how a family ends, whoever ends last, and how it is cancelled."""

import pytest

from headgate.core.errors import NotFound
from headgate.core.machine import CancelReached, Raised, Returned
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask
from headgate.store import open_store
from headgate.store.claims import Outcome
from tests.factories import kinds, lose, running, settle, sql, start, submit, together

S = State
GOOD, BAD, GONE = Returned(), Raised("no"), CancelReached()


def family(store, *types, parent_type="plain", **fields):
    """A parent that waits, and its children, all running."""
    parent = running(store, parent_type)
    ids = [store.submit(NewTask(code, parent_id=parent.id, **fields)).id for code in types]
    children = start(store, len(types)) if types else []
    assert [child.id for child in children] == ids
    assert settle(store, parent, Returned('"own"')) is S.WAITING
    return store.get(parent.id), children


@pytest.mark.parametrize(
    ("ends", "status", "kind"),
    [
        ([GOOD, GOOD, GOOD], S.SUCCEEDED, "completed"),
        ([BAD, BAD], S.FAILED, "failed"),
        ([GOOD, BAD], S.PARTIAL, "completed_with_errors"),
        ([BAD, GOOD], S.PARTIAL, "completed_with_errors"),
        ([GOOD, GONE], S.PARTIAL, "completed_with_errors"),
        ([GONE, GONE], S.FAILED, "failed"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_parent_ends_as_its_children_did(store, clock, ends, status, kind, at_once):
    """Spec: D7"""
    parent, children = family(store, *["plain"] * len(ends))
    clock.advance(5)
    outcomes = [Outcome(child, end) for child, end in zip(children, ends, strict=True)]
    if at_once:
        store.settle(outcomes)
    else:
        for outcome in outcomes:
            assert store.get(parent.id).status is S.WAITING
            store.settle([outcome])
    ended = store.get(parent.id)
    assert (ended.status, ended.result, ended.finished_at) == (status, '"own"', clock())
    assert kinds(store, parent.id) == ["submitted", "started", "adopted", "waiting", kind]


def test_a_dead_child_counts_as_failed_and_its_later_replay_does_not_reopen_the_parent(store):
    """Spec: D7"""
    parent, [good, dead] = family(store, "plain", "manual")
    settle(store, good, GOOD)
    settle(store, dead, BAD)
    before = store.get(parent.id)
    assert before.status is S.PARTIAL
    store.retry(dead.id)
    [again] = start(store)
    assert settle(store, again, GOOD) is S.SUCCEEDED
    assert store.get(parent.id) == before


def test_a_child_that_will_run_again_keeps_its_parent_waiting(store, clock):
    """Spec: D7"""
    parent, [child] = family(store, "plain")
    settle(store, child, Raised("again", 5.0))
    assert store.get(parent.id).status is S.WAITING
    clock.advance(5)
    store.bring_due()
    settle(store, start(store)[0], GOOD)
    assert store.get(parent.id).status is S.SUCCEEDED


def test_a_child_whose_callback_is_on_its_way_keeps_its_parent_waiting(store):
    """Spec: D7, B6"""
    parent, [child] = family(store, "called-back")
    assert settle(store, child, GOOD) is S.NOTIFYING
    assert store.get(parent.id).status is S.WAITING
    store.delivered(child.id)
    assert store.get(parent.id).status is S.SUCCEEDED


@pytest.mark.parametrize(("end", "status"), [(GOOD, S.SUCCEEDED), (BAD, S.FAILED)])
def test_a_parent_that_returns_after_its_last_child_ends_at_once(store, end, status):
    """Spec: D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    settle(store, start(store)[0], end)
    assert store.get(parent.id).status is S.RUNNING
    settle(store, parent, Returned())
    assert store.get(parent.id).status is status


@pytest.mark.parametrize(("completed", "status"), [(True, S.NOTIFYING), (False, S.SUCCEEDED)])
def test_a_family_that_ends_well_calls_back_if_its_parent_asked_for_it(store, completed, status):
    """Spec: B6, D7"""
    parent = running(store, "called-back")
    submit(store, parent_id=parent.id)
    [child] = start(store)
    settle(store, parent, Returned(completed=completed))
    settle(store, child, GOOD)
    assert store.get(parent.id).status is status


def test_a_parent_that_fails_does_not_wait_for_its_children(store):
    """Spec: D7"""
    parent = running(store)
    child = submit(store, parent_id=parent.id)
    assert settle(store, parent, BAD) is S.FAILED
    settle(store, start(store)[0], GOOD)
    assert (store.get(parent.id).status, store.get(child.id).status) == (S.FAILED, S.SUCCEEDED)


def test_a_nested_family_ends_from_the_inside_out(store):
    """Spec: D7"""
    root, [middle] = family(store, "plain")
    leaf = submit(store, parent_id=middle.id)
    assert (leaf.root_id, leaf.parent_id, store.get(middle.id).root_id) == (root.id, middle.id, root.id)
    [execution] = start(store)
    settle(store, middle, GOOD)
    assert [store.get(i).status for i in (middle.id, root.id)] == [S.WAITING, S.WAITING]
    settle(store, execution, GOOD)
    assert [store.get(i).status for i in (middle.id, root.id)] == [S.SUCCEEDED, S.SUCCEEDED]


def test_children_archived_early_are_still_counted(store):
    """Spec: D7, B4"""
    parent, [one, two] = family(store, "plain", "plain")
    settle(store, one, BAD)
    store.archive()
    settle(store, two, GOOD)
    assert store.get(parent.id).status is S.PARTIAL


def _waiting(store):
    return family(store, "plain")[0].id


def _running(store):
    parent = running(store)
    store.submit(NewTask("plain", parent_id=parent.id))
    start(store)
    return parent.id


def _acted(act):
    def make(store):
        parent = submit(store, delay_seconds=60)
        store.submit(NewTask("plain", parent_id=parent.id))
        start(store)
        act(store, parent.id)
        return parent.id

    return make


@pytest.mark.parametrize(
    "make",
    [_waiting, _running, _acted(lambda store, task_id: None), _acted(lambda store, task_id: store.pause(task_id))],
    ids=["waiting", "running", "pending", "paused"],
)
def test_cancelling_a_parent_cancels_its_children(store, make):
    """Spec: D7, B8"""
    parent_id = make(store)
    queued, later = (submit(store, parent_id=parent_id, delay_seconds=delay).id for delay in (0, 60))
    store.cancel(parent_id, actor="user:1")
    assert [store.get(child).status for child in (queued, later)] == [S.CANCELLED] * 2
    [running_child] = [t for t in store.find().items if t.parent_id == parent_id and t.status is S.RUNNING]
    assert running_child.cancel_requested
    assert store.events(queued)[-1].actor == "user:1"


def test_a_cancelled_family_ends_when_its_running_children_have_stopped(store):
    """Spec: D7, C10"""
    parent, [one, two] = family(store, "plain", "plain")
    assert store.cancel(parent.id).status is S.WAITING
    settle(store, one, GONE)
    assert store.get(parent.id).status is S.WAITING
    settle(store, two, GOOD)
    assert store.get(parent.id).status is S.CANCELLED


def test_a_family_none_of_whose_children_runs_is_cancelled_at_once(store):
    """Spec: D7"""
    parent = running(store)
    for _ in range(5):
        submit(store, parent_id=parent.id, delay_seconds=60)
    settle(store, parent, Returned())
    assert store.cancel(parent.id).status is S.CANCELLED
    assert {task.status for task in store.find().items} == {S.CANCELLED}


def test_a_cancel_goes_down_to_the_last_grandchild_page_by_page(store):
    """Spec: D7"""
    root, [middle] = family(store, "plain")
    leaves = [submit(store, parent_id=middle.id, delay_seconds=60).id for _ in range(5)]
    settle(store, middle, GOOD)
    store.cancel_family(root.id, limit=2)
    assert {store.get(leaf).status for leaf in leaves} == {S.CANCELLED}
    assert store.get(middle.id).status is S.CANCELLED
    assert store.get(root.id).status is S.FAILED


def test_a_parent_cancelled_while_it_runs_takes_its_children_along_when_it_stops(store):
    """Spec: D7, C10"""
    parent = running(store)
    child = submit(store, parent_id=parent.id, delay_seconds=60)
    store.cancel(parent.id)
    settle(store, parent, GONE)
    assert (store.get(parent.id).status, store.get(child.id).status) == (S.CANCELLED, S.CANCELLED)


@pytest.mark.parametrize("how", ["cancelled", "given back", "rescued", "discarded", "resolved"])
def test_a_child_that_ends_outside_its_execution_closes_the_family_too(store, how):
    """Spec: D7"""
    parent, [child] = family(store, "manual")
    if how == "given back":
        store.cancel(child.id)
        store.give_back(child.id, child.exec_id)
    elif how == "rescued":
        store.cancel(child.id)
        holder = store.get(child.id).worker_id
        lose(store, holder)
        store.rescue(holder)
    elif how == "cancelled":
        settle(store, child, Raised("again", 60.0))
        store.cancel(child.id)
    else:
        settle(store, child, BAD)
        store.resolve(child.id, "ok") if how == "resolved" else store.discard(child.id)
    assert store.get(parent.id).status is S.FAILED


def test_children_that_end_at_once_close_their_family_once(store, url, clock):
    """Spec: D7"""
    parent, children = family(store, *["plain"] * 8)
    with open_store(url, clock) as other:
        stores = (store, other) * 4
        together(*[lambda s=s, c=c: settle(s, c, GOOD) for s, c in zip(stores, children, strict=True)])
    assert store.get(parent.id).status is S.SUCCEEDED
    assert [event.after in FINAL for event in store.events(parent.id)].count(True) == 1


def test_a_family_whose_closer_died_is_found_page_by_page_and_closed(store, url):
    """Spec: D7"""
    parents = [family(store, "plain") for _ in range(3)]
    ids = [parent.id for parent, _ in parents]
    assert store.waiting_parents() == ids
    assert store.waiting_parents(after=ids[0], limit=1) == [ids[1]]
    child = parents[1][1][0]
    sql(
        url,
        "UPDATE task SET status = 'succeeded', exec_id = NULL, worker_id = NULL, executing_deadline = NULL, "
        f"finished_at = start_time WHERE id = {child.id}",
    )
    assert [store.close_family(parent_id) for parent_id in ids] == [False, True, False]
    assert store.get(ids[1]).status is S.SUCCEEDED
    assert not store.close_family(4711)


def test_a_child_needs_a_parent_of_its_own_tenant(store):
    """Spec: B11, D7"""
    parent = submit(store, tenant_id=1)
    before = store.get(parent.id)
    for wishes in (
        [NewTask("plain", tenant_id=2, parent_id=parent.id)],
        [NewTask("plain", tenant_id=2, parent_id=parent.id), NewTask("plain", tenant_id=1, parent_id=parent.id)],
    ):
        with pytest.raises(NotFound):
            store.submit_many(wishes)
    assert store.get(parent.id) == before
    assert len(store.find().items) == 1
