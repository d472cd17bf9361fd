"""`headgate types`: what holds for a type's tasks, seen, edited, and an edit foreseen."""

import json
from dataclasses import replace

import pytest

from headgate.core.machine import Raised
from headgate.core.retry import exponential, fixed, sequence
from headgate.core.task import NewTask, TaskType
from headgate.core.task_types import EDITABLE_FIELDS, TYPE_FIELDS
from tests.factories import running, settle, sql, submit


def test_types_are_listed_with_what_holds_and_who_said_so(anywhere, run):
    """Spec: B5"""
    anywhere.types.put(TaskType("scan", lane="slow", retry=fixed(30, retries=2), declared_by="shop:scan"))
    anywhere.types.put(TaskType("send", retry=sequence([10, 60]), timeout_seconds=300, need_manual=True))
    anywhere.types.put(TaskType("ship", retry=exponential(5, cap=60, retries=4)), edited=True)
    head, *rows = run("types").out.splitlines()
    assert head.split("  ")[0] == "CODE"
    told = {row.split()[0]: " ".join(row.split()) for row in rows}
    assert list(told) == sorted(told)
    assert told["plain"] == "plain default none 30 min failed"
    assert told["scan"] == "scan slow 2 every 30 s 30 min failed shop:scan"
    assert told["send"] == "send default 2 after 10 s, 60 s 5 min dead"
    assert told["ship"] == "ship default 4 from 5 s to 60 s 30 min failed manual edit"
    assert run("types", "list").out == run("types").out


def test_types_are_json_for_programs_without_their_secrets(anywhere, run):
    """Spec: B5, B6"""
    security = {"type": "aksk", "ak": "us", "sk": "sealed:canary"}
    callback = {"success": {"url": "https://example.org/x", "method": "POST"}, "security": security}
    anywhere.types.put(TaskType("told", callback=callback))
    [told] = [kind for kind in run("types", "--json").lines if kind["code"] == "told"]
    assert told == run("types", "show", "told", "--json").json
    assert {"id", "code", *TYPE_FIELDS, "callback", "declared_by", "edited", "update_date", "pause"} == set(told)
    assert told["callback"]["security"] == {"type": "aksk", "ak": "us"}
    shown = run("types", "show", "told").out
    assert "callback.success.url     https://example.org/x" in shown
    assert [out for out in (shown, run("types").out, json.dumps(told)) if "canary" in out] == []


def test_a_type_is_shown_in_the_words_that_set_takes(here, run):
    """Spec: B5"""
    here.types.put(TaskType("scan", retry=sequence([10, 60]), uses=("disk",), mutex="m:{a}", declared_by="shop:scan"))
    rows = dict(row.split(maxsplit=1) for row in run("types", "show", "scan").out.splitlines())
    assert rows.pop("since").endswith("Z")
    assert (rows["code"], rows["declared_by"], rows["source"]) == ("scan", "shop:scan", "shop:scan")
    again = [f"{word}={rows[word]}" for word in EDITABLE_FIELDS if word in rows]
    assert run("types", "set", "copy", *again).code == 0
    assert here.types.by_code()["copy"].retry == here.types.by_code()["scan"].retry
    assert (here.types.by_code()["copy"].uses, here.types.by_code()["copy"].mutex) == (("disk",), "m:{a}")


def test_a_type_is_edited_and_the_rest_of_it_stays(anywhere, run, url):
    """Spec: B5, A12"""
    anywhere.types.put(TaskType("scan", lane="slow", retry=fixed(30, retries=2)))
    answer = run("types", "set", "scan", "timeout_seconds=2700", "max_error_count=5", "need_manual=true")
    assert answer.out.splitlines() == [
        "max_error_count: 2 → 5", "timeout_seconds: 1800 → 2700", "need_manual: false → true",
    ]  # fmt: skip
    kept = anywhere.types.get("scan")
    assert (kept.edited, kept.kind) == (
        True, TaskType("scan", lane="slow", retry=fixed(30, retries=5), timeout_seconds=2700, need_manual=True),
    )  # fmt: skip
    [*_, (actor, detail)] = sql(
        url, "SELECT actor, detail FROM headgate_task_event WHERE kind = 'type_changed' ORDER BY id"
    )
    assert actor.startswith("os:")
    assert json.loads(detail)["changes"]["need_manual"] == {"old": False, "new": True}
    assert run("types", "set", "scan", "timeout=45").out == "type scan: no changes\n"


