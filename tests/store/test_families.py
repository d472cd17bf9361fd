"""Parents and children: how a family ends, whoever ends last, and how it is cancelled."""

import json
from typing import Any

import pytest

import headgate.store.tasks.family_progress as family_progress
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.core.family import Census, Children
from headgate.core.machine import CancelReached, Raised, Returned
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import Outcome
from headgate.store.reading.lists import Filter
from headgate.store.store import open_store
from tests.factories import end_overdue, kinds, lose, running, settle, sql, start, submit, together

S = State
GOOD, BAD, GONE = Returned(), Raised("no"), CancelReached()


def family(store, *types, parent_type="plain", **fields):
    """A parent that waits, and its children, all running."""
    parent = running(store, parent_type)
    ids = [store.tasks.submit(NewTask(code, parent_id=parent.id, **fields)).id for code in types]
    children = start(store, len(types)) if types else []
    assert [child.id for child in children] == ids
    assert settle(store, parent, Returned('"own"')) is S.WAITING
    return store.tasks.get(parent.id), children


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
        store.executions.settle(outcomes)
    else:
        for outcome in outcomes:
            assert store.tasks.get(parent.id).status is S.WAITING
            store.executions.settle([outcome])
    ended = store.tasks.get(parent.id)
    assert (ended.status, ended.result, ended.finished_at) == (status, '"own"', clock())
    assert kinds(store, parent.id) == ["submitted", "started", "adopted", "waiting", "progress", kind]


def test_a_dead_child_counts_as_failed_and_its_later_replay_does_not_reopen_the_parent(store):
    """Spec: D7"""
    parent, [good, dead] = family(store, "plain", "manual")
    settle(store, good, GOOD)
    settle(store, dead, BAD)
    before = store.tasks.get(parent.id)
    assert before.status is S.PARTIAL
    store.tasks.retry(dead.id)
    [again] = start(store)
    assert settle(store, again, GOOD) is S.SUCCEEDED
    assert store.tasks.get(parent.id) == before


def test_a_child_that_will_run_again_keeps_its_parent_waiting(store, clock):
    """Spec: D7"""
    parent, [child] = family(store, "plain")
    settle(store, child, Raised("again", 5.0))
    assert store.tasks.get(parent.id).status is S.WAITING
    clock.advance(5)
    store.due.bring()
    settle(store, start(store)[0], GOOD)
    assert store.tasks.get(parent.id).status is S.SUCCEEDED


def test_a_child_whose_callback_is_on_its_way_keeps_its_parent_waiting(store):
    """Spec: D7, B6"""
    parent, [child] = family(store, "called-back")
    assert settle(store, child, GOOD) is S.NOTIFYING
    assert store.tasks.get(parent.id).status is S.WAITING
    store.tasks.delivered(child.id)
    assert store.tasks.get(parent.id).status is S.SUCCEEDED


