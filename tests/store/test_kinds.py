"""Types as data: an edit holds at once for what waits, is told in the audit, and can be foreseen."""

import json
from dataclasses import replace
from typing import cast

import pytest

import headgate.store.catalog.types as kinds
from headgate.core.errors import Invalid, NotFound
from headgate.core.machine import Raised
from headgate.core.retry import fixed
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, TaskType
from headgate.core.task_types import edited
from headgate.store.db.statement import Db
from headgate.store.store import open_store
from tests.factories import put, running, settle, sql, start, submit, together

S = State


def change(store, code="plain", actor="user:1", **said):
    return store.types.edit(code, lambda before: edited(before or TaskType(code), said), actor=actor)


def acts(url, kind="type_changed"):
    told = sql(url, f"SELECT actor, detail FROM headgate_task_event WHERE kind = '{kind}' ORDER BY id")
    return [(actor, json.loads(detail)) for actor, detail in told]


def test_an_edit_is_in_the_audit_with_what_was_and_who_did_it(store, url):
    """Spec: B5, A12"""
    before = len(acts(url))
    change(store, timeout=1, need_manual=True)
    [(actor, told)] = acts(url)[before:]
    assert (actor, told["type"]) == ("user:1", "plain")
    assert told["changes"] == {"timeout": {"old": 30.0, "new": 1.0}, "need_manual": {"old": False, "new": True}}
    change(store, timeout=1)
    assert len(acts(url)) == before + 1
    store.types.remove("plain", actor="user:2")
    [(actor, told)] = acts(url, "type_removed")
    assert (actor, told["type"], told["changes"]["timeout"]) == ("user:2", "plain", {"old": 1.0})


def test_a_new_type_is_in_the_audit_with_what_it_says(store, url):
    """Spec: B5, A12"""
    change(store, "fresh", lane="slow")
    assert acts(url)[-1] == ("user:1", {"type": "fresh", "changes": {"lane": {"new": "slow"}}})


def test_a_key_that_was_stored_before_its_kind_was_refused_still_holds_until_it_is_edited(store, url):
    """Spec: B5"""
    change(store, mutex="m:{n}")
    sql(url, "UPDATE headgate_task_metadata SET config = replace(config, 'm:{n}', 'm:{n:03}') WHERE code = 'plain'")
    with open_store(url) as other:
        assert other.types.by_code()["plain"].mutex == "m:{n:03}"
        assert other.tasks.get(other.tasks.submit(NewTask("plain", '{"n": 7}')).id).mutex == "m:007"
    with pytest.raises(Invalid, match="a key uses an argument without conversion or format"):
        change(store, mutex="{n!r}")
    change(store, mutex="m:{n}")
    assert store.types.by_code()["plain"].mutex == "m:{n}"


def test_an_edit_that_breaks_a_rule_changes_nothing(store, url):
    """Spec: B5"""
    before = store.types.by_code(), acts(url)
    for said in ({"timeout": 0}, {"max_error_count": 1}, {"colour": "red"}):
        with pytest.raises(Invalid):
            change(store, **said)
    assert (store.types.by_code(), acts(url)) == before


@pytest.mark.parametrize("code", ["plain", "fresh"])
def test_edits_at_once_lose_none_of_each_other(store, url, clock, code):
    """Spec: B5"""
    words = [{"timeout": 1}, {"need_manual": True}, {"priority": 1}, {"category": "x"}]
    with open_store(url, clock) as other:
        stores = (store, other) * 2
        answers = together(
            *[lambda s=s, said=said: change(s, code, **said) for s, said in zip(stores, words, strict=True)]
        )
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    kind = store.types.by_code()[code]
    assert (kind.timeout_seconds, kind.need_manual, kind.priority, kind.category) == (60.0, True, 1, "x")


def test_types_are_listed_with_who_said_what_holds(store):
    """Spec: B5"""
    store.types.put(TaskType("scan", declared_by="shop:scan"))
    change(store)
    change(store, "plain", timeout=1)
    kept = {each.kind.code: each for each in store.types.all()}
    assert list(kept) == sorted(kept)
    assert (kept["scan"].edited, kept["scan"].kind.declared_by) == (False, "shop:scan")
    assert (kept["plain"].edited, store.types.get("plain")) == (True, kept["plain"])
    change(store, "scan", timeout=1)
    assert store.types.get("scan").kind.declared_by == "shop:scan"
    with pytest.raises(NotFound, match="no task type nothing"):
        store.types.get("nothing")


@pytest.mark.parametrize("seconds", [31, 62, 1.9, 0.06, 1e6 + 0.1])
def test_a_timeout_is_the_same_after_it_was_kept_in_minutes(store, url, seconds):
    """Spec: B5"""
    kind = TaskType("scan", timeout_seconds=seconds)
    store.types.put(kind)
    assert store.types.by_code()["scan"] == kind
    told = len(acts(url))
    change(store, "scan", timeout=seconds / 60)
    [(_, detail)] = acts(url)[told:]
    assert detail["changes"] == {}


# At once, for what waits


def test_a_retry_policy_holds_at_once_for_what_runs_and_waits(store):
    """Spec: B5"""
    at_work = running(store)
    change(store, retry_strategy="fixed_period", retry_interval=5, max_error_count=1, need_manual=True)
    assert store.types.recent("plain").retry == fixed(5, retries=1)
    assert settle(store, at_work, Raised("no")) is S.DEAD


