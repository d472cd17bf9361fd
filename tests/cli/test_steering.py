"""`headgate cancel`, `pause`, `resume`, `retry`, `resolve`, `discard`, `prioritize`, `lanes` and `purge`."""

from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.limits import Rate
from headgate.core.states import State
from tests.factories import put, running, submit


@pytest.mark.parametrize(
    ("before", "words", "after"),
    [
        (State.QUEUED, ["cancel"], State.CANCELLED),
        (State.QUEUED, ["pause"], State.PAUSED),
        (State.PAUSED, ["resume"], State.QUEUED),
        (State.DEAD, ["retry"], State.QUEUED),
        (State.RETRYING, ["retry"], State.QUEUED),
        (State.DEAD, ["resolve", "--remark", "paid by hand"], State.RESOLVED),
        (State.DEAD, ["discard"], State.FAILED),
    ],
)
def test_an_action_does_what_it_says(anywhere, run, before, words, after):
    """Spec: B7, B8, D12"""
    task = put(anywhere, before)
    answer = run(*words, task.id)
    assert (answer.code, answer.out) == (0, f"{task.id} {after}\n")
    assert anywhere.tasks.get(task.id).status is after


def test_a_remark_and_a_reason_stay_with_the_task(here, run):
    """Spec: B7, A12"""
    task = put(here, State.DEAD)
    assert run("resolve", task.id, "--remark", "paid by hand", "--json").json["remark"] == "paid by hand"
    queued = submit(here)
    run("cancel", queued.id, "--reason", "no longer wanted")
    assert "no longer wanted" in run("show", queued.id).out


def test_a_running_task_is_asked_and_that_is_said(here, run):
    """Spec: B8"""
    task = running(here)
    assert run("pause", task.id).out == f"{task.id} running, asked to pause\n"
    assert run("cancel", task.id).out == f"{task.id} running, asked to stop\n"


def test_retrying_what_has_ended_makes_a_linked_copy(here, run):
    """Spec: D12"""
    task = put(here, State.FAILED)
    copy = run("retry", task.id, "--json").json
    assert (copy["retry_of"], copy["status"]) == (task.id, "queued")
    assert here.tasks.get(task.id).status is State.FAILED


def test_one_refusal_does_not_hold_up_the_rest_and_decides_the_exit_code(here, run):
    """Spec: D12"""
    queued, dead = submit(here), put(here, State.DEAD)
    answer = run("discard", queued.id, 4711, dead.id)
    assert (answer.code, answer.out) == (1, f"{dead.id} failed\n")
    assert [line.split(":")[0] for line in answer.err.splitlines()] == ["error", "error"]
    assert run("discard", 4711, queued.id).code == 3
    assert here.tasks.get(queued.id).status is State.QUEUED


def test_prioritize_goes_to_the_head_or_to_a_number(here, run):
    """Spec: A4"""
    first, second = submit(here), submit(here)
    assert run("prioritize", second.id).code == 0
    assert here.tasks.get(second.id).priority < here.tasks.get(first.id).priority
    assert run("prioritize", second.id, "--priority", "8").out == f"{second.id} queued, priority 8\n"


@pytest.mark.parametrize("words", [["--lane", "default"], ["--all"]])
def test_a_lane_and_everything_are_paused_and_resumed(anywhere, run, words):
    """Spec: A9"""
    task = submit(anywhere)
    assert run("pause", *words).out.endswith(" paused\n")
    assert " is already paused by os:" in run("pause", *words).out
    [gate] = [gate for gate in anywhere.tasks.why(task.id) if gate.name == "pause"]
    assert not gate.open
    assert run("resume", *words, "--json").json["changed"]
    [gate] = [gate for gate in anywhere.tasks.why(task.id) if gate.name == "pause"]
    assert gate.open


