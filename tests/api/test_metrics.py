"""Metrics: true whoever did the work, and silent about tenants."""

import json
from collections import Counter
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.callbacks import Attempt, CallbackKind, Delivery
from headgate.core.machine import Raised, Returned
from headgate.core.pause import PauseScope
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.core.usage import Usage
from headgate.settings import Settings
from headgate.store.callbacks.deliveries import DeliveryOutcome as Delivered
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from tests.factories import running, settle, sql, start, submit, together


def scraped(client):
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return samples(answer)


def samples(answer):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
def elsewhere(url):
    """The store as another process has it."""
    with open_store(url) as opened:
        yield opened


def test_what_other_processes_do_is_counted_by_type_and_outcome(client, store, elsewhere):
    """Spec: D11"""
    scraped(client)
    settle(elsewhere, running(elsewhere), Returned())
    settle(elsewhere, running(elsewhere, "manual"), Raised("no", 60.0))
    settle(elsewhere, running(elsewhere, "manual"), Raised("no", None))
    submit(elsewhere)
    found = scraped(client)
    assert found["tasks_submitted_total", ("taskType", "plain")] == 2
    assert found["tasks_submitted_total", ("taskType", "manual")] == 2
    assert found["tasks_retries_total", ("taskType", "manual")] == 1
    assert found["tasks_dlq_entered_total", ("taskType", "manual")] == 1
    counted = {key[1:]: value for key, value in found.items() if key[0] == "tasks_execution_seconds_count"}
    assert counted == {
        (("status", "COMPLETED"), ("taskType", "plain")): 1,
        (("status", "RETRYING"), ("taskType", "manual")): 1,
        (("status", "DEAD_LETTER"), ("taskType", "manual")): 1,
    }
    assert found["tasks_events_published_total", ("eventType", "submitted")] == 4
    assert found["tasks_state_db_updates_total", ("operation", "create")] == 4
    assert found["tasks_state_db_updates_total", ("operation", "updateStatus")] == 6


@pytest.fixture
def other_client(elsewhere, url):
    """Another server over the same store."""
    with TestClient(create_app(elsewhere, Settings(url=url)), base_url="http://127.0.0.1") as client:
        yield client


def totals(*clients):
    """What the counters and histograms of several servers add up to; what each server counts of itself is left out."""
    found: Counter[tuple[Any, ...]] = Counter()
    for client in clients:
        found.update({key: value for key, value in scraped(client).items() if key[0].startswith("tasks_")})
    return {key: value for key, value in found.items() if not key[0].endswith(("_created", "_sum"))}


def test_counters_of_several_servers_add_up(client, other_client, store, elsewhere):
    """Spec: D11"""
    both = [client, other_client]
    for number in range(6):
        settle(store, running(store), Returned())
        scraped(both[number % 2])
    settle(store, running(store), Raised("no", None))
    found = totals(*both)
    assert found["tasks_submitted_total", ("taskType", "plain")] == 7
    assert found["tasks_execution_seconds_count", ("status", "COMPLETED"), ("taskType", "plain")] == 6
    assert found["tasks_execution_seconds_count", ("status", "FAILED"), ("taskType", "plain")] == 1
    assert found["tasks_events_published_total", ("eventType", "started")] == 7
    assert totals(*both) == found


def test_servers_that_are_asked_at_once_count_each_event_once(client, other_client, store):
    """Spec: D11"""
    for _ in range(20):
        submit(store)
        assert all(isinstance(each, dict) for each in together(lambda: scraped(client), lambda: scraped(other_client)))
    assert totals(client, other_client)["tasks_submitted_total", ("taskType", "plain")] == 20


def test_a_server_that_is_never_asked_takes_nothing_from_the_others(client, other_client, store):
    """Spec: D11"""
    submit(store)
    assert scraped(client)["tasks_submitted_total", ("taskType", "plain")] == 1


def test_what_happens_while_no_server_runs_is_counted_by_the_next(store, url):
    """Spec: D11"""
    for number in range(2):
        with TestClient(create_app(store, Settings(url=url)), base_url="http://127.0.0.1") as client:
            assert scraped(client).get(("tasks_submitted_total", ("taskType", "plain")), 0) == number
        submit(store)


