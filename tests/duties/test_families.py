"""A family whose closer died is closed all the same."""

import pytest

from headgate.core.errors import Refused
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.duties import CloseFamilies, TellFamilyProgress
from headgate.settings import Settings
from headgate.threads import inline
from tests.duties.turns import changed, settle_down, turn
from tests.factories import kinds, running, settle, start, submit

S = State


@pytest.fixture
def dying(store, monkeypatch):
    """Do something, and die before its family is looked after."""

    def run(act):
        with monkeypatch.context() as patched:
            patched.setattr(store.families, "look_after", lambda parent_ids: None)
            patched.setattr(store.families, "cancel", lambda parent_id, reason, **_: None)
            return act()

    return run


def orphaned(store, dying, event=None, **fields):
    """A parent that waits, whose only child has ended."""
    parent = running(store, **fields)
    submit(store, parent_id=parent.id)
    settle(store, parent, Returned())
    [child] = start(store)
    dying(lambda: settle(store, child, event or Returned()))
    assert store.tasks.get(parent.id).status is S.WAITING
    return parent


def test_a_parent_that_nobody_closed_is_closed(store, dying):
    """Spec: D7"""
    parent = orphaned(store, dying)
    assert turn(CloseFamilies(store, Settings(), inline)) == 0
    assert store.tasks.get(parent.id).status is S.SUCCEEDED
    assert kinds(store, parent.id)[-1] == "completed"


def test_a_cancelled_parent_whose_children_nobody_cancelled_ends_with_them(store, dying):
    """Spec: D7, B8"""
    parent = running(store)
    child = submit(store, parent_id=parent.id)
    settle(store, parent, Returned())
    dying(lambda: store.tasks.cancel(parent.id))
    assert store.tasks.get(child.id).status is S.QUEUED
    turn(CloseFamilies(store, Settings(), inline))
    assert (store.tasks.get(child.id).status, store.tasks.get(parent.id).status) == (S.CANCELLED, S.CANCELLED)


def test_a_parent_that_gave_up_and_whose_children_nobody_cancelled_ends_with_them(store, dying):
    """Spec: D7"""
    parent = running(store)
    child = submit(store, parent_id=parent.id)
    dying(lambda: settle(store, parent, Raised("no")))
    assert [store.tasks.get(task.id).status for task in (parent, child)] == [S.WAITING, S.QUEUED]
    turn(CloseFamilies(store, Settings(), inline))
    assert [store.tasks.get(task.id).status for task in (parent, child)] == [S.FAILED, S.CANCELLED]


@pytest.mark.parametrize("by_type", [True, False])
def test_the_rest_of_a_family_of_which_one_failed_is_cancelled_late_rather_than_never(store, dying, by_type):
    """Spec: D7"""
    store.types.put(TaskType("strict", on_child_failure="cancel"))
    parent = running(store, "strict") if by_type else running(store, on_child_failure="cancel")
    for _ in range(2):
        child = submit(store, parent_id=parent.id)
    settle(store, parent, Returned())
    [failing] = start(store)
    dying(lambda: settle(store, failing, Raised("no")))
    assert store.tasks.get(child.id).status is S.QUEUED
    turn(CloseFamilies(store, Settings(), inline))
    assert [store.tasks.get(task.id).status for task in (parent, child)] == [S.FAILED, S.CANCELLED]


def test_a_parent_whose_children_are_open_is_left_alone(store):
    """Spec: D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    settle(store, parent, Returned())
    before = kinds(store, parent.id)
    assert store.families.stalled() == ([], None)
    turn(CloseFamilies(store, Settings(), inline))
    assert (store.tasks.get(parent.id).status, kinds(store, parent.id)) == (S.WAITING, before)


def test_a_grandparent_is_closed_after_its_child(store, dying):
    """Spec: D7"""
    top = running(store)
    submit(store, parent_id=top.id)
    settle(store, top, Returned())
    [middle] = start(store)
    submit(store, parent_id=middle.id)
    settle(store, middle, Returned())
    [leaf] = start(store)
    dying(lambda: settle(store, leaf, Returned()))
    settle_down(CloseFamilies(store, Settings(), inline))
    assert [store.tasks.get(task.id).status for task in (top, middle)] == [S.SUCCEEDED] * 2


def test_a_round_goes_page_by_page_through_all_that_wait(store, dying):
    """Spec: D7"""
    parents = [orphaned(store, dying) for _ in range(5)]
    families = changed(CloseFamilies(store, Settings(), inline), page=2)
    assert settle_down(families) == [2, 2]
    assert {store.tasks.get(parent.id).status for parent in parents} == {S.SUCCEEDED}
    assert settle_down(families) == []


def test_a_family_that_cannot_be_closed_does_not_keep_the_others_waiting(store, dying, monkeypatch, caplog):
    """Spec: D7"""
    bad, good = orphaned(store, dying), orphaned(store, dying)
    look = store.families.look_after

    def refuse(parent_ids):
        if bad.id in parent_ids:
            raise Refused("no")
        look(parent_ids)

    monkeypatch.setattr(store.families, "look_after", refuse)
    turn(CloseFamilies(store, Settings(), inline))
    assert store.tasks.get(good.id).status is S.SUCCEEDED
    assert f"task={bad.id}" in caplog.text


def test_the_duty_tells_of_a_family_again_within_a_second_while_one_waits(store, clock):
    """Spec: D3, D7"""
    duty = TellFamilyProgress(store, Settings(), inline)
    assert (turn(duty), duty.next_in) == (0, None)
    parent = running(store)
    for _ in range(2):
        submit(store, parent_id=parent.id)
    settle(store, parent, Returned())
    settle(store, start(store)[0], Returned())
    assert (turn(duty), duty.next_in) == (0, 1.0)
    assert [event.detail for event in store.events.of(parent.id) if event.kind == "progress"] == [
        '{"done": 1, "total": 2}'
    ]


def test_every_page_of_waiting_parents_is_told_of(store, monkeypatch):
    """Spec: D3, D7"""
    monkeypatch.setattr(TellFamilyProgress, "page", 2)
    parents = []
    for _ in range(5):
        parent = running(store)
        for _ in range(2):
            submit(store, parent_id=parent.id)
        settle(store, parent, Returned())
        parents.append(parent.id)
        settle(store, start(store)[0], Returned())
        store.tasks.pause(store.tasks.find(limit=1).items[0].id)  # the next parent starts, not this one's other child
    settle_down(TellFamilyProgress(store, Settings(), inline))
    assert all("progress" in kinds(store, parent_id) for parent_id in parents)
