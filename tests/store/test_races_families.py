"""Families whose last members end, or join, at once: the parent ends exactly once, and rightly."""

import pytest

from headgate.core.errors import Refused
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.claim.contract import Outcome
from tests.store.races import BEFORE_THE_TAKE, Claimer, Stage, only, submit_many

# The parent is ended by whoever sees no other open child, in the transaction that ends its own.
END_AND_LOOK = """
WITH ended AS (UPDATE headgate_task SET status = 'succeeded', exec_id = NULL, finished_at = now() WHERE id = %s)
SELECT count(*) FROM headgate_task WHERE parent_id = %s AND id <> %s AND status = 'running'
"""
ENDS = ("completed", "completed_with_errors", "failed", "cancelled")


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    return Claimer(stage)


@pytest.fixture
def family(claimer):
    """A parent that runs, and its two children, which do too."""
    submit_many(claimer.store, 1)
    [parent] = claimer.claim().executions
    submit_many(claimer.store, 2, parent_id=parent.id)
    return parent, claimer.claim(2).executions


def ends_of(claimer: Claimer, task_id: int) -> list[str]:
    return [event.kind for event in claimer.store.events.of(task_id) if event.kind in ENDS]


def test_children_that_look_before_they_commit_both_leave_the_parent_open(stage, claimer, family):
    """Spec: D7. The trap."""
    parent, children = family
    rivals = stage.rival(), stage.rival()
    left = [
        rival.run(END_AND_LOOK, child.id, parent.id, child.id) for rival, child in zip(rivals, children, strict=True)
    ]
    assert left == [[(1,)], [(1,)]]


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ((Returned(), Returned()), State.SUCCEEDED),
        ((Returned(), Raised("no")), State.PARTIAL),
        ((Raised("no"), Raised("no")), State.FAILED),
    ],
)
def test_the_last_two_children_end_at_once_and_the_parent_ends_once(stage, claimer, family, events, end):
    """Spec: D7"""
    parent, children = family
    claimer.store.executions.settle([Outcome(parent, Returned())])
    rival = stage.rival()
    rival.run(
        "SELECT 1 FROM headgate_task WHERE id IN (%s, %s) ORDER BY id FOR NO KEY UPDATE",
        *(child.id for child in children),
    )
    calls = [
        stage.beside(stage.store().executions.settle, [Outcome(child, event)])
        for child, event in zip(children, events, strict=True)
    ]
    stage.await_waiters(*calls)
    rival.rollback()
    for call in calls:
        only(call)
    assert claimer.store.tasks.get(parent.id).status is end
    assert len(ends_of(claimer, parent.id)) == 1


def test_whoever_ends_the_last_child_and_whoever_looks_meanwhile_end_the_parent_once(stage, claimer, family):
    """Spec: D7"""
    parent, [first, last] = family
    claimer.store.executions.settle([Outcome(parent, Returned())])
    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", parent.id)
    claimer.store.executions.settle([Outcome(first, Returned())])  # it sees another that is open, and has not to wait
    calls = [stage.beside(stage.store().executions.settle, [Outcome(last, Returned())])]
    stage.await_waiters(*calls)
    calls.append(stage.beside(stage.store().families.look_after, [parent.id]))
    stage.await_waiters(*calls)
    rival.rollback()
    for call in calls:
        only(call)
    assert ends_of(claimer, parent.id) == ["completed"]


def test_a_child_given_to_a_family_that_was_looked_at_just_before_is_waited_for(stage, claimer, family):
    """Spec: D7. What a look saw without a lock is looked at again under one."""
    parent, children = family
    claimer.store.executions.settle([Outcome(parent, Returned())])
    rival, adopter = stage.rival(), stage.store()
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", parent.id)
    child = stage.beside(adopter.tasks.submit, NewTask("plain", parent_id=parent.id))
    stage.await_waiters(child)
    end = stage.beside(stage.store().executions.settle, [Outcome(each, Returned()) for each in children])
    stage.await_waiters(child, end)  # nobody is open, it saw: it asks for the parent, behind the child
    rival.rollback()
    only(end)
    assert only(child).created
    assert claimer.store.tasks.get(parent.id).status is State.WAITING