def test_a_type_is_made_unique_and_what_is_submitted_is_so(here, run):
    """Spec: B5, X2"""
    run("types", "set", "scan", "unique=arguments", "unique_seconds=60")
    first, again = (run("submit", "scan", *words, "--json").json for words in (("a=1", "b=2"), ("b=2", "a=1")))
    assert (first["created"], again["created"], again["id"]) == (True, False, first["id"])
    refused = run("types", "set", "scan", "unique_key=k")
    assert (refused.code, refused.err) == (2, "error: give unique or unique_key, not both\n")
    assert run("types", "set", "scan", "unique=null", "unique_key=k", "unique_seconds=null").code == 0
    assert here.types.get("scan").kind == TaskType("scan", unique_key="k")
    assert "debounce_replace" not in run("types", "show", "scan").out


def test_the_source_of_a_type_names_the_program_and_the_pack_below_it(anywhere, run):
    """Spec: B5, X11"""
    anywhere.types.declare_base(TaskType("scan", timeout_seconds=300, declared_by="pack films"))
    [row] = [row for row in run("types").out.splitlines() if row.startswith("scan")]
    assert row.endswith("pack films")
    anywhere.types.declare("scan", lambda base: replace(base, priority=2, declared_by="shop:scan"), ["priority"])
    [row] = [row for row in run("types").out.splitlines() if row.startswith("scan")]
    assert row.endswith("shop:scan over pack films")


def test_a_type_is_added_also_from_a_file(here, run, folder):
    """Spec: B5"""
    (folder / "scan.json").write_text('{"lane": "slow", "retry_strategy": "fixed_period", "retry_interval": 5}')
    told = run("types", "set", "scan", "--file", "scan.json", "max_error_count=3", "--json").json
    assert (told["code"], told["changes"]["lane"]) == ("scan", {"new": "slow"})
    assert here.types.by_code()["scan"] == TaskType("scan", lane="slow", retry=fixed(5, retries=3))


def test_a_dry_run_says_what_it_would_mean_for_what_waits_and_changes_nothing(anywhere, run):
    """Spec: B5"""
    anywhere.types.put(TaskType("scan", retry=fixed(30, retries=3)))
    failed = running(anywhere, "scan")
    settle(anywhere, failed, Raised("again", 600.0))
    submit(anywhere, "scan")
    before, last = anywhere.types.by_code(), anywhere.events.last()
    said = ("types", "set", "scan", "timeout=1", "max_error_count=1", "lane=fast", "--dry-run")
    assert run(*said).out.splitlines() == [
        'lane: "default" → "fast"',
        "max_error_count: 3 → 1",
        "timeout_seconds: 1800 → 60",
        "",
        "open tasks: 1 queued, 1 retrying",
        f"  1 would no longer be retried after its next failure: {failed.id}",
        "  2 would get the new timeout from their next execution on",
        "  2 would keep their lane and category",
        "dry run: nothing was changed",
    ]
    told = run(*said, "--json").json
    assert told["changes"]["timeout"] == {"old": 30.0, "new": 1}
    assert (told["foreseen"]["states"], told["foreseen"]["given_up"]) == ({"queued": 1, "retrying": 1}, [failed.id])
    assert (anywhere.types.by_code(), anywhere.events.last()) == (before, last)