@pytest.mark.parametrize(("end", "status"), [(GOOD, S.SUCCEEDED), (BAD, S.FAILED)])
def test_a_parent_that_returns_after_its_last_child_ends_at_once(store, end, status):
    """Spec: D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    settle(store, start(store)[0], end)
    assert store.tasks.get(parent.id).status is S.RUNNING
    settle(store, parent, Returned())
    assert store.tasks.get(parent.id).status is status


@pytest.mark.parametrize(("completed", "status"), [(True, S.NOTIFYING), (False, S.SUCCEEDED)])
def test_a_family_that_ends_well_calls_back_if_its_parent_asked_for_it(store, completed, status):
    """Spec: B6, D7"""
    parent = running(store, "called-back")
    submit(store, parent_id=parent.id)
    [child] = start(store)
    settle(store, parent, Returned(completed=completed))
    settle(store, child, GOOD)
    assert store.tasks.get(parent.id).status is status


@pytest.mark.parametrize(
    ("type_code", "status", "kind"), [("plain", S.FAILED, "failed"), ("manual", S.DEAD, "dead_lettered")]
)
def test_a_parent_that_gives_up_takes_its_children_along_and_then_ends(store, type_code, status, kind):
    """Spec: D7, B5"""
    parent = running(store, type_code)
    at_work, queued, later = (submit(store, parent_id=parent.id, delay_seconds=delay) for delay in (0, 0, 60))
    [execution] = start(store)
    assert settle(store, parent, BAD) is S.WAITING
    told = [store.tasks.get(child.id) for child in (queued, later)]
    assert {(child.status, child.remark) for child in told} == {(S.CANCELLED, "its parent gave up")}
    assert store.tasks.get(at_work.id).cancel_requested
    assert store.tasks.get(parent.id).status is S.WAITING
    settle(store, execution, GONE)
    ended = store.tasks.get(parent.id)
    assert (ended.status, ended.error_info, ended.error_count) == (status, "no", 1)
    assert kinds(store, parent.id) == ["submitted", "started", "adopted", "giving_up", "progress", kind]


@pytest.mark.parametrize("end", [GOOD, BAD, GONE], ids=["succeeded", "failed", "cancelled"])
def test_a_parent_that_gives_up_has_failed_however_its_children_end(store, end):
    """Spec: D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    [child] = start(store)
    settle(store, parent, BAD)
    settle(store, child, end)
    assert store.tasks.get(parent.id).status is S.FAILED


def test_a_parent_that_gives_up_behind_its_last_child_ends_at_once(store):
    """Spec: D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    settle(store, start(store)[0], GOOD)
    settle(store, parent, BAD)
    assert store.tasks.get(parent.id).status is S.FAILED


def test_a_parent_taken_for_poison_or_overdue_for_good_leaves_no_orphans(store, clock):
    """Spec: D7, B3"""
    slow = running(store, timeout_seconds=10)
    orphan = submit(store, parent_id=slow.id, delay_seconds=60)
    clock.advance(11)
    end_overdue(store)
    assert [store.tasks.get(i).status for i in (slow.id, orphan.id)] == [S.FAILED, S.CANCELLED]
    poison = submit(store)
    orphan = submit(store, parent_id=poison.id, delay_seconds=60)
    for _ in range(3):
        start(store)
        holder = store.tasks.get(poison.id).worker_id
        lose(store, holder)
        store.executions.rescue(holder)
    assert [store.tasks.get(i).status for i in (poison.id, orphan.id)] == [S.FAILED, S.CANCELLED]


def test_a_parent_that_will_run_again_keeps_its_children(store):
    """Spec: D7"""
    parent = running(store)
    child = submit(store, parent_id=parent.id)
    assert settle(store, parent, Raised("again", 60.0)) is S.RETRYING
    assert store.tasks.get(child.id).status is S.QUEUED


def test_a_family_being_cancelled_takes_no_more_children(store):
    """Spec: D7"""
    for end in (GOOD, BAD):
        parent = running(store)
        submit(store, parent_id=parent.id)
        start(store)
        settle(store, parent, end)
        if end is GOOD:
            store.tasks.cancel(parent.id)
        with pytest.raises(Refused, match="accepts no more children"):
            submit(store, parent_id=parent.id)
        assert len(store.tasks.find(Filter(parent_id=parent.id)).items) == 1


def test_a_parent_that_has_ended_takes_no_children_and_is_not_said_to_be_absent(store):
    """Spec: D7, B11"""
    parent = running(store)
    settle(store, parent, GOOD)
    wish, ended = NewTask("plain", parent_id=parent.id), f"task {parent.id} has ended and accepts no children"
    for _ in range(2):  # as long as it is live, and in history
        with pytest.raises(Refused, match=ended):
            store.tasks.submit(wish)
        with pytest.raises(NotFound, match=f"no parent task {parent.id}"):
            store.tasks.submit(wish._replace(tenant_id=7))
        with pytest.raises(NotFound, match="no parent task 4711"):
            store.tasks.submit_many([wish, wish._replace(parent_id=4711)])
        store.history.archive()
    assert store.tasks.find(Filter(parent_id=parent.id)).items == []


def test_a_person_s_cancel_of_a_parent_that_gave_up_is_the_last_word(store):
    """Spec: D7, B8"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    [child] = start(store)
    settle(store, parent, BAD)
    store.tasks.cancel(parent.id)
    settle(store, child, GONE)
    ended = store.tasks.get(parent.id)
    assert (ended.status, ended.error_info) == (S.CANCELLED, "no")


