"""`/api/compensation`, and what agents see of start queues and of starts that were not confirmed in time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.api.live import polls
from headgate.core.keys import Role
from headgate.core.states import State
from headgate.settings import Settings
from headgate.store.store import Store, open_store
from tests.api.conftest import HERE, Client
from tests.api.test_metrics import scraped
from tests.factories import START, TYPES, Clock, kinds, submit

PATIENCE = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    with open_store(url, clock) as opened:
        for kind in TYPES:
            opened.types.put(kind)
        yield opened


def post(client: Client, path: str, body: Any = None, expect: int = 200) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == expect, answer.text
    return answer.json()


def claim(client: Client, agent: str = "rig", **wanted: Any) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = post(client, f"/api/agents/{agent}/claim", {"limit": 9} | wanted)["tasks"]
    return tasks


def test_the_status_says_how_the_polling_stands(store, client, clock):
    """Spec: E4, E5"""
    fresh = client.get("/api/compensation").json()
    assert fresh == {
        "interval_seconds": 10, "multiplier": 1, "queue_size": 0, "skips": 0, "last_poll": None, "next_poll": None,
        "next_poll_in_seconds": None, "threshold_seconds": 30, "start_interval_seconds": 5,
    }  # fmt: skip
    store.compensation.begin()
    clock.advance(10)
    store.compensation.poll(Settings().compensation)
    clock.advance(5)
    submit(store, agent_id="rig")
    known = client.get("/api/compensation").json()
    assert (known["interval_seconds"], known["multiplier"], known["queue_size"]) == (20, 2, 1)
    assert datetime.fromisoformat(known["last_poll"]) == START + timedelta(seconds=10)
    assert datetime.fromisoformat(known["next_poll"]) == START + timedelta(seconds=30)
    assert known["next_poll_in_seconds"] == 15


def test_a_trigger_has_polled_when_it_answers_and_goes_on_from_the_base(store, client, clock):
    """Spec: E4"""
    lost = submit(store, agent_id="rig")
    submit(store, agent_id="rig")
    [task] = claim(client)
    clock.advance(31)
    told = post(client, "/api/compensation/trigger")
    assert (told["found"], told["interval_seconds"], told["multiplier"], told["queue_size"]) == (1, 10, 1, 2)
    assert datetime.fromisoformat(told["last_poll"]) == clock()
    assert kinds(store, lost.id) == ["submitted", "scheduled", "compensated"]
    assert post(client, "/api/compensation/trigger")["found"] == 0
    late = post(client, f"/api/agents/rig/tasks/{lost.id}/start", {"exec_id": task["exec_id"]}, expect=409)
    assert late["detail"].endswith("(queued): its start was not confirmed in time")
    assert store.tasks.get(lost.id).status is State.QUEUED


def test_a_tenant_sees_the_size_of_its_own_start_queues_and_may_not_trigger(store, client):
    """Spec: B11, E4"""
    for tenant_id in (1, 2, 2):
        submit(store, agent_id="rig", tenant_id=tenant_id)
    _, ours = store.keys.add("ours", role=Role.ADMIN, tenant_id=1)
    _, all_of_us = store.keys.add("all", role=Role.OPERATOR)
    ask = {"Authorization": f"Bearer {ours}"}
    assert client.get("/api/compensation", headers=ask).json()["queue_size"] == 1
    assert client.post("/api/compensation/trigger", headers=ask).status_code == 403
    ask = {"Authorization": f"Bearer {all_of_us}"}
    assert client.get("/api/compensation", headers=ask).json()["queue_size"] == 3
    assert client.post("/api/compensation/trigger", headers=ask).status_code == 200


def test_an_agent_is_handed_one_assigned_task_in_five_seconds_and_why_says_what_the_next_waits_for(
    store, client, clock
):
    """Spec: E1, E3, X3"""
    first, second = submit(store, agent_id="rig"), submit(store, agent_id="rig")
    free = submit(store)
    assert [(task["id"], task["status"]) for task in claim(client)] == [(first.id, "scheduling"), (free.id, "running")]
    assert claim(client) == []
    gates = client.get(f"/api/tasks/{second.id}/why").json()["gates"]
    [start] = [gate for gate in gates if gate["name"] == "start"]
    assert (start["open"], start["reason"]) == (False, "agent rig: one start every 5 s")
    assert datetime.fromisoformat(start["until"]) == START + timedelta(seconds=5)
    clock.advance(5)
    assert [task["id"] for task in claim(client)] == [second.id]


def test_the_start_interval_is_the_servers_setting(store, url, clock):
    """Spec: E3, E5"""
    ids = [submit(store, agent_id="rig").id for _ in range(3)]
    with TestClient(create_app(store, Settings(url=url, compensation_start_interval=60)), base_url=HERE) as client:
        assert [task["id"] for task in claim(client)] == ids[:1]
        clock.advance(59)
        assert claim(client) == []
        clock.advance(1)
        assert [task["id"] for task in claim(client)] == ids[1:2]


def test_an_agent_that_waits_gets_the_next_task_when_its_start_queue_lets_it_out(url, monkeypatch):
    """Spec: E3"""
    monkeypatch.setattr(polls, "SAFETY_SECONDS", 3600.0)  # nobody else tells that the time has come
    settings = Settings(url=url, compensation_start_interval=0.3)
    with open_store(url) as store, TestClient(create_app(store, settings), base_url=HERE) as client:
        store.types.put(TYPES[0])
        ids = [submit(store, agent_id="rig").id for _ in range(3)]
        got = [claim(client, wait_seconds=PATIENCE)[0]["id"] for _ in ids]
        starts = [store.tasks.get(task_id).scheduling_time or START for task_id in got]
    assert got == ids
    assert all(after - before >= timedelta(seconds=0.3) for before, after in pairwise(starts))


def test_an_agent_that_waits_gets_a_compensated_task_at_once(url):
    """Spec: E2"""
    settings = Settings(url=url, compensation_threshold=0.001, compensation_start_interval=0.001)
    with open_store(url) as store, TestClient(create_app(store, settings), base_url=HERE) as client:
        store.types.put(TYPES[0])
        task = submit(store, agent_id="rig")
        [lost] = claim(client)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(claim, client, wait_seconds=PATIENCE)
            found = 0
            while not found:
                found = post(client, "/api/compensation/trigger")["found"]
            [again] = waiting.result(PATIENCE)
        assert (again["id"], again["attempt"], again["exec_id"] == lost["exec_id"]) == (task.id, 2, False)


def test_metrics_tell_how_the_polling_stands_and_count_what_it_found(store, client, clock):
    """Spec: E4, D11"""
    before = scraped(client)
    assert before["headgate_compensation_interval_seconds",] == 10
    assert ("headgate_compensation_last_poll_timestamp_seconds",) not in before
    submit(store, agent_id="rig")
    submit(store, agent_id="rig")
    claim(client)
    clock.advance(31)
    post(client, "/api/compensation/trigger")
    found = scraped(client)
    assert found["headgate_compensation_queue_size",] == 2
    assert found["headgate_compensation_multiplier",] == 1
    assert found["headgate_compensation_skips",] == 0
    assert found["headgate_compensation_last_poll_timestamp_seconds",] == clock().timestamp()
    assert found["headgate_compensation_next_poll_timestamp_seconds",] == clock().timestamp() + 10
    assert found["tasks_compensated_total", ("taskType", "plain")] == 1