def test_the_parent_and_its_last_child_end_at_once(stage, claimer, family):
    """Spec: D7"""
    parent, [first, last] = family
    claimer.store.executions.settle([Outcome(first, Returned())])
    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_task WHERE id IN (%s, %s) FOR NO KEY UPDATE", parent.id, last.id)
    calls = [stage.beside(stage.store().executions.settle, [Outcome(member, Returned())]) for member in (parent, last)]
    stage.await_waiters(*calls)
    rival.rollback()
    assert [only(call) for call in calls] == [[State.WAITING], [State.SUCCEEDED]]
    assert claimer.store.tasks.get(parent.id).status is State.SUCCEEDED
    assert ends_of(claimer, parent.id) == ["completed"]


@pytest.mark.parametrize("first", ["child", "end"])
def test_a_child_submitted_while_its_parent_ends_is_waited_for_or_refused(stage, claimer, first):
    """Spec: D7"""
    submit_many(claimer.store, 1)
    [parent] = claimer.claim().executions
    rival, calls = stage.rival(), {}
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", parent.id)
    for name in sorted(("child", "end"), key=lambda name: name != first):
        if name == "child":
            calls[name] = stage.beside(claimer.store.tasks.submit, NewTask("plain", parent_id=parent.id))
        else:
            calls[name] = stage.beside(stage.store().executions.settle, [Outcome(parent, Returned())])
        stage.await_waiters(*calls.values())
    rival.rollback()
    [after] = only(calls["end"])
    if isinstance(calls["child"].exception(20), Refused):
        assert after is State.SUCCEEDED
        assert stage.count("parent_id = %s", parent.id) == 0
    else:
        assert after is State.WAITING
        assert stage.count("parent_id = %s", parent.id) == 1
        [child] = claimer.claim().executions
        claimer.store.executions.settle([Outcome(child, Returned())])
        assert claimer.store.tasks.get(parent.id).status is State.SUCCEEDED


@pytest.mark.parametrize("first", ["child", "close"])
def test_a_child_submitted_while_a_waiting_family_closes_is_waited_for_or_refused(stage, claimer, family, first):
    """Spec: D7"""
    parent, children = family
    claimer.store.executions.settle([Outcome(parent, Returned()), Outcome(children[0], Returned())])
    rival, calls = stage.rival(), {}
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", parent.id)
    for name in sorted(("child", "close"), key=lambda name: name != first):
        if name == "child":
            calls[name] = stage.beside(claimer.store.tasks.submit, NewTask("plain", parent_id=parent.id))
        else:
            calls[name] = stage.beside(stage.store().executions.settle, [Outcome(children[1], Returned())])
        stage.await_waiters(*calls.values())
    rival.rollback()
    only(calls["close"])
    refused = isinstance(calls["child"].exception(20), Refused)
    assert claimer.store.tasks.get(parent.id).status is (State.SUCCEEDED if refused else State.WAITING)
    assert stage.count("parent_id = %s", parent.id) == (2 if refused else 3)
    assert refused == (first == "close")


def test_a_family_is_cancelled_while_its_children_end(stage, claimer, family):
    """Spec: D7, B8"""
    parent, children = family
    claimer.store.executions.settle([Outcome(parent, Returned())])
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    calls = [
        stage.beside(stage.store().tasks.cancel, parent.id),
        *(stage.beside(stage.store().executions.settle, [Outcome(child, Returned())]) for child in children),
    ]
    stage.await_waiters(*calls)
    rival.commit()
    for call in calls:
        only(call)
    for child in children:  # who was asked to stop does so
        claimer.store.executions.settle([Outcome(child, Returned())])
    assert claimer.store.tasks.get(parent.id).status is State.CANCELLED
    assert len(ends_of(claimer, parent.id)) == 1
