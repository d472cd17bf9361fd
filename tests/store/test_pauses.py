"""Pauses hold what they name, from the moment they are set to their end, over all processes."""

import json
from datetime import timedelta
from typing import Any

import pytest

from headgate.core.errors import Invalid
from headgate.core.machine import Returned
from headgate.core.pause import PauseScope
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.store.claim.contract import ClaimRequest, HeldBack
from headgate.store.events.acts import ActFilter
from headgate.store.store import open_store
from tests.factories import START, running, settle, start, submit

SCOPES = [("all", ""), ("lane", "x"), ("type", "plain"), ("tenant", "3"), ("key", "k")]
OTHER: dict[str, Any] = {"type_code": "manual", "lane": "y", "tenant_id": 4, "rate_key": "l"}
scopes = pytest.mark.parametrize(("scope", "name"), [(PauseScope(scope), name) for scope, name in SCOPES])


def a_task(store, **fields):
    return submit(store, lane="x", tenant_id=3, rate_key="k", **fields)


def ids_of(executions):
    return [execution.id for execution in executions]


@scopes
def test_a_pause_holds_what_it_names_and_nothing_else_in_every_process_at_once(store, url, clock, scope, name):
    """Spec: A9, C4"""
    execution = running(store, lane="x", tenant_id=3, rate_key="k")
    waiting, elsewhere = a_task(store), submit(store, **OTHER)
    with open_store(url, clock) as other:
        start(other, types=frozenset())
        assert store.pauses.set(scope, name)
        assert not store.pauses.set(scope, name)
        assert ids_of(start(other, 9)) == ([] if scope is PauseScope.ALL else [elsewhere.id])
        assert settle(store, execution, Returned()) is State.SUCCEEDED
        assert store.pauses.end(scope, name)
        assert not store.pauses.end(scope, name)
        assert waiting.id in ids_of(start(other, 9))


@scopes
def test_a_pause_ends_by_itself_without_a_write(store, url, clock, scope, name):
    """Spec: A9"""
    waiting = a_task(store)
    with open_store(url, clock) as other:
        worker_id = other.workers.register("w", lease_seconds=10**6)
        store.pauses.set(scope, name, until=START + timedelta(hours=2))
        before = store.catalog.version, store.events.last()
        for passed in (0, 3600, 3599):
            clock.advance(passed)
            claimed = other.claims.take(ClaimRequest(worker_id, 9))
            assert claimed.executions == []
            assert claimed.token_in is not None
        clock.advance(1)
        assert ids_of(other.claims.take(ClaimRequest(worker_id, 9)).executions) == [waiting.id]
    assert (store.catalog.version, store.pauses.active()) == (before[0], [])


def test_a_pause_with_an_end_says_when_to_ask_again(store, clock):
    """Spec: A9"""
    a_task(store)
    store.pauses.set(PauseScope.LANE, "x", until=START + timedelta(seconds=3))
    claimed = store.claims.take(ClaimRequest(store.workers.register("w"), 1))
    assert claimed.token_in == pytest.approx(3.0)
    assert not claimed.busy


@scopes
def test_of_many_that_wait_only_the_paused_stay(store, scope, name):
    """Spec: A9"""
    paused = [a_task(store).id for _ in range(30)]
    free = [submit(store, **OTHER).id for _ in range(3)]
    store.pauses.set(scope, name, until=START + timedelta(hours=1))
    claimed = store.claims.take(ClaimRequest(store.workers.register("w"), 50))
    assert (ids_of(claimed.executions), claimed.busy) == ([] if scope is PauseScope.ALL else free, False)
    store.pauses.end(scope, name)
    assert set(ids_of(start(store, 50))) >= set(paused[:20])