def test_an_execution_that_one_server_saw_start_and_another_end_is_timed(client, other_client, store):
    """Spec: D11"""
    execution = running(store)
    scraped(client)
    settle(store, execution, Returned())
    found = scraped(other_client)
    assert found["tasks_execution_seconds_count", ("status", "COMPLETED"), ("taskType", "plain")] == 1


def test_a_parent_is_timed_by_its_end(client, store):
    """Spec: D11, D7"""
    parent = running(store)
    store.tasks.submit(NewTask("manual", parent_id=parent.id))
    assert settle(store, parent, Returned()) is State.WAITING
    counted = {key for key in scraped(client) if key[0] == "tasks_execution_seconds_count"}
    assert counted == set()
    [child] = start(store)
    settle(store, child, Returned())
    found = scraped(client)
    task = store.tasks.get(parent.id)
    took = ("status", "COMPLETED"), ("taskType", "plain")
    assert found["tasks_execution_seconds_count", *took] == 1
    assert found["tasks_execution_seconds_sum", *took] == pytest.approx(task.exec_time, abs=1e-5)
    assert task.exec_time == pytest.approx((task.finished_at - task.started_at).total_seconds(), abs=1e-5)


def test_what_tasks_used_is_counted_by_type_each_execution_once(client, store):
    """Spec: A8, D11"""
    first = running(store)
    store.executions.settle([Outcome(first, Raised("again", 0.0), Usage(1.5, 60 * 2**20, 4096, 8192))])
    store.due.bring()
    [second] = start(store)
    store.executions.settle([Outcome(second, Returned(), Usage(0.5, 20 * 2**20, 0, 100))])
    settle(store, running(store), Returned())  # which nobody measured
    threaded = running(store, "manual")
    store.executions.settle([Outcome(threaded, Returned(), Usage(0.25))])
    for _ in range(2):
        found = scraped(client)
        plain = ("taskType", "plain")
        assert found["headgate_task_cpu_seconds_total", plain] == 2.0
        assert found["headgate_task_cpu_seconds_total", ("taskType", "manual")] == 0.25
        assert found["headgate_task_read_bytes_total", plain] == 4096
        assert found["headgate_task_written_bytes_total", plain] == 8292
        assert found["headgate_task_memory_bytes_sum", plain] == 80 * 2**20
        assert found["headgate_task_memory_bytes_bucket", ("le", str(float(2**25))), plain] == 1
        assert ("headgate_task_memory_bytes_sum", ("taskType", "manual")) not in found


def test_what_each_worker_uses_is_told_as_of_its_last_beat(client, store):
    """Spec: A8, D11"""
    worker_id = store.workers.register("laptop-1")
    used = {"cpu_seconds": 1.5, "memory_bytes": 60_000_000, "read_bytes": None, "written_bytes": 8192}
    store.workers.beat(worker_id, detail=json.dumps(used))
    store.workers.register("silent")
    found = scraped(client)
    told = {key[0]: value for key, value in found.items() if ("worker", "laptop-1") in key}
    assert told == {
        "headgate_worker_cpu_seconds_total": 1.5,
        "headgate_worker_memory_bytes": 60_000_000,
        "headgate_worker_written_bytes_total": 8192,
    }
    assert not [key for key in found if ("worker", "silent") in key]


def test_callbacks_are_counted_by_what_became_of_them(client, store, elsewhere, url):
    """Spec: D11, B6"""
    before = scraped(client)
    assert before["headgate_callbacks", ("status", "pending")] == 0
    assert before["headgate_callbacks_oldest_seconds",] == 0
    for _ in range(4):
        settle(elsewhere, running(elsewhere, "called-back"), Returned())
    ends = [
        (Attempt(200, 0.25), Delivery.DELIVERED), (Attempt(410, 0.5), Delivery.UNDELIVERABLE),
        (Attempt(None, 15.0, "away"), Delivery.PENDING),
    ]  # fmt: skip
    leased = elsewhere.deliveries.record_and_lease([], [("called-back", CallbackKind.SUCCESS, 3)], 60.0)
    elsewhere.deliveries.record(
        [Delivered(each, "x", attempt, status) for each, (attempt, status) in zip(leased, ends, strict=True)]
    )
    back = "at - 60000000" if store.database.dialect == "sqlite" else "at - interval '60 s'"
    sql(url, f"UPDATE headgate_callback_attempt SET at = {back}")  # they are counted when they have settled
    found = scraped(client)
    assert found["headgate_callbacks", ("status", "pending")] == 2
    assert found["headgate_callbacks", ("status", "undeliverable")] == 1
    assert 0 < found["headgate_callbacks_oldest_seconds",] < 3600
    outcomes = {key[1]: value for key, value in found.items() if key[0] == "headgate_callback_attempt_seconds_sum"}
    assert outcomes == {("outcome", "delivered"): 0.25, ("outcome", "refused"): 0.5, ("outcome", "unanswered"): 15.0}
    assert scraped(client)["headgate_callback_attempt_seconds_count", ("outcome", "delivered")] == 1


