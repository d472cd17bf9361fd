"""Every state × every event: what may happen, written out by hand, and nothing else."""

import re
from typing import get_args

import pytest

from headgate.core.errors import Refused
from headgate.core.family import Children
from headgate.core.machine import (
    ACTIONS,
    Adopted,
    CameForward,
    CancelReached,
    CancelRequested,
    ChildrenEnded,
    Debounced,
    Delivered,
    Discarded,
    Due,
    Event,
    GivenBack,
    LeaseLost,
    Overdue,
    PauseReached,
    PauseRequested,
    Prioritized,
    Raised,
    Rescheduled,
    Resolved,
    Resumed,
    RetryAsked,
    Returned,
    Scheduled,
    SentBack,
    Snoozed,
    Started,
    Unconfirmed,
    decide,
)
from headgate.core.states import FINAL, State
from headgate.core.task import TaskType
from tests.core.factories import NOW, a_task

PLAIN = TaskType("scan")
NOT_FINAL = [
    "pending", "blocked", "queued", "scheduling", "running", "waiting", "paused", "retrying", "notifying", "dead",
]  # fmt: skip

BEFORE = ["pending", "blocked", "queued", "paused", "retrying"]

# For a plain task of a plain type: no mutex, no children, no callback, no retries, nobody needed, nothing asked.
TABLE: dict[Event, dict[str, str]] = {
    # the way to the start: A2, A10, E1
    Due(): {"pending": "queued", "retrying": "queued"},
    CameForward(): {"blocked": "queued"},
    SentBack(): {"queued": "blocked"},
    Scheduled(): {"queued": "scheduling"},
    Started(): {"queued": "running", "scheduling": "running"},
    # how an execution ends: A2, B3, B6, D9, E2, X2
    Returned("1"): {"running": "succeeded"},
    Raised("boom", 60.0): {"running": "retrying"},
    Raised("boom", None): {"running": "failed"},
    Snoozed(60.0): {"running": "pending"},
    PauseReached(): {"running": "paused"},
    CancelReached(): {"running": "cancelled"},
    GivenBack(): {"running": "queued", "scheduling": "queued"},
    Unconfirmed(): {"scheduling": "queued"},
    LeaseLost(): {"running": "queued", "scheduling": "queued"},
    Overdue(): {"running": "failed", "scheduling": "queued", "waiting": "waiting"},  # a plain type allows no error
    # what people ask for: Actions, B7, B8
    CancelRequested("enough"): dict.fromkeys(NOT_FINAL, "cancelled") | {"running": "running", "waiting": "waiting"},
    PauseRequested(): dict.fromkeys(["pending", "blocked", "queued", "scheduling", "retrying"], "paused")
    | {"running": "running"},
    Resumed(due=True): {"paused": "queued"},
    Resumed(due=False): {"paused": "pending"},
    Prioritized(1): {state: state for state in NOT_FINAL},
    Rescheduled(NOW): {state: state for state in ("pending", "retrying", "paused")}
    | {"queued": "pending", "blocked": "pending"},
    Rescheduled(delay=0.0, due=True): {state: state for state in BEFORE},
    Debounced(NOW): {state: state for state in BEFORE},
    RetryAsked(): {"dead": "queued", "retrying": "queued"},
    Resolved("by hand"): {"dead": "resolved", "notifying": "resolved"},
    Discarded(): {"dead": "failed"},
    # callbacks and families: B6, D7
    Delivered(): {"notifying": "succeeded"},
    Adopted(): {state: state for state in NOT_FINAL if state not in ("notifying", "dead")},
    ChildrenEnded(Children(succeeded=2)): {"waiting": "succeeded"},
    ChildrenEnded(Children(failed=2)): {"waiting": "failed"},
    ChildrenEnded(Children(succeeded=1, failed=1)): {"waiting": "partial"},
}

ALLOWED = [(state, event, after) for event, row in TABLE.items() for state, after in row.items()]
FORBIDDEN = [(state.value, event) for event, row in TABLE.items() for state in State if state.value not in row]
LADEN = {"mutex": "film", "cancel_requested": True, "pause_requested": True, "has_children": True, "error_count": 2}


def named(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def test_the_table_speaks_of_every_event_there_is():
    """Spec: One engine, five views"""
    assert {type(event) for event in TABLE} == set(get_args(Event))
    assert len(ALLOWED) + len(FORBIDDEN) == len(TABLE) * 15


@pytest.mark.parametrize(("before", "event", "after"), ALLOWED, ids=named)
def test_an_allowed_event_leads_where_the_table_says(before, event, after):
    """Spec: A2, A10, B3, B6, B7, B8, D7, D9, E1, X2"""
    assert decide(a_task(State(before)), event, PLAIN).status == after


@pytest.mark.parametrize(("before", "event"), FORBIDDEN, ids=named)
def test_any_other_event_is_refused_naming_itself_and_the_state(before, event):
    """Spec: One engine, five views (every transition not in the state machine is refused with a clear error)"""
    with pytest.raises(Refused) as refused:
        decide(a_task(State(before)), event, PLAIN)
    message = str(refused.value).lower()
    if type(event) in ACTIONS:
        action, _ = ACTIONS[type(event)]
        assert message.startswith(f"task 1 is {before}; only ")
        assert f" tasks can be {action[:-1]}" in message
    else:
        assert " ".join(re.findall("[A-Z][a-z]+", type(event).__name__)).lower() in message
    assert before in message
    assert refused.value.status == 409


@pytest.mark.parametrize(("before", "event"), FORBIDDEN, ids=named)
def test_no_circumstance_but_a_requested_pause_makes_a_forbidden_event_possible(before, event):
    """Spec: One engine, five views (a pause not yet reached can be taken back)"""
    task = a_task(State(before), **LADEN)
    if before == "running" and isinstance(event, Resumed):
        assert decide(task, event, PLAIN).status is State.RUNNING
    else:
        with pytest.raises(Refused):
            decide(task, event, PLAIN)


@pytest.mark.parametrize("event", TABLE, ids=named)
@pytest.mark.parametrize("state", sorted(FINAL))
def test_finals_never_change(state, event):
    """Spec: One engine, five views (Actions)"""
    with pytest.raises(Refused):
        decide(a_task(state, **LADEN), event, PLAIN)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ("pending", Due()),
        ("retrying", Due()),
        ("running", GivenBack()),
        ("scheduling", GivenBack()),
        ("scheduling", Unconfirmed()),
        ("running", LeaseLost()),
        ("scheduling", LeaseLost()),
        ("scheduling", Overdue()),
        ("paused", Resumed(due=True)),
        ("dead", RetryAsked()),
        ("retrying", RetryAsked()),
    ],
    ids=named,
)
def test_a_task_with_a_mutex_waits_behind_it_wherever_another_would_be_queued(before, event):
    """Spec: A10"""
    assert decide(a_task(State(before)), event, PLAIN).status is State.QUEUED
    assert decide(a_task(State(before), mutex="film"), event, PLAIN).status is State.BLOCKED


@pytest.mark.parametrize(("before", "event", "after"), ALLOWED, ids=named)
def test_an_event_touches_the_error_count_only_if_it_is_an_error_or_a_fresh_start(before, event, after):
    """Spec: B3, D9, X2"""
    change = decide(a_task(State(before), error_count=0), event, PLAIN)
    match before, event:
        case "running", (Raised() | Overdue()):
            assert change.error_count == 1
        case "dead", RetryAsked():
            assert change.error_count == 0
        case _:
            assert change.error_count is None