def test_a_dead_parent_that_is_replayed_is_judged_by_its_new_children(store):
    """Spec: D7, D12"""
    parent = running(store, "manual")
    for _ in range(2):
        submit(store, parent_id=parent.id)
    settle(store, parent, BAD)
    assert store.tasks.get(parent.id).status is S.DEAD
    store.history.archive()
    store.tasks.retry(parent.id)
    [again] = start(store)
    submit(store, parent_id=parent.id)
    [child] = start(store)
    settle(store, again, GOOD)
    assert store.families.census(store.tasks.get(parent.id)).states == {S.RUNNING: 1}
    settle(store, child, GOOD)
    assert store.tasks.get(parent.id).status is S.SUCCEEDED
    assert len(store.tasks.find(Filter(parent_id=parent.id)).items) == 3


def test_a_dead_parent_that_is_replayed_without_children_ends_by_itself(store):
    """Spec: D7, D12"""
    parent = running(store, "manual")
    submit(store, parent_id=parent.id)
    settle(store, parent, BAD)
    store.tasks.retry(parent.id)
    assert settle(store, start(store)[0], GOOD) is S.SUCCEEDED


# What becomes of the others when one has failed


def by_type(store, **fields):
    store.types.put(TaskType("strict", on_child_failure="cancel"))
    return running(store, "strict", **fields)


def by_task(store, **fields):
    return running(store, on_child_failure="cancel", **fields)


@pytest.mark.parametrize("make", [by_type, by_task])
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "running"])
@pytest.mark.parametrize("code", ["plain", "manual"], ids=["failed", "dead"])
def test_with_the_policy_cancel_a_child_that_fails_for_good_ends_the_others(store, make, waits, code):
    """Spec: D7"""
    parent = make(store)
    children = [submit(store, code, parent_id=parent.id) for code in (code, *["plain"] * 4)]
    failing, good, at_work = start(store, 3)
    if waits:
        settle(store, parent, GOOD)
    settle(store, good, GOOD)
    assert store.tasks.get(children[4].id).status is S.QUEUED
    settle(store, failing, BAD)
    told = [store.tasks.get(child.id) for child in children[3:]]
    assert {(child.status, child.remark) for child in told} == {(S.CANCELLED, "another child of its parent failed")}
    assert store.tasks.get(at_work.id).cancel_requested
    settle(store, at_work, GONE)
    if not waits:
        assert settle(store, parent, GOOD) is S.WAITING
    assert store.tasks.get(parent.id).status is S.PARTIAL


def test_a_task_s_own_policy_goes_over_its_type_s(store):
    """Spec: D7"""
    parent = by_type(store, on_child_failure="continue")
    failing, other = (submit(store, parent_id=parent.id) for _ in range(2))
    settle(store, start(store)[0], BAD)
    assert (store.tasks.get(failing.id).status, store.tasks.get(other.id).status) == (S.FAILED, S.QUEUED)


@pytest.mark.parametrize("end", [Raised("again", 60.0), GONE], ids=["retrying", "cancelled"])
def test_a_child_that_is_tried_again_or_was_cancelled_ends_no_others(store, end):
    """Spec: D7"""
    parent = by_task(store)
    for _ in range(2):
        submit(store, parent_id=parent.id)
    settle(store, start(store)[0], end)
    [other] = start(store)
    assert not store.tasks.get(other.id).cancel_requested


