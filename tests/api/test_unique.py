"""Unique, debounced and snoozed tasks over HTTP."""

from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from tests.factories import kinds, put, running, settle, start, submit


def made(client, **fields):
    answer = client.post("/api/tasks", json={"type": "plain", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_unique_by_arguments_gives_the_open_task_that_says_the_same(client):
    """Spec: X2"""
    first = made(client, ext={"a": 1, "b": 2}, unique="arguments")
    assert first["created"]
    assert first["unique_key"].startswith("arguments:")
    again = made(client, ext={"b": 2.0, "a": 1}, unique="arguments")
    assert (again["id"], again["created"]) == (first["id"], False)
    assert made(client, ext={"a": 2}, unique="arguments")["created"]


def test_a_period_outlives_the_task(client, store):
    """Spec: X2"""
    first = made(client, unique_key="k", unique_seconds=3600)
    settle(store, start(store)[0], Returned())
    again = made(client, unique_key="k", unique_seconds=3600)
    assert (again["id"], again["created"], again["status"]) == (first["id"], False, "succeeded")
    bulk = client.post("/api/tasks/bulk", json={"tasks": [{"type": "plain", "unique_key": "k", "unique_seconds": 60}]})
    assert [task["id"] for task in bulk.json()["tasks"]] == [first["id"]]


def test_a_debounced_task_is_pushed_out_and_takes_what_was_said_last(client, store):
    """Spec: X2"""
    said = {"unique_key": "k", "debounce_seconds": 60, "debounce_longest_seconds": 600}
    first = made(client, ext={"text": "a"}, **said)
    again = made(client, ext={"text": "b"}, **said)
    assert (again["id"], again["created"], again["ext"]) == (first["id"], False, {"text": "b"})
    assert again["start_time"] > first["start_time"]
    kept = made(client, ext={"text": "c"}, debounce_replace=False, **said)
    assert kept["ext"] == {"text": "b"}
    assert kinds(store, first["id"]) == ["submitted", "debounced", "debounced"]


@pytest.mark.parametrize(
    "fields",
    [
        {"unique": "everything"},
        {"unique": "arguments", "unique_key": "k"},
        {"unique_seconds": 5},
        {"debounce_seconds": 5},
        {"unique_key": "k", "debounce_seconds": 0},
        {"unique_key": "k", "unique_seconds": 1e300},
        {"unique_key": "k", "debounce_seconds": 5, "debounce_longest_seconds": 1},
        {"unique_key": "k", "debounce_seconds": 5, "delay_seconds": 1},
    ],
)
def test_what_cannot_be_meant_is_refused_and_makes_nothing(client, store, fields):
    """Spec: X2"""
    assert client.post("/api/tasks", json={"type": "plain", **fields}).status_code == 422
    assert store.tasks.find().items == []


@pytest.mark.parametrize("state", [State.PENDING, State.QUEUED, State.BLOCKED, State.RETRYING, State.PAUSED])
def test_a_task_that_has_not_started_is_snoozed(client, store, state):
    """Spec: X2"""
    task = put(store, state)
    answer = client.post(f"/api/tasks/{task.id}/reschedule", json={"delay_seconds": 86400})
    assert answer.status_code == 200
    after = {State.QUEUED: "pending", State.BLOCKED: "pending"}.get(state, state.value)
    assert answer.json()["status"] == after
    ahead = datetime.fromisoformat(answer.json()["start_time"]) - datetime.now(UTC)
    assert timedelta(hours=23) < ahead <= timedelta(days=1)
    assert store.events.of(task.id)[-1].kind == "rescheduled"


def test_a_task_starts_at_the_time_it_is_given_and_in_line_if_that_has_come(client, store):
    """Spec: X2"""
    task = submit(store)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert client.post(f"/api/tasks/{task.id}/reschedule", json={"start_time": tomorrow}).json()["status"] == "pending"
    assert start(store) == []
    client.post(f"/api/tasks/{task.id}/reschedule", json={"delay_seconds": 0})
    store.due.bring()
    assert [execution.id for execution in start(store)] == [task.id]


def test_a_task_that_runs_is_not_snoozed(client, store):
    """Spec: X2"""
    execution = running(store)
    answer = client.post(f"/api/tasks/{execution.id}/reschedule", json={"delay_seconds": 60})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:headgate:problem:refused")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"delay_seconds": -1},
        {"start_time": "2030-01-01T00:00:00"},
        {"delay_seconds": 1, "start_time": "2030-01-01T00:00:00Z"},
    ],
    ids=str,
)
def test_a_time_that_is_none_is_refused(client, store, body):
    """Spec: X2"""
    task = submit(store)
    assert client.post(f"/api/tasks/{task.id}/reschedule", json=body).status_code == 422


def test_many_are_snoozed_at_once(client, store):
    """Spec: X2"""
    ids = [submit(store).id for _ in range(2)] + [running(store, "manual").id]
    body = {"action": "reschedule", "ids": ids, "delay_seconds": 60}
    foreseen = client.post("/api/tasks/actions", json=body | {"dry_run": True}).json()["items"]
    assert [bool(item["problem"]) for item in foreseen] == [False, False, True]
    items = client.post("/api/tasks/actions", json=body).json()["items"]
    assert [item["status"] for item in items] == ["pending", "pending", None]
    assert client.post("/api/tasks/actions", json={"action": "reschedule", "ids": ids}).status_code == 422
