"""Forecasts over HTTP: in `why`, and for each lane."""

from datetime import datetime

import pytest

from headgate.core.machine import Returned
from tests.factories import running, settle, start, submit, worker


@pytest.fixture
def measured(store):
    """A store in which a task has finished, and one runs in a lane of one."""
    worker(store)
    settle(store, running(store), Returned())
    store.statistics.take_sample()
    store.lanes.set_capacity("default", 1)
    running(store)
    return store


def forecast(client, task_id):
    return client.get(f"/api/tasks/{task_id}/why").json().get("forecast")


def test_why_says_when_a_task_will_likely_start(client, measured):
    """Spec: X3"""
    submit(measured)
    told = forecast(client, submit(measured).id)
    assert set(told) == {"at", "in_seconds", "reason", "code", "params", "ahead"}
    assert told["in_seconds"] >= 0
    assert told["ahead"] == 1
    assert told["reason"].startswith("lane default: 1 ahead, 1 at a time")
    assert told["code"] == "slots-ahead"
    assert {"limit": "lane", "name": "default", "ahead": 1, "slots": 1}.items() <= told["params"].items()
    assert datetime.fromisoformat(told["at"]).tzinfo is not None


def test_where_nobody_can_say_the_reason_is_told_without_a_number(client, measured):
    """Spec: X3"""
    task = submit(measured)
    measured.lanes.pause("default")
    told = {
        "at": None, "in_seconds": None, "reason": "lane default is paused", "code": "paused",
        "params": {"scope": "lane", "name": "default", "reason": None, "actor": None}, "ahead": 0,
    }  # fmt: skip
    assert forecast(client, task.id) == told
    [lane] = [lane for lane in client.get("/api/lanes").json()["items"] if lane["name"] == "default"]
    assert lane["drained"] == told


def test_what_has_started_has_no_forecast(client, store):
    """Spec: X3"""
    execution = running(store)
    assert "forecast" not in client.get(f"/api/tasks/{execution.id}/why").json()


def test_a_lane_says_when_it_is_drained(client, measured):
    """Spec: X3"""
    task = submit(measured)
    measured.lanes.set_capacity("idle", 1)
    lanes = {lane["name"]: lane for lane in client.get("/api/lanes").json()["items"]}
    assert lanes["default"]["drained"]["in_seconds"] >= forecast(client, task.id)["in_seconds"]
    assert lanes["idle"]["drained"] is None
    assert client.put("/api/lanes/idle", json={"capacity": 2}).json()["drained"] is None


def test_what_others_run_is_in_a_tenants_forecast_as_a_number_only(client, measured):
    """Spec: X3, B11"""
    for _ in range(3):
        submit(measured, tenant_id=7, name="CANARY")
    task = submit(measured, tenant_id=8)
    answer = client.get(f"/api/tasks/{task.id}/why")
    assert answer.json()["forecast"]["ahead"] == 1  # their turn, then ours
    assert "CANARY" not in answer.text


def test_a_worker_says_how_many_it_runs_at_once(client, store):
    """Spec: A8, X3"""
    store.workers.register(
        "w", detail='{"pools": [{"types": ["plain"], "slots": 8}, {"types": ["manual"], "slots": 2}]}'
    )
    start(store)
    assert [each["slots"] for each in client.get("/api/workers").json()["items"]] == [10, None]
