"""`headgate submit` makes exactly the task that was asked for, or says why not."""

import json
from datetime import timedelta

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from tests.factories import settle, start, submit


def test_a_task_is_made_with_its_arguments_and_options(anywhere, run):
    answer = run(
        "submit", "plain", "n=3", "text=three", "list=[1,2]", "quoted=\"3\"", "empty=", "url=http://a/?b=c", "nan=NaN",
        "--lane", "slow", "--priority", "-2", "--mutex", "m", "--unique-key", "u", "--name", "a name", "--creator", "9",
        "--json",
    )  # fmt: skip
    assert answer.code == 0
    task = anywhere.tasks.get(answer.json["id"])
    assert json.loads(task.ext) == {
        "n": 3, "text": "three", "list": [1, 2], "quoted": "3", "empty": "", "url": "http://a/?b=c", "nan": "NaN",
    }  # fmt: skip
    assert (task.lane, task.priority, task.mutex, task.unique_key, task.name, task.creator) == (
        "slow", -2, "m", "u", "a name", 9,
    )  # fmt: skip


def test_a_delay_is_when_it_may_start(here, run):
    """Spec: A2"""
    task = here.tasks.get(run("submit", "plain", "--delay", "3600", "--json").json["id"])
    assert task.status is State.PENDING
    assert task.start_time - task.create_date == timedelta(hours=1)


def test_pairs_go_over_the_json_object(here, run):
    answer = run("submit", "plain", "b=2", "--ext", '{"a": 1, "b": 1}', "--json")
    assert answer.json["ext"] == {"a": 1, "b": 2}


def test_a_unique_key_that_is_taken_gives_the_task_that_has_it(here, run):
    """Spec: X2"""
    first = run("submit", "plain", "--unique-key", "k", "--json").json
    second = run("submit", "plain", "--unique-key", "k", "--json").json
    assert (first["created"], second["created"]) == (True, False)
    assert second["id"] == first["id"]
    assert "already existed" in run("submit", "plain", "--unique-key", "k").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plian"], "did you mean plain"),
        (["plain", "oops"], "key=value"),
        (["plain", "--ext", "[1]"], "JSON object"),
        (["plain", "--ext", "{"], "not valid JSON"),
        (["plain", "--delay", "-1"], "--delay is out of range"),
        (["plain", "--delay", "soon"], "--delay 'soon' is not a duration"),
        (["plain", "--lane", "*"], "every lane"),
        (["plain", "a=\ud800"], "surrogate"),
        (["plain", "--priority", "high"], "priority"),
        ([], "TYPE"),
    ],
)
def test_bad_input_is_refused_with_a_clear_line_and_makes_nothing(here, run, words, said):
    answer = run("submit", *words)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert here.tasks.find().items == []


def test_waiting_ends_with_the_task(here, run, monkeypatch):
    """Spec: A2"""
    task_id = run("submit", "plain", "--unique-key", "k", "--json").json["id"]
    [execution] = start(here)
    submit = type(here.tasks).submit

    def submit_then_settle(tasks, *arguments, **options):
        made = submit(tasks, *arguments, **options)
        settle(here, execution, Returned('{"n": 1}'))
        return made

    monkeypatch.setattr(type(here.tasks), "submit", submit_then_settle)
    answer = run("submit", "plain", "--unique-key", "k", "--wait", "60")
    assert (answer.code, answer.out) == (0, f'{task_id} succeeded (already existed) {{"n": 1}}\n')


def test_waiting_in_vain_fails_and_says_where_to_look(here, run):
    """Spec: X3"""
    answer = run("submit", "plain", "--wait", "0")
    assert answer.code == 1
    assert answer.err == "error: task 1 has not ended after 0 s; `headgate why 1` shows what it waits for\n"


def test_a_module_checks_the_arguments_and_fills_in_the_mutex(here, run):
    """Spec: D3, A10"""
    answer = run("submit", "-m", "shop", "tidy", "shelf=7", "--json")
    assert (answer.json["mutex"], answer.json["priority"], answer.json["ext"]) == ("shelf:7", 3, {"shelf": 7})
    refused = run("submit", "-m", "shop", "tidy", "shelf=top")
    assert (refused.code, "shelf" in refused.err) == (2, True)
    absent = run("submit", "-m", "shop", "nothing")
    assert (absent.code, absent.err) == (2, "error: module shop declares no task nothing\n")


def test_whoever_waits_no_longer_is_told_which_task_goes_on(here, run, monkeypatch):
    """Spec: X6"""

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headgate.cli.submitting.time.sleep", interrupted)
    assert "task 1 is not cancelled; `headgate show 1`" in run("submit", "plain", "--wait", "600").err


def test_a_task_belongs_to_a_tenant_and_lists_are_filtered_by_it(here, run):
    """Spec: B11"""
    own = run("submit", "plain", "--tenant", 7, "--json").json
    run("submit", "plain")
    assert own["tenant_id"] == 7
    assert [task["id"] for task in run("list", "--tenant", 7, "--json").lines] == [own["id"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reschedule", 1], "give --delay or --start-time"),
        (["reschedule", 1, "--delay", "1h", "--start-time", "2199-01-01"], "give --delay or --start-time, not both"),
        (["reschedule", 1, "--delay", "-1"], "--delay is out of range"),
        (["submit", "plain", "--unique-seconds", "-1"], "--unique-seconds is out of range"),
        (["submit", "plain", "--unique", "--debounce", "5", "--delay", "5"], "--debounce sets the start"),
    ],
)
def test_an_error_names_the_option_and_not_the_field_behind_it(here, run, words, message):
    submit(here)
    answer = run(*words)
    assert answer.code == 2
    assert answer.err.startswith(f"error: {message}")
    assert "_" not in answer.err
