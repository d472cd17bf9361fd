"""A checker that catches nothing proves nothing: each bug, planted in the engine, is caught within 2,000 histories."""

import pytest

import tests.simulation.bugs_broker
import tests.simulation.bugs_of_faults
import tests.simulation.bugs_of_ticks  # noqa: F401 plants more
from headgate.simulation.campaign import shortest
from headgate.simulation.checker import Violation, check
from headgate.simulation.checker_paths import transitions
from headgate.simulation.world import SimulatedHistory, run
from headgate.store.db.scratch import Open, scratch
from tests.simulation.bugs import Bug
from tests.simulation.bugs_callbacks import ALL as BUGS

transitions()  # the judge's table of the machine, made before a bug can be in it
HISTORIES = 2_000
CAUGHT_LATELY = {  # in which history; it is tried first, and all the others if it was another
    "the_reaper_goes_by_id": 4,
    "poison_has_no_end": 7,
    "room_is_given_up_when_a_cancel_is_asked": 49,
    "a_pause_is_heard_of_a_second_later": 5,
    "a_stranger_comes_between_a_family": 4,
    "a_wake_up_missed_is_missed_for_good": 69,
    "a_start_is_confirmed_by_id": 45,
    "compensation_waits_for_an_empty_queue": 3,
    "a_repeated_claim_gets_whatever_its_tasks_are_by_now": 198,
    "a_callback_is_owed_after_its_transition": 3,
    "a_failure_is_not_tried_again": 8,
    "a_start_is_confirmed_while_everything_is_paused": 18,
    "a_report_that_failed_is_forgotten": 3,
    "a_second_task_of_a_mutex_comes_forward": 2,
    "a_replayed_parent_inherits_its_old_children": 4,
    "a_schedule_is_moved_on_before_its_task_is_made": 2,
    "whoever_goes_online_begins_from_now": 2,
    "a_tick_that_is_skipped_is_forgotten": 2,
    "a_message_starts_what_was_paused_meanwhile": 12,
    "a_message_that_is_sent_again_gets_a_new_exec_id": 9,
    "a_message_that_was_confirmed_is_never_sent_again": 3,
    "what_is_in_the_broker_takes_no_slot": 2,
    "the_relay_moves_on_before_the_broker_has_confirmed": 2,
}


def first_caught(bug: Bug, open_database: Open, lately: int = 1) -> tuple[SimulatedHistory, list[Violation]]:
    for seed in (lately, *range(1, HISTORIES + 1)):
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
            history, violations = first_caught(bug, database, CAUGHT_LATELY.get(name, 1))
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