def test_a_timeout_holds_at_once_for_what_waits_and_not_for_what_runs(store, clock):
    """Spec: B5, B2"""
    at_work, waits = running(store), submit(store)
    change(store, timeout=1)
    [execution] = start(store)
    assert execution.id == waits.id
    assert (execution.executing_deadline - clock()).total_seconds() == 60
    assert store.tasks.get(at_work.id).executing_deadline == at_work.executing_deadline


def test_resources_hold_at_once_for_what_waits(store):
    """Spec: B5, A11"""
    store.resources.set("press", 1)
    first, second = submit(store), submit(store)
    change(store, uses=["press"])
    assert [execution.id for execution in start(store, 9)] == [first.id]
    [shut] = [gate for gate in store.tasks.why(second.id) if not gate.open]
    assert (shut.name, "press" in shut.reason, shut.holders) == ("resource", True, (first.id,))


def test_lane_category_priority_and_keys_hold_for_new_tasks_and_stay_for_those_that_wait(store):
    """Spec: B5"""
    before = submit(store)
    change(store, lane="fast", category="x", priority=1, mutex="m", rate_key="r", unique_key="u")
    assert store.tasks.get(before.id) == before
    after = submit(store)
    assert (after.lane, after.category, after.priority, after.mutex) == ("fast", "x", 1, "m")
    assert (after.rate_key, after.unique_key) == ("r", "u")


# Foreseen


def test_a_rehearsal_counts_the_tasks_of_the_type_that_have_not_ended(store, clock):
    """Spec: B5"""
    put(store, S.SUCCEEDED)
    running(store)
    submit(store, "manual")
    for delay in (0, 0, 60):
        submit(store, delay_seconds=delay)
    submit(store, rate_key="another stream")
    before = store.types.by_code()["plain"]
    rehearsal = store.types.preview(before, replace(before, timeout_seconds=60.0, lane="fast"))
    assert rehearsal.foreseen.states == {S.RUNNING: 1, S.QUEUED: 3, S.PENDING: 1}
    assert (rehearsal.foreseen.retimed, rehearsal.foreseen.stay) == (5, 5)
    assert (rehearsal.as_of, rehearsal.exact) == (clock(), True)
    assert store.types.by_code()["plain"] == before


@pytest.mark.parametrize("state", sorted(set(S) - FINAL))
def test_no_state_that_has_not_ended_is_left_out_of_a_rehearsal(store, state):
    """Spec: B5"""
    task = put(store, state)
    kind = store.types.by_code()[task.type]
    assert store.types.preview(kind, kind).foreseen.states[state] >= 1


def test_a_rehearsal_names_those_whose_next_failure_would_be_their_last(store):
    """Spec: B5"""
    change(store, retry_strategy="fixed_period", retry_interval=5, max_error_count=3)
    execution = running(store)
    settle(store, execution, Raised("again", 60.0))
    fresh = submit(store, delay_seconds=60)
    own = submit(store, delay_seconds=60, max_error_count=5)
    before = store.types.by_code()["plain"]
    foreseen = store.types.preview(before, replace(before, retry=fixed(5, retries=1))).foreseen
    assert foreseen.given_up == (execution.id,)
    foreseen = store.types.preview(before, edited(before, {"retry_strategy": "none", "max_error_count": 0})).foreseen
    assert foreseen.given_up == (execution.id, fresh.id)
    assert own.id not in foreseen.given_up


def test_a_rehearsal_looks_at_no_more_than_it_may_and_says_so(store, monkeypatch):
    """Spec: B5, X4"""
    monkeypatch.setattr("headgate.store.catalog.types.LOOKED_AT", 3)
    store.tasks.submit_many([NewTask("plain", delay_seconds=60)] * 3)
    before = store.types.by_code()["plain"]
    assert store.types.preview(before, before).exact
    store.tasks.submit_many([NewTask("plain", delay_seconds=60)] * 2)
    rehearsal = store.types.preview(before, before)
    assert (rehearsal.exact, rehearsal.foreseen.states) == (False, {S.PENDING: 3})


def test_a_rehearsal_fetches_no_more_than_it_may_look_at(store, monkeypatch):
    """Spec: B5, X4. Of what runs, what is queued and what waits, one after the other."""
    monkeypatch.setattr("headgate.store.catalog.types.LOOKED_AT", 3)
    for _ in range(2):
        running(store)
    store.tasks.submit_many([NewTask("plain")] * 4 + [NewTask("plain", delay_seconds=60)] * 4)
    kind, fetched = store.types.by_code()["plain"], []

    class Counting:
        def __init__(self, db):
            self.db = db

        def rows(self, statement, **parameters):
            rows = self.db.rows(statement, **parameters)
            if statement in (kinds.HELD, kinds.QUEUED, kinds.STOPPED):
                fetched.append(len(rows))
            return rows

    rehearsal = store.database.read(lambda db: kinds.preview(cast(Db, Counting(db)), kind, kind))
    assert fetched == [2, 2, 0]
    assert (rehearsal.exact, rehearsal.foreseen.states) == (False, {S.RUNNING: 2, S.QUEUED: 1})


def test_a_type_that_is_not_there_yet_can_be_foreseen(store):
    """Spec: B5"""
    rehearsal = store.types.preview(None, TaskType("fresh"))
    assert (rehearsal.foreseen.states, rehearsal.exact) == ({}, True)