def test_children_given_to_a_broken_family_go_when_its_own_code_is_done(store):
    """Spec: D7"""
    parent = by_task(store)
    submit(store, parent_id=parent.id)
    settle(store, start(store)[0], BAD)
    late = submit(store, parent_id=parent.id)
    settle(store, parent, GOOD)
    assert (store.tasks.get(late.id).status, store.tasks.get(parent.id).status) == (S.CANCELLED, S.FAILED)


def test_a_policy_nobody_knows_is_refused(store):
    """Spec: D7"""
    with pytest.raises(Invalid, match="on_child_failure"):
        submit(store, on_child_failure="panic")
    with pytest.raises(Invalid, match="on_child_failure"):
        TaskType("strict", on_child_failure="panic")


# How far it is


def test_a_census_tells_how_many_children_are_in_each_state(store):
    """Spec: D7"""
    parent, [one, two, three] = family(store, "plain", "plain", "manual")
    submit(store, parent_id=parent.id, delay_seconds=60)
    settle(store, one, GOOD)
    settle(store, three, BAD)
    counted = store.families.census(store.tasks.get(parent.id))
    assert counted == Census({S.SUCCEEDED: 1, S.RUNNING: 1, S.DEAD: 1, S.PENDING: 1})
    assert counted.children == Children(succeeded=1, failed=1, open=2)
    settle(store, two, GOOD)
    store.tasks.cancel(parent.id)
    store.history.archive()
    assert store.families.census(store.tasks.get(parent.id)).children == Children(succeeded=2, failed=2)
    [told] = [event.detail for event in store.events.of(parent.id) if event.kind == "cancelled"]
    assert json.loads(told) == {"children": {"cancelled": 1, "dead": 1, "succeeded": 2}, "reason": "cancelled"}


def test_a_census_counts_no_further_than_it_has_to(store, monkeypatch):
    """Spec: D7, X4"""
    parent, _ = family(store, "plain", "plain", "plain")
    monkeypatch.setattr("headgate.store.tasks.families.EXACT_UP_TO", 2)
    assert store.families.census(parent) == Census({S.RUNNING: 3}, exact=False)


def test_a_nested_family_ends_from_the_inside_out(store):
    """Spec: D7"""
    root, [middle] = family(store, "plain")
    leaf = submit(store, parent_id=middle.id)
    assert (leaf.root_id, leaf.parent_id, store.tasks.get(middle.id).root_id) == (root.id, middle.id, root.id)
    [execution] = start(store)
    settle(store, middle, GOOD)
    assert [store.tasks.get(i).status for i in (middle.id, root.id)] == [S.WAITING, S.WAITING]
    settle(store, execution, GOOD)
    assert [store.tasks.get(i).status for i in (middle.id, root.id)] == [S.SUCCEEDED, S.SUCCEEDED]


def test_children_archived_early_are_still_counted(store):
    """Spec: D7, B4"""
    parent, [one, two] = family(store, "plain", "plain")
    settle(store, one, BAD)
    store.history.archive()
    settle(store, two, GOOD)
    assert store.tasks.get(parent.id).status is S.PARTIAL


def _waiting(store):
    return family(store, "plain")[0].id


def _running(store):
    parent = running(store)
    store.tasks.submit(NewTask("plain", parent_id=parent.id))
    start(store)
    return parent.id


def _acted(act):
    def make(store):
        parent = submit(store, delay_seconds=60)
        store.tasks.submit(NewTask("plain", parent_id=parent.id))
        start(store)
        act(store, parent.id)
        return parent.id

    return make


@pytest.mark.parametrize(
    "make",
    [
        _waiting,
        _running,
        _acted(lambda store, task_id: None),
        _acted(lambda store, task_id: store.tasks.pause(task_id)),
    ],
    ids=["waiting", "running", "pending", "paused"],
)
def test_cancelling_a_parent_cancels_its_children(store, make):
    """Spec: D7, B8"""
    parent_id = make(store)
    queued, later = (submit(store, parent_id=parent_id, delay_seconds=delay).id for delay in (0, 60))
    store.tasks.cancel(parent_id, actor="user:1")
    assert [store.tasks.get(child).status for child in (queued, later)] == [S.CANCELLED] * 2
    [running_child] = [t for t in store.tasks.find().items if t.parent_id == parent_id and t.status is S.RUNNING]
    assert running_child.cancel_requested
    assert store.events.of(queued)[-1].actor == "user:1"


