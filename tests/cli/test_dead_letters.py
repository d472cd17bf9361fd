"""`headgate dead-letters`: what waits for a person, and what the person does about it."""

import json

import pytest

from headgate.core.machine import Raised
from headgate.core.states import State
from tests.factories import record, running, settle, sql, submit

S = State


def dead(store, error="no", **fields):
    execution = running(store, "manual", **fields)
    settle(store, execution, Raised(error))
    return store.tasks.get(execution.id)


def test_it_lists_what_waits_for_a_person(anywhere, run):
    """Spec: D12, B7"""
    assert run("dead-letters").out == "no dead letters\n"
    first, second = dead(anywhere, "ValueError: no address\n  at line 3"), dead(anywhere, lane="slow")
    out = run("dead-letters").out.splitlines()
    assert out[0].split() == ["ID", "TYPE", "LANE", "ATTEMPT", "DEAD", "FOR", "ERROR"]
    assert [row.split()[0] for row in out[1:]] == [str(second.id), str(first.id)]
    assert out[2].endswith("ValueError: no address")
    assert [task["id"] for task in run("dead-letters", "--json").lines] == [second.id, first.id]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--type", "manual"], "abc"), (["--lane", "slow"], "b"), (["--tenant", "1"], "c"), (["--creator", "7"], "c"),
        (["--error", "TIMEOUT"], "ab"), (["--older-than", "1"], "a"), (["--limit", "1"], "c"),
    ],
)  # fmt: skip
def test_a_list_holds_what_was_asked_for(here, run, folder, words, names):
    """Spec: D12"""
    letters = {
        "a": dead(here, "Timeout").id,
        "b": dead(here, "read timeout", lane="slow").id,
        "c": dead(here, creator=7, tenant_id=1).id,
    }
    sql(f"sqlite:///{folder}/headgate.db", f"UPDATE headgate_task SET update_date = 1 WHERE id = {letters['a']}")
    found = [task["id"] for task in run("dead-letters", "list", *words, "--json").lines]
    assert found == [letters[name] for name in reversed(names)]


def test_the_cursor_leads_through_all_pages(here, run):
    """Spec: D12"""
    ids = [dead(here).id for _ in range(3)]
    first = run("dead-letters", "list", "--limit", "2")
    assert first.err == f"more: --cursor {ids[1]}\n"
    assert [task["id"] for task in run("dead-letters", "list", "--cursor", ids[1], "--json").lines] == ids[:1]


def test_a_list_goes_on_until_it_is_full_over_pages_that_found_little(here, run, monkeypatch):
    """Spec: D12, X4"""
    ids = [dead(here, lane="slow" if number % 4 == 0 else "quick").id for number in range(12)]
    monkeypatch.setattr("headgate.store.tasks.dead_letters.MOST_READ", 2)
    asked = ("dead-letters", "list", "--lane", "slow", "--limit", "2")
    assert [task["id"] for task in run(*asked, "--json").lines] == [ids[8], ids[4]]
    assert run(*asked).err == f"more: --cursor {ids[4]}\n"
    assert [task["id"] for task in run(*asked, "--cursor", ids[4], "--json").lines] == [ids[0]]
    assert len(run("dead-letters", "discard", "--lane", "slow", "--yes", "--json").lines) == 3


def test_a_letter_is_shown_with_its_error_and_what_it_was_asked_to_do(here, run):
    """Spec: D12"""
    execution = running(here, "manual", ext='{"number": 7}')
    here.executions.add_log(execution.id, execution.exec_id, [("info", "looking for an address")])
    settle(here, execution, Raised("ValueError: no address\n  at line 3"))
    out = run("dead-letters", "show", execution.id).out
    for told in ('{"number": 7}', "ERROR\nValueError: no address\n  at line 3", "looking for an address", "1 failed"):
        assert told in out
    assert run("dead-letters", "show", execution.id, "--json").json["log"][0]["message"] == "looking for an address"
    queued = submit(here)
    refused = run("dead-letters", "show", queued.id)
    assert (refused.code, refused.err) == (
        1, f"error: task {queued.id} is queued, so it is not a dead letter; `headgate show {queued.id}` shows it\n",
    )  # fmt: skip


def test_a_letter_is_shown_with_what_its_type_says_now(here, run):
    """Spec: D12"""
    letter = dead(here)
    run("types", "set", letter.type, "timeout_seconds=301", "retry_strategy=fixed_period", "retry_interval=9",
        "max_error_count=7")  # fmt: skip
    shown = [line.split() for line in run("dead-letters", "show", letter.id).out.splitlines()]
    assert ["max_error_count", "7"] in shown
    assert ["timeout_seconds", "301"] in shown


def test_letters_are_replayed_as_they_are(anywhere, run):
    """Spec: D12"""
    ids = [dead(anywhere).id for _ in range(2)]
    assert run("dead-letters", "replay", *ids).out == "".join(f"{i} queued\n" for i in ids)


def test_a_letter_is_replayed_with_arguments_and_options_set(anywhere, run):
    """Spec: D12, A12"""
    letter = dead(anywhere, ext='{"url": "htp://x", "page": 3, "old": true}')
    answer = run(
        "dead-letters", "replay", letter.id, "url=http://x", "page=4", "old=null", "--set-priority", 1, "--set-lane",
        "fast", "--set-timeout", 9.5, "--set-max-errors", 2,
    )  # fmt: skip
    assert answer.out == f"{letter.id} queued\n"
    task = anywhere.tasks.get(letter.id)
    assert json.loads(task.ext) == {"url": "http://x", "page": 4}
    assert (task.priority, task.lane, task.timeout_seconds, task.max_error_count) == (1, "fast", 9.5, 2)
    [*_, event] = anywhere.events.of(letter.id)
    assert json.loads(event.detail or "")["edit"]["ext.url"] == {"old": "htp://x", "new": "http://x"}


