"""Parent and children: how a family ends."""

import pytest

from headgate.core.family import Children, family_end
from headgate.core.machine import Adopted, ChildrenEnded, decide
from headgate.core.states import State
from headgate.core.task import TaskType
from tests.core.factories import a_task

CALLBACK = {"success": {"url": "http://example.com/done"}}
ALL, NONE, MIXED = Children(succeeded=3), Children(failed=3), Children(succeeded=1, failed=2)


@pytest.mark.parametrize(
    ("children", "end"),
    [(ALL, State.SUCCEEDED), (NONE, State.FAILED), (MIXED, State.PARTIAL), (Children(), State.SUCCEEDED)],
)
@pytest.mark.parametrize("need_manual", [True, False])
def test_a_parent_ends_as_its_children_did(children, end, need_manual):
    """Spec: D7"""
    rules = TaskType("album", need_manual=need_manual)
    assert decide(a_task(State.WAITING), ChildrenEnded(children), rules).status is end


@pytest.mark.parametrize(("children", "end"), [(ALL, State.NOTIFYING), (MIXED, State.PARTIAL), (NONE, State.FAILED)])
def test_only_a_family_that_succeeded_as_a_whole_sends_the_success_callback(children, end):
    """Spec: B6, D7"""
    rules = TaskType("album", callback=CALLBACK)
    assert decide(a_task(State.WAITING), ChildrenEnded(children), rules).status is end


@pytest.mark.parametrize("callback", [{}, CALLBACK])
@pytest.mark.parametrize("children", [ALL, NONE, MIXED, Children()])
def test_a_parent_being_cancelled_ends_cancelled_however_its_children_did(children, callback):
    """Spec: D7"""
    rules = TaskType("album", callback=callback)
    change = decide(a_task(State.WAITING, cancel_requested=True), ChildrenEnded(children), rules)
    assert (change.status, change.kind) == (State.CANCELLED, "cancelled")
    assert family_end(children, cancelled=True, callback=bool(callback)) is State.CANCELLED


@pytest.mark.parametrize(("children", "kind"), [(ALL, "completed"), (MIXED, "completed_with_errors"), (NONE, "failed")])
def test_the_event_of_a_family_s_end_says_how_it_ended(children, kind):
    """Spec: D6, D7"""
    assert decide(a_task(State.WAITING), ChildrenEnded(children), TaskType("album")).kind == kind


def test_a_child_marks_its_parent_and_leaves_its_state():
    """Spec: D7"""
    change = decide(a_task(State.RUNNING), Adopted(), TaskType("album"))
    assert (change.status, change.has_children) == (State.RUNNING, True)