def test_a_cancelled_family_ends_when_its_running_children_have_stopped(store):
    """Spec: D7, C10"""
    parent, [one, two] = family(store, "plain", "plain")
    assert store.tasks.cancel(parent.id).status is S.WAITING
    settle(store, one, GONE)
    assert store.tasks.get(parent.id).status is S.WAITING
    settle(store, two, GOOD)
    assert store.tasks.get(parent.id).status is S.CANCELLED


def test_a_family_none_of_whose_children_runs_is_cancelled_at_once(store):
    """Spec: D7"""
    parent = running(store)
    for _ in range(5):
        submit(store, parent_id=parent.id, delay_seconds=60)
    settle(store, parent, Returned())
    assert store.tasks.cancel(parent.id).status is S.CANCELLED
    assert {task.status for task in store.tasks.find().items} == {S.CANCELLED}


def test_a_cancel_goes_down_to_the_last_grandchild_page_by_page(store):
    """Spec: D7"""
    root, [middle] = family(store, "plain")
    leaves = [submit(store, parent_id=middle.id, delay_seconds=60).id for _ in range(5)]
    settle(store, middle, GOOD)
    store.families.cancel(root.id, "enough", limit=2)
    assert {store.tasks.get(leaf).status for leaf in leaves} == {S.CANCELLED}
    assert store.tasks.get(middle.id).status is S.CANCELLED
    assert store.tasks.get(root.id).status is S.FAILED


def test_a_parent_cancelled_while_it_runs_takes_its_children_along_when_it_stops(store):
    """Spec: D7, C10"""
    parent = running(store)
    child = submit(store, parent_id=parent.id, delay_seconds=60)
    store.tasks.cancel(parent.id)
    settle(store, parent, GONE)
    assert (store.tasks.get(parent.id).status, store.tasks.get(child.id).status) == (S.CANCELLED, S.CANCELLED)


@pytest.mark.parametrize("how", ["cancelled", "given back", "rescued", "discarded", "resolved"])
def test_a_child_that_ends_outside_its_execution_closes_the_family_too(store, how):
    """Spec: D7"""
    parent, [child] = family(store, "manual")
    if how == "given back":
        store.tasks.cancel(child.id)
        store.executions.give_back(child.id, child.exec_id)
    elif how == "rescued":
        store.tasks.cancel(child.id)
        holder = store.tasks.get(child.id).worker_id
        lose(store, holder)
        store.executions.rescue(holder)
    elif how == "cancelled":
        settle(store, child, Raised("again", 60.0))
        store.tasks.cancel(child.id)
    else:
        settle(store, child, BAD)
        store.tasks.resolve(child.id, "ok") if how == "resolved" else store.tasks.discard(child.id)
    assert store.tasks.get(parent.id).status is S.FAILED


def test_children_that_end_at_once_close_their_family_once(store, url, clock):
    """Spec: D7"""
    parent, children = family(store, *["plain"] * 8)
    with open_store(url, clock) as other:
        stores = (store, other) * 4
        together(*[lambda s=s, c=c: settle(s, c, GOOD) for s, c in zip(stores, children, strict=True)])
    assert store.tasks.get(parent.id).status is S.SUCCEEDED
    assert [event.after in FINAL for event in store.events.of(parent.id)].count(True) == 1


def test_a_family_whose_closer_died_is_found_page_by_page_and_closed(store, url):
    """Spec: D7"""
    parents = [family(store, "plain") for _ in range(3)]
    ids = [parent.id for parent, _ in parents]
    assert store.families.waiting() == ids
    assert store.families.waiting(after=ids[0], limit=1) == [ids[1]]
    child = parents[1][1][0]
    sql(
        url,
        "UPDATE headgate_task SET status = 'succeeded', exec_id = NULL, worker_id = NULL, executing_deadline = NULL, "
        f"finished_at = start_time WHERE id = {child.id}",
    )
    assert [store.families.close(parent_id) for parent_id in ids] == [False, True, False]
    assert store.tasks.get(ids[1]).status is S.SUCCEEDED
    assert not store.families.close(4711)