def test_a_pause_has_a_reason_and_an_end_and_is_listed(anywhere, run):
    """Spec: A9"""
    assert run("pauses").out == "nothing is paused\n"
    assert run("pause", "--type", "plain", "--reason", "moving house", "--for", "2h").out == "type plain paused\n"
    assert run("pause", "--tenant", 3, "--until", "2100-01-01T00:00:00").out == "tenant 3 paused\n"
    assert run("pause", "--key", "openai").out == "rate key openai paused\n"
    assert run("pause", "--lane", "default", "--reason", "dust").out == "lane default paused\n"
    told = {(each["scope"], each["name"]): each for each in run("pauses", "--json").lines}
    assert list(told) == [("key", "openai"), ("lane", "default"), ("tenant", "3"), ("type", "plain")]
    assert told["type", "plain"]["reason"] == "moving house"
    assert told["type", "plain"]["until"] > told["type", "plain"]["at"]
    assert told["tenant", "3"]["until"].startswith("2100-01-01T00:00:00")
    assert ": dust" in run("lanes").out
    assert "moving house" in run("pauses").out
    assert run("resume", "--type", "plain").out == "type plain resumed\n"
    assert run("resume", "--type", "plain").out == "type plain is not paused\n"


def test_pausing_again_keeps_what_is_not_named_and_says_what_was_replaced(anywhere, run):
    """Spec: A9, X10"""
    run("pause", "--lane", "default", "--reason", "moving", "--until", "2100-01-01")
    again = run("pause", "--lane", "default")
    assert again.out.startswith("lane default is already paused until 2100-01-01 00:00:00Z by os:")
    assert again.out.endswith(": moving\n")
    assert anywhere.pauses.active()[0].reason == "moving"
    later = run("pause", "--lane", "default", "--until", "2100-02-01 12:30")
    assert later.out.startswith("lane default is paused until 2100-02-01 12:30:00Z by os:")
    assert "moving (was: paused until 2100-01-01 00:00:00Z by os:" in later.out
    run("pause", "--lane", "default", "--reason", "dust", "--until", "none")
    [pause] = anywhere.pauses.active()
    assert (pause.reason, pause.until) == ("dust", None)


def test_resuming_everything_names_what_stays_paused(anywhere, run):
    """Spec: A9"""
    assert run("resume", "--all").out == "nothing is paused\n"
    run("pause", "--lane", "default")
    run("pause", submit(anywhere).id)
    answer = run("resume", "--all")
    assert (answer.code, answer.out) == (0, "there is no pause of everything\n")
    tasks = "single tasks (`headgate list --status paused`)"
    assert answer.err == f"still paused: lane default, {tasks}; resume each by its name\n"
    run("pause", "--all")
    assert run("resume", "--lane", "default").err.endswith(": `headgate resume --all` resumes it\n")
    assert run("resume", "--all").out == "everything resumed\n"


@pytest.mark.parametrize(
    ("words", "subject"), [(["--tenant", 99], "of tenant 99"), (["--key", "nosuch"], "with rate key nosuch")]
)
def test_a_pause_of_something_that_no_task_has_holds_and_says_so(anywhere, run, words, subject):
    """Spec: X10"""
    answer = run("pause", *words)
    assert answer.code == 0
    assert answer.err == f"no task {subject} is known: the pause holds those to come\n"
    submit(anywhere, tenant_id=99, rate_key="nosuch")
    assert run("pause", *words, "--reason", "known now").err == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2100-01-31", "2100-01-31 00:00:00Z"),
        ("2100-01-31 14:30", "2100-01-31 14:30:00Z"),
        ("2100-01-31T14:30:05+08:00", "2100-01-31 06:30:05Z"),
    ],
)
def test_an_end_is_a_date_or_a_time(here, run, text, shown):
    """Spec: A9"""
    run("pause", "--all", "--until", text)
    assert f"until {shown} " in run("pause", "--all").out


def test_the_end_of_a_pause_is_a_duration_or_the_next_time_of_that_hour(here, run):
    """Spec: A9"""
    for text in ("2h", f"{datetime.now(UTC) + timedelta(hours=2):%H:%M}"):
        assert run("pause", "--all", "--until", text).code == 0
        [pause] = here.pauses.active()
        assert timedelta(hours=1, minutes=58) < pause.until - datetime.now(UTC) <= timedelta(hours=2)


@pytest.mark.parametrize(
    "words",
    [["--all", "--for", "soon"], ["--all", "--until", "25:00"],
     ["--all", "--for", "2h", "--until", "2100-01-01T00:00:00"], ["1", "--for", "2h"],
     ["--all", "--until", "2001-01-01T00:00:00"]],
)  # fmt: skip
def test_a_pause_without_a_sensible_end_is_refused(here, run, words):
    """Spec: A9"""
    submit(here)
    assert run("pause", *words).code == 2
    assert here.pauses.active() == []