def test_what_was_counted_once_is_not_counted_again(client, elsewhere):
    """Spec: D11"""
    submit(elsewhere)
    for _ in range(3):
        assert scraped(client)["tasks_submitted_total", ("taskType", "plain")] == 1


def test_an_execution_that_began_before_the_counting_is_timed_by_the_store(store, url):
    """Spec: D11"""
    execution = running(store)
    with TestClient(create_app(store, Settings(url=url)), base_url="http://127.0.0.1") as client:
        settle(store, execution, Returned())
        key = ("tasks_execution_seconds_count", ("status", "COMPLETED"), ("taskType", "plain"))
        assert scraped(client)[key] == 1


@pytest.mark.parametrize("packs", ["media"])
def test_lanes_queues_and_workers_are_told(client, store):
    """Spec: D11"""
    for _ in range(3):
        client.post("/api/requests/enqueue", json={"type": "download"})
    worker_id = store.workers.register("tester")
    [execution] = store.claims.take(ClaimRequest(worker_id, 5)).executions
    store.statistics.take_sample()
    client.post("/api/queue/pause?scope=no_cookie")
    found = scraped(client)
    cookie, other = ("lane", "requires_cookie"), ("lane", "no_cookie")
    assert found["headgate_queue_depth", cookie, ("status", "queued")] == 2
    assert found["headgate_queue_depth", cookie, ("status", "running")] == 1
    assert found["headgate_queue_oldest_seconds", cookie, ("status", "queued")] >= 0
    assert [found[f"headgate_lane_{name}", cookie] for name in ("capacity", "running", "room")] == [1, 1, 0]
    assert [found[f"headgate_lane_{name}", other] for name in ("capacity", "running", "room")] == [2, 0, 2]
    assert (found["headgate_lane_paused", other], found["headgate_paused",]) == (1, 0)
    assert found["headgate_workers_alive", ("kind", "worker")] == 1
    store.executions.settle([Outcome(execution, Returned())])
    assert scraped(client)["headgate_lane_room", cookie] == 1


def test_requests_are_counted_by_route_and_not_by_what_was_asked_for(client):
    """Spec: D11"""
    for number in range(3):
        client.get(f"/api/tasks/{number + 1000}")
        client.get(f"/no/such/page/{number}")
    found = scraped(client)
    about = (("method", "GET"), ("route", "/api/tasks/{task_id}"), ("status", "404"))
    assert found["headgate_http_requests_total", *about] == 3
    assert found["headgate_http_request_seconds_count", *about[:2]] == 3
    assert not [key for key in found if "/no/such/page" in str(key)]


def test_no_tenant_and_no_rate_key_is_named(client, store):
    """Spec: B11"""
    store.tasks.submit(NewTask("plain", tenant_id=4711, rate_key="acme"))
    text = client.get("/metrics").text
    assert "tenant" not in text
    store.pauses.set(PauseScope.TENANT, "4711")
    store.pauses.set(PauseScope.KEY, "acme")
    for told in (text, client.get("/metrics").text):
        assert "4711" not in told
        assert "acme" not in told


def test_pauses_are_told_by_what_they_hold(client, store):
    """Spec: A9, A8"""
    pauses = [("all", ""), ("lane", "default"), ("type", "plain"), ("key", "a"), ("key", "b"), ("tenant", "7")]
    for scope, name in pauses:
        store.pauses.set(PauseScope(scope), name)
    told = [line for line in client.get("/metrics").text.splitlines() if line.startswith("headgate_pauses{")]
    assert sorted(told) == [
        'headgate_pauses{name="",scope="all"} 1.0',
        'headgate_pauses{name="",scope="key"} 2.0',
        'headgate_pauses{name="",scope="tenant"} 1.0',
        'headgate_pauses{name="default",scope="lane"} 1.0',
        'headgate_pauses{name="plain",scope="type"} 1.0',
    ]