def test_a_child_needs_a_parent_of_its_own_tenant(store):
    """Spec: B11, D7"""
    parent = submit(store, tenant_id=1)
    before = store.tasks.get(parent.id)
    for wishes in (
        [NewTask("plain", tenant_id=2, parent_id=parent.id)],
        [NewTask("plain", tenant_id=2, parent_id=parent.id), NewTask("plain", tenant_id=1, parent_id=parent.id)],
    ):
        with pytest.raises(NotFound):
            store.tasks.submit_many(wishes)
    assert store.tasks.get(parent.id) == before
    assert len(store.tasks.find().items) == 1


def told(store, parent_id: int) -> list[dict[str, Any]]:
    return [json.loads(event.detail) for event in store.events.of(parent_id) if event.kind == "progress"]


def tell(store) -> None:
    for each in store.family_progress.waiting().untold:
        store.family_progress.tell(each)


def test_a_waiting_parent_tells_its_progress_once_a_second_and_always_at_the_last(store, clock):
    """Spec: D3, D6, D7"""
    parent = running(store)
    for _ in range(4):
        submit(store, parent_id=parent.id)
    settle(store, parent, GOOD)
    tell(store)
    assert told(store, parent.id) == [], "nobody has ended"
    settle(store, start(store)[0], GOOD)
    tell(store)
    settle(store, start(store)[0], BAD)
    tell(store)
    assert told(store, parent.id) == [{"done": 1, "total": 4}], "a second has not passed"
    clock.advance(1)
    tell(store)
    assert told(store, parent.id) == [{"done": 2, "total": 4, "failed": 1}], "in place of the one before"
    clock.advance(5)
    assert store.family_progress.waiting().untold == [], "nothing has changed"
    for _ in range(2):
        settle(store, start(store)[0], GOOD)
    assert told(store, parent.id) == [{"done": 4, "total": 4, "failed": 1}]
    assert [event.kind for event in store.events.of(parent.id)][-2:] == ["progress", "completed_with_errors"]


def test_a_parent_s_progress_is_not_told_after_its_end(store, clock):
    """Spec: D7"""
    parent = running(store)
    for _ in range(2):
        submit(store, parent_id=parent.id)
    settle(store, parent, GOOD)
    settle(store, start(store)[0], GOOD)
    [late] = store.family_progress.waiting().untold
    settle(store, start(store)[0], GOOD)
    clock.advance(2)
    store.family_progress.tell(late)
    assert told(store, parent.id) == [{"done": 2, "total": 2}]


def test_ending_a_child_tells_nothing_by_itself(store):
    """Spec: D7"""
    parent = running(store)
    for _ in range(3):
        submit(store, parent_id=parent.id)
    settle(store, parent, GOOD)
    before = store.events.of(parent.id)
    settle(store, start(store)[0], GOOD)
    assert store.events.of(parent.id) == before


def test_the_parents_of_a_list_are_counted_together(store, monkeypatch):
    """Spec: D7"""
    parents = [running(store) for _ in range(3)]
    for number, parent in enumerate(parents):
        for _ in range(number):
            submit(store, parent_id=parent.id)
    page = store.tasks.find(limit=50).items
    assert {task_id: found.children.total for task_id, found in store.families.census_of(page).items()} == {
        parents[1].id: 1, parents[2].id: 2,
    }  # fmt: skip
    monkeypatch.setattr(family_progress, "LEAST_IN_A_LIST", 1)
    monkeypatch.setattr(family_progress, "MOST_IN_A_LIST", 1)
    assert set(store.families.census_of(page)) == {parents[1].id}, "too large a family is left out"
