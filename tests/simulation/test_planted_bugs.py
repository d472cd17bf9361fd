"""A checker that catches nothing proves nothing: each bug, planted in the engine, is caught within 2,000 histories."""

import pytest

import tests.simulation.bugs_of_ticks  # noqa: F401 plants more
from headgate.simulation.campaign import shortest
from headgate.simulation.checker import Violation, check
from headgate.simulation.world import History, run
from headgate.store.scratch import Open, scratch
from tests.simulation.bugs import Bug
from tests.simulation.bugs_callbacks import ALL as BUGS

HISTORIES = 2_000


def first_caught(bug: Bug, open_database: Open) -> tuple[History, list[Violation]]:
    for seed in range(1, HISTORIES + 1):
        history = run(bug.plan(seed), open_database)
        if violations := check(history.evidence):
            return history, violations
    raise AssertionError(f"nothing was found in {HISTORIES} histories")


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name, request, monkeypatch):
    """Spec: X5"""
    bug = BUGS[name]
    url = "sqlite://" if bug.database == "sqlite" else request.getfixturevalue("postgres_url")
    with scratch(url) as database:
        with monkeypatch.context() as patch:
            bug.plant(patch)
            history, violations = first_caught(bug, database)
        assert {violation.invariant for violation in violations} <= bug.breaks, violations
        assert check(run(history.plan, database).evidence) == []  # it was the bug, and not what happened


def test_a_failure_is_shown_in_its_shortest_form(monkeypatch):
    """Spec: X5"""
    bug = BUGS["a_rescue_leaves_no_trace"]
    bug.plant(monkeypatch)
    with scratch("sqlite://") as database:
        history, violations = first_caught(bug, database)
        short = shortest(history, violations, database)
        assert len(short.plan.moves) <= len(history.plan.moves) / 3
        found = check(short.evidence)
        assert violations[0].invariant in {violation.invariant for violation in found}
        assert check(run(short.plan, database).evidence) == found
