"""What the checker lets pass and what it catches of tenants that are passed over (I14)."""

import json
from typing import Any

import pytest

from headgate.simulation.checker import check
from headgate.simulation.checker_turns import STARTS_PER_PROCESS
from tests.simulation.runs import Run

FLOOD = range(1, 4 * STARTS_PER_PROCESS)
QUIET = 100


def passed_over(**quiet: Any) -> Run:
    """A flood of tenant 1, of which none has started, and a task of tenant 2 behind it."""
    run = Run()
    for task_id in FLOOD:
        run.submit(task_id, tenant_id=1)
    run.submit(QUIET, tenant_id=2, **quiet)
    run.wait(10)
    return run


def start(run: Run, count: int, first: int = 1) -> None:
    for task_id in range(first, first + count):
        run.start(task_id, f"x{task_id}")
        run.end(task_id)


def found(run: Run) -> list[str]:
    violations = check(run.evidence(at_rest=False))
    assert {violation.invariant for violation in violations} <= {"I14"}
    return [violation.text for violation in violations]


def test_a_tenant_that_waits_while_another_has_more_than_its_share_is_seen():
    """Spec: X5, X12"""
    run = passed_over()
    start(run, STARTS_PER_PROCESS)
    assert found(run) == []
    start(run, STARTS_PER_PROCESS, first=STARTS_PER_PROCESS + 1)
    [text] = found(run)
    assert text.endswith(f"while task {QUIET} of tenant 2 waits there")


@pytest.mark.parametrize(
    "quiet",
    [
        {"lane": "another"},
        {"type": "another"},
        {"rate_key": "k"},
        {"agent_id": "a"},
        {"mutex": "m"},
        {"state": "pending"},
    ],
)
def test_whoever_waits_for_something_else_is_not_passed_over(quiet):
    """Spec: X5"""
    run = passed_over(**quiet)
    start(run, 2 * STARTS_PER_PROCESS)
    assert found(run) == []


def test_a_tenant_that_was_served_or_is_paused_or_of_a_small_weight_is_not_passed_over():
    """Spec: X5"""
    for act in (
        lambda run: run.do(QUIET + 1, tenant_id=2, lane="another"),
        lambda run: run.note(None, "paused", detail=json.dumps({"tenant": "2"})),
        lambda run: run.note(
            None, "weight_changed", detail=json.dumps({"tenant": 2, "changes": {"weight": {"old": 1, "new": 0.2}}})
        ),
    ):
        run = passed_over()
        start(run, STARTS_PER_PROCESS)
        act(run)
        start(run, STARTS_PER_PROCESS, first=STARTS_PER_PROCESS + 1)
        assert found(run) == []