def test_a_dry_run_names_some_of_many(here, run):
    """Spec: B5"""
    ids = [made.id for made in here.tasks.submit_many([NewTask("plain", delay_seconds=60)] * 25)]
    out = run(
        "types", "set", "plain", "retry_strategy=fixed_period", "retry_interval=5", "max_error_count=1", "--dry-run"
    )
    assert f"  25 would now be retried after their next failure: {', '.join(map(str, ids[:20]))}, …" in out.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to change"),
        (["timeout"], "use key=value"),
        (["timout=1"], "did you mean timeout"),
        (["timeout=1e999"], "timeout must be"),
        (["timeout=long"], "timeout must be a number"),
        (["timeout=1", "timeout_seconds=60"], "give timeout_seconds or timeout (minutes), not both"),
        (["max_error_count=1"], "max_error_count 0"),
        (["mutex={0}"], "mutex: '{0}' has {0}: a key refers to arguments by name"),
        (["mutex={a:>30000000}"], "a key uses an argument without conversion or format, {a}"),
        (
            ["rate_key=r:{a!r}"],
            "rate_key: 'r:{a!r}' has {a!r}: a key uses an argument without conversion or format, {a}",
        ),
        (["--file", "none.json"], "cannot read none.json"),
        (["--file", "wrong.json"], "wrong.json is not valid JSON"),
        (["--file", "list.json"], "list.json must hold one JSON object"),
    ],
)
@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["", "dry run"])
def test_what_cannot_be_is_refused_and_changes_nothing(here, run, folder, words, told, dry_run):
    """Spec: B5"""
    (folder / "wrong.json").write_text("{")
    (folder / "list.json").write_text("[]")
    before = here.types.by_code()
    answer = run("types", "set", "plain", *words, *dry_run)
    assert (answer.code, told in answer.err) == (2, True), answer.err
    assert here.types.by_code() == before


def test_a_type_is_forgotten(here, run):
    """Spec: B5"""
    assert run("types", "remove", "plain").out == "type plain removed\n"
    assert "plain" not in here.types.by_code()
    assert run("types", "remove", "manual", "--json").json == {"code": "manual", "removed": True}
    for command in ("remove", "show"):
        answer = run("types", command, "plain")
        assert (answer.code, "no task type plain" in answer.err) == (3, True)


def test_a_type_that_was_not_there_is_called_new(here, run):
    """Spec: B5"""
    assert run("types", "set", "fecth", "timeout=5", "--dry-run").out.splitlines()[0] == "type fecth would be created"
    assert run("types", "set", "fecth", "timeout=5").out.splitlines()[0] == "type fecth created"
    assert "new" not in run("types", "set", "fecth", "timeout=6").out


def test_a_callback_is_set_changed_and_removed(here, run, monkeypatch, folder):
    """Spec: B6"""
    monkeypatch.setenv("HEADGATE_SECRET", "a-secret-of-the-server-that-is-long-enough")
    run(
        "types",
        "set",
        "plain",
        "callback.success.url=https://shop.example/done",
        "callback.error.url=https://shop.example/bad",
    )
    (folder / "sk.json").write_text('{"callback.security.sk": "a-secret-that-is-long-enough"}')
    answer = run("types", "set", "plain", "callback.security.type=aksk", "callback.security.ak=us", "--file", "sk.json")
    assert "a-secret" not in answer.out
    stored = here.types.get("plain").kind.callback
    assert stored["success"] == {"url": "https://shop.example/done", "method": "POST"}
    assert stored["security"]["sk"] != "a-secret-that-is-long-enough"
    run("types", "set", "plain", "callback.success.method=PUT", "callback.error.url=null")
    changed = here.types.get("plain").kind.callback
    assert changed == {"success": {"url": "https://shop.example/done", "method": "PUT"}, "security": stored["security"]}
    assert "callback.success.url" in run("types", "show", "plain").out
    for words, message in (
        (["callback.success.uri=x"], "a callback has no 'callback.success.uri'"),
        (["callback.error.method=PUT"], "callback.error must have a url"),
        (["callback.success.url=http://127.0.0.1/x"], "127.0.0.1"),
    ):
        refused = run("types", "set", "plain", *words)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    assert here.types.get("plain").kind.callback == changed
