"""`headgate list`, `show` and `why` say what the store knows."""

import re
from dataclasses import asdict

import pytest

from headgate.cli.output import FIELDS
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.core.usage import Usage
from headgate.store.claim.contract import Outcome
from tests.factories import put, running, settle, start, submit, worker

B1 = (
    "id", "tenant_id", "type", "creator", "start_time", "status", "executing_deadline", "exec_id", "error_count",
    "error_info", "category", "remark", "ext", "result", "exec_time", "create_date", "update_date",
)  # fmt: skip
RFC_3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_a_task_is_told_under_b1s_names_with_times_in_utc(anywhere, run):
    """Spec: B1"""
    submit(anywhere, ext='{"a":\n1}')
    [told] = run("list", "--json").lines
    assert tuple(told) == FIELDS
    assert FIELDS[: len(B1)] == B1
    assert told["ext"] == {"a": 1}
    assert all(RFC_3339_UTC.fullmatch(told[name]) for name in ("start_time", "create_date", "update_date"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type_code": "manual"}, ["--type", "manual"]),
        ({"lane": "slow"}, ["--lane", "slow"]),
        ({"creator": 4}, ["--creator", "4"]),
        ({"mutex": "m"}, ["--mutex", "m"]),
        ({"delay_seconds": 60}, ["--status", "pending"]),
        ({"delay_seconds": 60}, ["--status", "pending", "--status", "dead"]),
    ],
)
def test_a_list_holds_what_was_asked_for(here, run, fields, words):
    """Spec: A1"""
    submit(here)
    wanted = submit(here, **fields)
    assert [task["id"] for task in run("list", *words, "--json").lines] == [wanted.id]


def test_children_are_listed_by_their_parent(here, run):
    """Spec: D7"""
    parent = running(here)
    child = here.tasks.submit(NewTask("plain", parent_id=parent.id)).id
    assert [task["id"] for task in run("list", "--parent", parent.id, "--json").lines] == [child]


def test_a_parent_is_shown_with_how_far_its_children_are(anywhere, run):
    """Spec: D7"""
    parent = running(anywhere)
    for _ in range(3):
        anywhere.tasks.submit(NewTask("plain", parent_id=parent.id))
    settle(anywhere, parent, Returned())
    for event in (Returned(), Raised("no")):
        settle(anywhere, start(anywhere)[0], event)
    told = run("show", parent.id, "--json").json
    assert told["progress"] == {"done": 2, "total": 3, "failed": 1}
    assert told["children"] == {
        "succeeded": 1, "failed": 1, "open": 1, "exact": True, "states": {"succeeded": 1, "failed": 1, "queued": 1},
    }  # fmt: skip
    shown = [line.split(maxsplit=1) for line in run("show", parent.id).out.splitlines()]
    assert ["progress", "2 of 3  1 failed"] in shown
    assert ["children", "1 failed, 1 queued, 1 succeeded"] in shown


def test_a_parent_that_gave_up_is_shown_so(here, run):
    """Spec: D7"""
    parent = running(here)
    here.tasks.submit(NewTask("plain", parent_id=parent.id))
    start(here)
    settle(here, parent, Raised("no"))
    assert ["gave_up", "yes"] in [line.split() for line in run("show", parent.id).out.splitlines()]


def test_the_cursor_leads_through_all_pages(here, run):
    """Spec: B4"""
    ids = [submit(here).id for _ in range(5)]
    first = run("list", "--limit", "2")
    assert first.err == f"more: --cursor {ids[3]}\n"
    found = run("list", "--limit", "2", "--json").lines
    while page := run("list", "--limit", "2", "--cursor", found[-1]["id"], "--json").lines:
        found += page
    assert [task["id"] for task in found] == ids[::-1]


def test_a_list_goes_on_until_it_is_full_over_pages_that_found_little(here, run, monkeypatch):
    """Spec: A1"""
    ids = [submit(here, "manual" if number % 4 == 0 else "plain", mutex="m").id for number in range(12)]
    monkeypatch.setattr("headgate.store.reading.lists.MOST_READ", 2)
    asked = ("list", "--mutex", "m", "--type", "manual", "--limit", "2")
    assert [task["id"] for task in run(*asked, "--json").lines] == [ids[8], ids[4]]
    assert run(*asked).err == f"more: --cursor {ids[4]}\n"
    assert [task["id"] for task in run(*asked, "--cursor", ids[4], "--json").lines] == [ids[0]]