@scopes
@pytest.mark.parametrize("until", [None, START + timedelta(seconds=60)], ids=["no end", "an end"])
def test_what_was_handed_over_before_a_pause_is_held_back(store, clock, scope, name, until):
    """Spec: A9, E1"""
    task = a_task(store)
    [handed] = start(store, confirm=True)
    store.pauses.set(scope, name, until=until)
    held_back = store.executions.start(task.id, handed.exec_id)
    assert isinstance(held_back, HeldBack)
    assert "is paused" in held_back.reason
    assert store.tasks.get(task.id).status is State.QUEUED
    clock.advance(60)
    if until is None:
        store.pauses.end(scope, name)
    [again] = start(store, confirm=True)
    assert isinstance(store.executions.start(task.id, again.exec_id), Execution)


def test_a_pause_that_ended_before_the_start_holds_nothing_back(store, clock):
    """Spec: A9, E1"""
    task = a_task(store)
    [handed] = start(store, confirm=True)
    store.pauses.set(PauseScope.TYPE, "plain", until=START + timedelta(seconds=5))
    clock.advance(5)
    assert isinstance(store.executions.start(task.id, handed.exec_id), Execution)


LATER = START + timedelta(hours=1)
GIVEN: list[dict[str, Any]] = [{}, {"reason": "moving"}, {"until": LATER}, {"reason": "still moving", "until": LATER}]


@pytest.mark.parametrize("second", GIVEN)
@pytest.mark.parametrize("first", GIVEN)
def test_pausing_again_replaces_the_reason_and_the_end_of_the_pause(store, first, second):
    """Spec: A9"""
    assert store.pauses.set(PauseScope.LANE, "x", actor="ann", **first)
    assert store.pauses.set(PauseScope.LANE, "x", actor="bob", **second) is (first != second)
    [pause] = store.pauses.active()
    assert (pause.reason, pause.until) == (second.get("reason", ""), second.get("until"))
    assert pause.actor == ("ann" if first == second else "bob")


def test_pausing_again_is_on_record_with_the_old_values_and_the_new(store):
    """Spec: A12"""
    store.lanes.pause("x", reason="moving", until=LATER)
    store.lanes.pause("x", reason="moving")
    store.lanes.pause("x", reason="done moving", until=LATER)
    again, endless, first = store.acts.find(ActFilter(kind="paused", object="lane:x")).items
    assert first.changes == {}
    assert endless.changes == {"until": {"old": LATER.isoformat(), "new": None}}
    assert again.changes == {
        "reason": {"old": "moving", "new": "done moving"}, "until": {"old": None, "new": LATER.isoformat()},
    }  # fmt: skip


def test_pausing_everything_is_an_act_upon_everything_and_not_upon_a_lane(store):
    """Spec: A12"""
    store.lanes.pause()
    store.lanes.resume()
    assert [act.kind for act in store.acts.find(ActFilter(object="everything")).items] == ["resumed", "paused"]
    assert store.acts.find(ActFilter(object="lane")).items == []


@scopes
def test_a_pause_and_its_end_are_on_record(store, scope, name):
    """Spec: A12"""
    before, until = store.events.last(), START + timedelta(hours=1)
    store.pauses.set(scope, name, reason="moving", until=until, actor="ann")
    store.pauses.end(scope, name, actor="bob")
    paused, resumed = store.events.after(before)[0]
    what = {"everything": True} if scope is PauseScope.ALL else {scope.value: name}
    assert (paused.kind, paused.actor) == ("paused", "ann")
    assert json.loads(paused.detail) == what | {"reason": "moving", "until": until.isoformat()}
    assert (resumed.kind, resumed.actor, json.loads(resumed.detail)) == ("resumed", "bob", what)


@pytest.mark.parametrize(
    ("scope", "name"), [("all", "x"), ("lane", ""), ("lane", "*"), ("type", ""), ("tenant", "x"), ("tenant", "1.5"),
                        ("tenant", "007"), ("key", "")],
)  # fmt: skip
def test_a_pause_of_nothing_is_refused(store, scope, name):
    """Spec: A9"""
    with pytest.raises(Invalid):
        store.pauses.set(PauseScope(scope), name)
    assert store.pauses.active() == []


def test_a_pause_ends_in_the_future(store):
    """Spec: A9"""
    with pytest.raises(Invalid, match="in the future"):
        store.pauses.set(PauseScope.ALL, "", until=START)
