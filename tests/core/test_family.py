"""Parent and children: how far a family is, when the rest of it goes, and how it ends."""

import pytest

from headgate.core.errors import Refused
from headgate.core.family import Census, Children, family_end, progress_of, why_cancelled
from headgate.core.machine import Adopted, ChildrenEnded, LeaseLost, Overdue, Raised, RetryAsked, decide
from headgate.core.retry import fixed
from headgate.core.states import OPEN, State
from headgate.core.task import MAX_LOST, TaskType
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


GIVE_UP = [Raised("boom"), Overdue("too slow"), LeaseLost("gone")]


@pytest.mark.parametrize("event", GIVE_UP, ids=repr)
@pytest.mark.parametrize("need_manual", [True, False])
def test_a_parent_that_gives_up_waits_for_its_children_to_go(event, need_manual):
    """Spec: D7"""
    rules = TaskType("album", need_manual=need_manual)
    change = decide(a_task(State.RUNNING, has_children=True, lost_count=MAX_LOST - 1), event, rules)
    assert (change.status, change.kind, change.gave_up) == (State.WAITING, "giving_up", True)
    plain = decide(a_task(State.RUNNING, lost_count=MAX_LOST - 1), event, rules)
    assert plain.status is (State.DEAD if need_manual else State.FAILED)
    for counted in ("error_count", "lost_count", "error_info"):
        assert getattr(change, counted) == getattr(plain, counted)


@pytest.mark.parametrize("children", [ALL, NONE, MIXED, Children()])
@pytest.mark.parametrize(
    ("need_manual", "end", "kind"), [(True, State.DEAD, "dead_lettered"), (False, State.FAILED, "failed")]
)
def test_a_parent_that_gave_up_ends_so_however_its_children_did(children, need_manual, end, kind):
    """Spec: D7, B5"""
    rules = TaskType("album", need_manual=need_manual, callback=CALLBACK)
    change = decide(a_task(State.WAITING, gave_up=True), ChildrenEnded(children), rules)
    assert (change.status, change.kind) == (end, kind)
    cancelled = decide(a_task(State.WAITING, gave_up=True, cancel_requested=True), ChildrenEnded(children), rules)
    assert cancelled.status is State.CANCELLED


def test_a_parent_that_is_tried_again_does_not_give_up():
    """Spec: D7"""
    rules = TaskType("album", retry=fixed(1, retries=2))
    for event in (Raised("boom", 1.0), Overdue(), LeaseLost()):
        change = decide(a_task(State.RUNNING, has_children=True), event, rules)
        assert (change.status in OPEN - {State.WAITING}, change.gave_up) == (True, None)


@pytest.mark.parametrize("why", [{"cancel_requested": True}, {"gave_up": True}], ids=["cancelled", "gave up"])
def test_a_family_that_is_going_is_given_no_more_children(why):
    """Spec: D7"""
    with pytest.raises(Refused, match="accepts no more children"):
        decide(a_task(State.WAITING, has_children=True, **why), Adopted(), TaskType("album"))
    assert decide(a_task(State.RUNNING, cancel_requested=True), Adopted(), TaskType("album")).has_children


def test_a_dead_parent_that_is_retried_begins_without_children():
    """Spec: D7, D12"""
    change = decide(a_task(State.DEAD, has_children=True, gave_up=True), RetryAsked(), TaskType("album"))
    assert (change.has_children, change.gave_up) == (False, False)
    assert decide(a_task(State.DEAD), RetryAsked(), TaskType("album")).has_children is None


def test_the_rest_goes_with_the_parent_or_when_one_failed_and_the_policy_says_so():
    """Spec: D7"""
    assert why_cancelled(cancelled=False, gave_up=False, broken=False) is None
    assert why_cancelled(cancelled=True, gave_up=True, broken=True) == "its parent was cancelled"
    assert why_cancelled(cancelled=False, gave_up=True, broken=True) == "its parent gave up"
    assert why_cancelled(cancelled=False, gave_up=False, broken=True) == "another child of its parent failed"


def test_every_state_counts_as_well_badly_or_open():
    """Spec: D7"""
    for state in State:
        counted = Census({state: 2}).children
        well = state in (State.SUCCEEDED, State.RESOLVED)
        assert counted == Children(2 * well, 2 * (not well and state not in OPEN), 2 * (state in OPEN))
        assert counted.total == 2


@pytest.mark.parametrize(
    ("own", "status", "expected"),
    [
        (None, State.RUNNING, {"done": 3, "total": 5, "failed": 1}),
        ({"done": 1, "total": 2}, State.RUNNING, {"done": 1, "total": 2}),
        ({"done": 1, "total": 2}, State.WAITING, {"done": 3, "total": 5, "failed": 1}),
        ({"done": 1, "note": "half"}, State.WAITING, {"done": 3, "total": 5, "failed": 1, "note": "half"}),
        ({"data": [1]}, State.SUCCEEDED, {"done": 3, "total": 5, "failed": 1, "data": [1]}),
        ("half", State.PARTIAL, {"done": 3, "total": 5, "failed": 1}),
    ],
)
def test_a_parent_s_progress_is_its_own_while_it_runs_and_then_its_children_s(own, status, expected):
    """Spec: D7, D3"""
    assert progress_of(own, status, Children(succeeded=2, failed=1, open=2)) == expected


def test_the_progress_of_a_family_without_failures_speaks_of_none():
    """Spec: D7"""
    assert progress_of(None, State.WAITING, Children(succeeded=2, open=1)) == {"done": 2, "total": 3}