def test_history_is_listed_and_shown_too(here, run):
    """Spec: B4"""
    task = put(here, State.SUCCEEDED)
    here.history.archive()
    assert run("list", "--json").lines[0]["id"] == task.id
    assert run("show", task.id, "--json").json["status"] == "succeeded"


def test_a_table_has_one_line_a_task_and_no_frame(here, run):
    """Spec: A1"""
    execution = running(here, name="an [odd] name")
    here.executions.progress(execution.id, execution.exec_id, '{"done": 3, "total": 10, "note": "half way"}')
    header, line = run("list").out.splitlines()
    assert header.split()[:3] == ["ID", "STATUS", "TYPE"]
    assert line.startswith(f"{execution.id:2}  running  plain")
    assert line.endswith("an [odd] name 3 of 10 half way")


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        ('{"done": 3.0, "total": 10.0}', "3 of 10"),
        ('{"done": 1.5, "total": 3}', "1.5 of 3"),
        ('{"done": 1500000.0, "total": 3000000}', "1,500,000 of 3,000,000"),
        ('{"done": 0.333333, "total": 1.0}', "0.33 of 1"),
        ('{"done": 0.004, "total": 1}', "0.004 of 1"),
        ('{"done": "some"}', "some"),
        ('{"done": 99999999999999999999}', "99,999,999,999,999,999,999"),
    ],
)
def test_progress_is_written_as_people_write_numbers(here, run, progress, text):
    """Spec: D3"""
    execution = running(here)
    here.executions.progress(execution.id, execution.exec_id, progress)
    assert run("list").out.rstrip().endswith(f"Z  {text}")


def test_what_a_task_holds_cannot_steer_the_terminal(here, run):
    task = submit(here, name="\x1b[2Jgone\r")
    for words in (["list"], ["show", task.id]):
        out = run(*words).out
        assert "\x1b" not in out
        assert r"\x1b[2Jgone" in out


def test_show_tells_the_record_what_happened_and_the_log(anywhere, run):
    """Spec: A12"""
    execution = running(anywhere, "manual")
    anywhere.executions.add_log(execution.id, execution.exec_id, [("info", "on my way")])
    anywhere.executions.progress(execution.id, execution.exec_id, '{"done": 1}')
    settle(anywhere, execution, Raised("ValueError: no\n\nTraceback …"))
    out = run("show", execution.id).out
    for said in ("dead", "ValueError: no", "submitted", "running → dead", "on my way", "attempt 1"):
        assert said in out
    told = run("show", execution.id, "--json").json
    assert [(event["from"], event["to"]) for event in told["events"] if event["to"]][-1] == ("running", "dead")
    assert set(told["events"][0]) == {
        "id", "task_id", "at", "kind", "from", "to", "actor", "exec_id", "correlation_id", "detail",
        "code", "params",
    }  # fmt: skip
    assert [(line["level"], line["message"]) for line in told["log"]] == [("info", "on my way")]
    assert told["progress"] == {"done": 1}


def test_show_tells_what_an_execution_used_as_far_as_it_is_known(anywhere, run):
    """Spec: A8"""
    process, thread = running(anywhere), running(anywhere)
    used = Usage(1.5, 60_000_000, 0, 8_200_000)
    anywhere.executions.settle([Outcome(process, Returned(), used), Outcome(thread, Returned(), Usage(0.25))])
    assert "1.50 s of CPU, 60.0 MB of memory, 0.0 MB read, 8.2 MB written (attempt 1)" in run("show", process.id).out
    assert "0.25 s of CPU (attempt 1)" in run("show", thread.id).out
    assert run("show", process.id, "--json").json["usage"] == {"attempt": 1} | asdict(used)


def test_show_leaves_nothing_out_for_programs_and_the_latest_in_for_people(here, run):
    """Spec: A12"""
    execution = running(here)
    for number in range(410):
        here.executions.add_log(execution.id, execution.exec_id, [("info", f"line {number}.")])
    assert [line["message"] for line in run("show", execution.id, "--json").json["log"]] == [
        f"line {number}." for number in range(410)
    ]
    out = run("show", execution.id).out
    assert ("line 409." in out, "line 0." in out, "390 earlier" in out) == (True, False, True)