ONE_OF = "give task IDs, --lane, --type, --tenant, --key or --all: exactly one of them"


@pytest.mark.parametrize("words", [[], ["1", "--all"], ["--lane", "a", "--all"], ["1", "--lane", "a"]])
@pytest.mark.parametrize("command", ["pause", "resume"])
def test_pause_and_resume_want_one_scope(here, run, command, words):
    """Spec: A9"""
    answer = run(command, *words)
    assert (answer.code, answer.err) == (2, f"error: {ONE_OF}\n")


def test_a_capacity_holds_at_once_and_is_lifted_by_none(anywhere, run):
    """Spec: A9"""
    assert run("lanes", "set", "slow", "--capacity", "1").out == "lane slow: 1 at a time\n"
    running(anywhere, lane="slow")
    waiting = submit(anywhere, lane="slow")
    assert [gate.name for gate in anywhere.tasks.why(waiting.id) if not gate.open] == ["lane"]
    run("lanes", "set", "slow", "--capacity", "none")
    assert [gate.name for gate in anywhere.tasks.why(waiting.id) if not gate.open] == []


@pytest.mark.parametrize("capacity", ["-1", "many", "1.5", ""])
def test_a_capacity_is_a_number_or_none(here, run, capacity):
    """Spec: A9"""
    answer = run("lanes", "set", "slow", f"--capacity={capacity}")
    assert (answer.code, answer.err) == (2, f"error: --capacity must be a whole number or none, not {capacity!r}\n")


def test_lanes_show_capacity_and_what_runs_and_waits(anywhere, run):
    """Spec: A9"""
    anywhere.lanes.set_capacity("slow", 1)
    running(anywhere, lane="slow", mutex="m")
    for fields in ({}, {}, {"mutex": "m"}, {"delay_seconds": 60}):
        submit(anywhere, lane="slow", **fields)
    anywhere.statistics.take_sample()
    anywhere.lanes.pause("slow")
    told = {lane["name"]: lane for lane in run("lanes", "--json").lines}
    assert list(told) == ["default", "slow"]
    assert told["slow"].pop("as_of")
    assert told["slow"] == {
        "name": "slow", "capacity": 1, "running": 1, "queued": 2, "queued_exact": True, "blocked": 1, "later": 1,
        "paused": True, "drained": told["slow"]["drained"], "pause": told["slow"]["pause"], "source": "person",
        "others": 0,
    }  # fmt: skip
    assert told["slow"]["drained"]["reason"] == "lane slow is paused"
    assert told["slow"]["pause"]["scope"] == "lane"
    anywhere.lanes.pause()
    out = run("lanes").out.splitlines()
    assert out[2].split() == ["slow", "1", "1", "2", "1", "1", "unknown", "person", "paused"]
    assert out[-2:] == ["everything is paused: `headgate resume --all` resumes it", "lane slow is paused"]


def test_a_lane_is_removed_once_its_tasks_have_ended(anywhere, run):
    """Spec: A9"""
    task = submit(anywhere, lane="slow")
    refused = run("lanes", "remove", "slow")
    assert refused.code != 0
    assert refused.err == "error: lane slow has 1 open task: wait for it to end, or cancel it\n"
    anywhere.tasks.cancel(task.id)
    assert run("lanes", "remove", "slow").out == "lane slow removed\n"
    assert run("lanes", "remove", "slow").err == "error: no lane slow\n"
    assert [lane["name"] for lane in run("lanes", "--json").lines] == ["default"]


