"""`headgate submit --unique …`, `--debounce`, and `headgate reschedule`."""

import re

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from tests.factories import running, settle, start, submit


def test_unique_by_arguments_says_that_it_was_there_already(anywhere, run):
    """Spec: X2"""
    first = run("submit", "plain", "a=1", "b=2", "--unique", "--json").json
    again = run("submit", "plain", "--ext", '{"b": 2, "a": 1}', "--unique")
    assert again.out == f"{first['id']} queued (already existed)\n"
    assert run("submit", "plain", "a=2", "--unique", "--json").json["created"]


def test_unique_by_arguments_of_a_declared_task(here, run):
    """Spec: X2"""
    first = run("submit", "-m", "shop", "greet", "name=you", "--unique", "--json").json
    assert first["unique_key"].startswith("arguments:")
    assert not run("submit", "-m", "shop", "greet", "name=you", "--unique", "--json").json["created"]


def test_a_period_outlives_the_task(here, run):
    """Spec: X2"""
    words = ["submit", "plain", "--unique-key", "k", "--unique-seconds", "3600"]
    first = run(*words, "--json").json
    settle(here, start(here)[0], Returned())
    assert run(*words).out == f"{first['id']} succeeded (already existed)\n"


def test_a_debounced_task_takes_what_was_said_last(here, run):
    """Spec: X2"""
    words = ["--unique-key", "k", "--debounce", "60", "--debounce-longest", "600", "--json"]
    first = run("submit", "plain", "text=a", *words).json
    again = run("submit", "plain", "text=b", *words).json
    assert (again["id"], again["created"], again["ext"]) == (first["id"], False, {"text": "b"})
    assert again["start_time"] > first["start_time"]


@pytest.mark.parametrize(
    "words",
    [["--unique", "--unique-key", "k"], ["--unique-seconds", "5"], ["--debounce", "5"], ["--debounce-longest", "5"]],
)
def test_what_cannot_be_meant_is_refused(here, run, words):
    """Spec: X2"""
    assert run("submit", "plain", *words).code == 2
    assert here.tasks.find().items == []


def test_tasks_are_snoozed(anywhere, run):
    """Spec: X2"""
    first, second = submit(anywhere), submit(anywhere)
    answer = run("reschedule", first.id, second.id, "--delay", "3600")
    assert re.fullmatch(rf"{first.id} pending, not before .*Z\n{second.id} pending, not before .*Z\n", answer.out)
    told = run("reschedule", first.id, "--start-time", "2199-03-01T12:00:00", "--json").json
    assert told["start_time"] == "2199-03-01T12:00:00Z"
    told = run("reschedule", first.id, "--start-time", "2199-03-01T12:00:00+02:00", "--json").json
    assert told["start_time"] == "2199-03-01T10:00:00Z"
    assert [event.kind for event in anywhere.events.of(first.id)] == ["submitted"] + ["rescheduled"] * 3


def test_one_that_runs_is_refused_and_a_time_must_be_given(here, run):
    """Spec: X2"""
    execution = running(here)
    assert (run("reschedule", execution.id, "--delay", "5").code, here.tasks.get(execution.id).status) == (
        1,
        State.RUNNING,
    )
    assert run("reschedule", execution.id).code == 2
    assert run("reschedule", execution.id, "--delay", "5", "--start-time", "2199-03-01T12:00:00").code == 2