def test_why_goes_gate_by_gate_with_holders(anywhere, run):
    """Spec: X3"""
    anywhere.lanes.set_capacity("default", 2)
    first, second = running(anywhere, mutex="m"), running(anywhere)
    task = submit(anywhere, mutex="m")
    lines = run("why", task.id).out.splitlines()
    assert f"lane    closed  default: 2 of 2 running ({first.id}, {second.id})" in lines
    assert f"mutex   closed  m: held by task {first.id}" in lines
    told = run("why", task.id, "--json").json
    assert (told["task_id"], told["status"]) == (task.id, "blocked")
    gates = {gate["name"]: gate for gate in told["gates"]}
    assert gates["lane"] == {
        "name": "lane", "open": False, "reason": "default: 2 of 2 running", "code": "full",
        "params": {"name": "default", "running": 2, "capacity": 2, "others": 0}, "holders": [first.id, second.id],
    }  # fmt: skip


def test_why_says_when_it_starts_where_time_is_all_it_waits_for(here, run):
    """Spec: X3"""
    worker(here)
    lines = run("why", submit(here, delay_seconds=72000).id).out.splitlines()
    assert re.fullmatch(r"time    closed  the start time has not come yet \(until .*Z, in 20 h\)", lines[1])
    assert lines[-1] == "starts  in about 20 h (the start time has not come yet)"
    assert run("why", submit(here).id).out.splitlines()[-1].startswith("starts  now")
    told = run("why", 1, "--json").json
    assert RFC_3339_UTC.fullmatch(told["gates"][1]["until"])
    assert told["forecast"]["at"] == told["gates"][1]["until"]
    assert told["forecast"]["in_seconds"] == pytest.approx(72000, abs=60)


def test_why_says_when_a_task_starts_that_waits_for_others(anywhere, run):
    """Spec: X3"""
    worker(anywhere)
    anywhere.lanes.set_capacity("default", 1)
    execution = running(anywhere)
    settle(anywhere, execution, Returned())
    anywhere.statistics.take_sample()
    running(anywhere)
    submit(anywhere)
    task = submit(anywhere)
    said = run("why", task.id).out.splitlines()[-1]
    assert re.fullmatch(r"starts  in about [\d.]+ s \(lane default: 1 ahead, 1 at a time, about .* s each\)", said)
    told = run("why", task.id, "--json").json["forecast"]
    assert (told["ahead"], RFC_3339_UTC.fullmatch(told["at"]) is not None) == (1, True)
    assert "in about" in run("lanes").out
    assert run("lanes", "--json").lines[0]["drained"]["in_seconds"] >= told["in_seconds"]


def test_why_says_that_nobody_can_say_and_nothing_of_what_has_started(here, run):
    """Spec: X3"""
    assert (
        run("why", submit(here).id).out.splitlines()[-1] == "starts  unknown: no worker or agent for plain is running"
    )
    [execution] = start(here)
    assert "starts" not in run("why", execution.id).out
    assert "forecast" not in run("why", execution.id, "--json").json


@pytest.mark.parametrize("command", ["show", "why"])
def test_a_task_that_is_not_there_is_not_found(here, run, command):
    answer = run(command, 4711)
    assert (answer.code, answer.out, answer.err) == (3, "", "error: no task 4711\n")


def test_why_says_of_what_has_ended_that_it_has(here, run):
    """Spec: X3"""
    here.tasks.cancel(submit(here).id)
    assert run("why", 1).out == "task 1 has ended: cancelled\n"


TOO_LARGE = str(2**63)


@pytest.mark.parametrize(
    "words",
    [
        ["show", TOO_LARGE], ["why", TOO_LARGE], ["cancel", TOO_LARGE], ["pause", TOO_LARGE], ["retry", TOO_LARGE],
        ["callbacks", TOO_LARGE], ["redeliver", TOO_LARGE], ["dead-letters", "show", TOO_LARGE],
        ["schedules", "show", TOO_LARGE], ["schedules", "trigger", TOO_LARGE], ["keys", "revoke", TOO_LARGE],
        ["list", "--cursor", TOO_LARGE],
        ["list", "--creator", TOO_LARGE], ["prioritize", TOO_LARGE], ["resolve", TOO_LARGE, "--remark", "x"],
        ["reschedule", TOO_LARGE, "--delay", "1"],
    ],
)  # fmt: skip
def test_a_number_that_no_store_holds_is_one_clear_line(anywhere, run, words):
    answer = run(*words)
    assert answer.code in (1, 2, 3)
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