def test_a_letter_is_replayed_with_a_whole_new_ext(here, run, folder):
    """Spec: D12"""
    letter, other = dead(here), dead(here)
    (folder / "ext.json").write_text('{"whole": [1, 2]}')
    assert run("dead-letters", "replay", letter.id, "--edit", "ext.json").code == 0
    assert here.tasks.get(letter.id).ext == '{"whole": [1, 2]}'
    for words, message in (
        ([other.id, letter.id, "--edit", "ext.json"], "--edit takes exactly one task ID"),
        ([other.id, "--edit", "nowhere.json"], "cannot read nowhere.json"),
        ([other.id, "a=1", "--edit", "ext.json"], "not both"),
        ([other.id, "--edit", "shop.py"], "ext is not JSON"),
        (["x"], "neither a task ID nor key=value"),
    ):
        answer = run("dead-letters", "replay", *words)
        assert (answer.code, message in answer.err) == (2, True), answer.err
    assert here.tasks.get(other.id) == other


def test_a_dry_run_says_what_would_be_changed_and_changes_nothing(anywhere, run):
    """Spec: D12"""
    letter, queued = dead(anywhere, ext='{"a": 1}'), submit(anywhere)
    before = record(anywhere, letter.id)
    answer = run("dead-letters", "replay", letter.id, queued.id, "a=2", "b=x", "--set-lane", "fast", "--dry-run")
    changes = 'ext.a: 1 → 2  ext.b: (none) → "x"  lane: "default" → "fast"'
    assert answer.out == f"task {letter.id} would be replayed  {changes}\n"
    only = "only dead or failed tasks can be replayed"
    assert (answer.code, answer.err) == (1, f"error: task {queued.id} is queued; {only}\n")
    [told] = run("dead-letters", "replay", letter.id, "a=2", "--dry-run", "--json").lines
    assert told == {"id": letter.id, "changes": {"ext.a": {"old": 1, "new": 2}}}
    for words in (["resolve", letter.id, "--remark", "x"], ["discard", letter.id], ["discard", "--all"]):
        done = {"resolve": "resolved", "discard": "discarded"}[words[0]]
        assert run("dead-letters", *words, "--dry-run").out == f"task {letter.id} would be {done}\n"
    assert record(anywhere, letter.id) == before


def test_what_a_filter_finds_is_acted_upon_to_the_last(here, run, monkeypatch):
    """Spec: D12"""
    monkeypatch.setattr("headgate.cli.dead_letters.PAGE", 2)
    slow = [dead(here, lane="slow").id for _ in range(5)]
    fast = [dead(here).id for _ in range(2)]
    answer = run("dead-letters", "resolve", "--lane", "slow", "--remark", "by hand", "--yes")
    assert answer.out == "".join(f"{i} resolved\n" for i in reversed(slow))
    assert run("dead-letters", "discard", "--all", "--remark", "enough", "--yes").code == 0
    assert {(here.tasks.get(i).status, here.tasks.get(i).remark) for i in fast} == {(S.FAILED, "enough")}


@pytest.mark.parametrize("words", [["discard"], ["resolve", "--remark", "x"]])
def test_what_nobody_named_is_counted_and_kept_without_consent(here, run, words):
    """Spec: D12"""
    ids = [dead(here).id for _ in range(2)]
    answer = run("dead-letters", *words, "--all")
    assert answer.code == 2
    assert " 2 dead letters? " in answer.err
    assert {here.tasks.get(i).status for i in ids} == {S.DEAD}
    assert run("dead-letters", *words, *ids).code == 0


@pytest.mark.parametrize("chosen", [["--all"], ["--type", "manual"]])
@pytest.mark.parametrize("action", [["replay"], ["discard"], ["resolve", "--remark", "x"]])
@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["", "dry run"])
def test_it_is_said_that_there_is_nothing_to_act_on(anywhere, run, action, chosen, dry_run):
    """Spec: D12, B7"""
    answer = run("dead-letters", *action, *chosen, *dry_run)
    assert (answer.code, answer.out, answer.err) == (0, "no dead letters match\n", "")
    answer = run("dead-letters", *action, *chosen, *dry_run, "--json")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


@pytest.mark.parametrize("words", [[], ["1", "--all"], ["1", "--type", "manual"], ["--type", "manual", "--all"]])
@pytest.mark.parametrize("what", ["replay", "resolve", "discard"])
def test_an_action_wants_one_way_of_saying_which(here, run, what, words):
    """Spec: D12"""
    more = ["--remark", "x"] if what == "resolve" else []
    answer = run("dead-letters", what, *words, *more)
    told = "error: give task IDs, filters such as --type, or --all: exactly one of them\n"
    assert (answer.code, answer.err) == (2, told)


def test_one_letter_that_cannot_take_the_edit_does_not_hold_up_the_rest(here, run):
    """Spec: D12"""
    odd, good = dead(here, ext="[1]"), dead(here)
    answer = run("dead-letters", "replay", odd.id, good.id, "a=1")
    assert (answer.code, answer.out) == (2, f"{good.id} queued\n")
    assert "not an object" in answer.err