def test_limits_are_removed_and_handed_back_to_the_next_declaration(anywhere, run):
    """Spec: D8, X10, A11"""
    run("limits", "set", "key:openai", "--rate", 5, "--burst", 10)
    run("limits", "set", "printer", "--capacity", 2)
    run("lanes", "set", "mail", "--capacity", 2)
    assert run("limits", "reset", "key:openai").out == "key:openai: the next declaration sets it\n"
    assert run("limits", "reset", "printer").code == 0
    assert run("lanes", "reset", "mail").out == "lane mail: the next declaration sets its capacity\n"
    found = {each["name"]: each["source"] for each in run("limits", "--json").lines + run("lanes", "--json").lines}
    assert found["key:openai"] == found["printer"] == found["mail"] == "default"
    assert run("limits", "remove", "key:openai").out == "key:openai removed\n"
    assert run("limits", "remove", "printer").out == "printer removed\n"
    assert [each["name"] for each in run("limits", "--json").lines] == ["key:*", "disk-writer"]
    assert run("limits", "remove", "printer").err == "error: no resource printer\n"


def test_pauses_of_keys_and_types_are_shown_with_limits_and_types(anywhere, run):
    """Spec: A9"""
    anywhere.rate_limits.set("key:openai", Rate(5, 10))
    for what in (["--key", "openai"], ["--key", "fresh"], ["--type", "plain"]):
        run("pause", *what, "--reason", "moving")
    told = {each["name"]: each for each in run("limits", "--json").lines}
    assert [name for name in told if told[name]["pause"]] == ["key:fresh", "key:openai"]
    assert (told["key:fresh"]["rate"], told["key:fresh"]["source"]) == (10.0, "default")
    lines = run("limits").out.splitlines()
    assert [line.split()[0] for line in lines if line.endswith(" paused")] == ["key:fresh", "key:openai"]
    assert [line.split()[2] for line in lines if line.endswith(": moving")] == ["fresh", "openai"]
    types = {each["code"]: each["pause"] for each in run("types", "--json").lines}
    assert [code for code in types if types[code]] == ["plain"]
    assert [line.split()[0] for line in run("types").out.splitlines() if line.endswith(" paused")] == ["plain"]
    assert ": moving" in run("types", "show", "plain").out
    assert run("types", "show", "plain", "--json").json["pause"]["reason"] == "moving"


def test_purge_removes_what_ended_so_and_keeps_the_rest(anywhere, run):
    """Spec: A7"""
    kept = [put(anywhere, state).id for state in (State.DEAD, State.FAILED)]
    gone = put(anywhere, State.SUCCEEDED)
    assert run("purge").out == "nothing to purge\n"
    assert run("purge", "--older-than", "0", "--status", "succeeded", "--yes").out == "purged 1 succeeded\n"
    assert run("show", gone.id).code == 3
    assert sorted(task["id"] for task in run("list", "--json").lines) == kept
    assert run("purge", "--older-than", "0", "--yes", "--json").json["purged"]["failed"] == 1


def test_purge_counts_first_and_removes_nothing_without_consent(anywhere, run):
    """Spec: A7"""
    for state in (State.FAILED, State.SUCCEEDED, State.SUCCEEDED):
        put(anywhere, state)
    anywhere.history.archive()
    answer = run("purge", "--older-than", "0")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: Remove 3 tasks (2 succeeded, 1 failed)? ")
    assert len(run("list", "--json").lines) == 3


def test_purge_refuses_what_has_not_ended(here, run):
    """Spec: A7"""
    answer = run("purge", "--older-than", "0", "--status", "dead")
    assert answer.code == 2
    assert "only finished tasks" in answer.err


@pytest.mark.parametrize(
    "words",
    [["lanes", "set", "slwo", "--capacity", 1], ["submit", "plain", "--lane", "slwo"]],
)
def test_a_lane_that_was_not_there_is_called_new(here, run, words):
    """Spec: A9"""
    assert run(*words).err == "created lane slwo\n"
    assert run(*words).err == ""


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_lane_that_does_not_exist_is_refused_with_the_near_names(here, run, verb):
    """Spec: A9"""
    here.lanes.set_capacity("slow", 1)
    answer = run(verb, "--lane", "slwo")
    assert (answer.code, answer.err) == (3, "error: no lane slwo; known lanes: slow, default\n")
    assert "slwo" not in [lane.name for lane in here.lanes.all()]


def test_a_pause_may_end_on_a_date(here, run):
    assert run("pause", "--all", "--until", "2999-01-31").code == 0
    [pause] = here.pauses.active()
    assert f"{pause.until:%Y-%m-%d %H:%M %Z}" == "2999-01-31 00:00 UTC"
