"""The queue as a whole: figures, pauses, capacities, and what is there when the server starts."""

import os
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.errors import Invalid
from headgate.core.retry import next_delay
from headgate.core.task import NewTask
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import open_store
from tests.events.inside import serving_here

HERE = "http://127.0.0.1"
MEDIA = find_packs(["media"])


@pytest.fixture
def packs():
    return "media"


def enqueue(client, **fields):
    return client.post("/api/requests/enqueue", json={"type": "parse", **fields}).json()["id"]


def start(store, limit=10):
    return store.claims.take(ClaimRequest(store.workers.register("tester"), limit)).executions


def stats(client):
    answer = client.get("/api/queue/stats")
    assert answer.status_code == 200
    assert client.get("/api/requests/stats").json().keys() == answer.json().keys()
    return answer.json()


def test_the_figures_agree_with_what_is_there(client, store):
    """Spec: C13"""
    for number in range(5):
        enqueue(client, requires_cookie=number < 2)
    enqueue(client, subscription_id=1)
    enqueue(client, subscription_id=1)  # it waits for the other
    store.tasks.submit(NewTask("plain"))
    held = enqueue(client)
    client.post(f"/api/requests/{held}/pause")
    start(store)
    found = stats(client)
    for lane in ("requires_cookie", "no_cookie"):
        for status in ("running", "queued"):
            listed = client.get(f"/api/requests?lane={lane}&status={status}").json()["items"]
            assert found[status][lane] == len(listed), (lane, status)
    assert found["capacity"] == {"default": None, "no_cookie": 2, "requires_cookie": 1}
    assert found["running"] == {"default": 1, "no_cookie": 2, "requires_cookie": 1}
    assert found["queued"] == {"default": 0, "no_cookie": 3, "requires_cookie": 1}
    assert found["counts_by_channel"] == {"queued_cookie": 1, "queued_nocookie": 3}
    assert found["paused"] == {"all": False, "default": False, "no_cookie": False, "requires_cookie": False}


@pytest.mark.parametrize(
    ("scope", "started"),
    [("requires_cookie", {"no_cookie"}), ("no_cookie", {"requires_cookie"}), ("all", set()), (None, set())],
)
def test_what_is_paused_does_not_start_until_it_is_resumed(client, store, scope, started):
    """Spec: A9"""
    for requires_cookie in (True, False):
        enqueue(client, requires_cookie=requires_cookie)
    query = "" if scope is None else f"?scope={scope}"
    paused = client.post(f"/api/queue/pause{query}").json()["paused"]
    assert paused[scope or "all"] is True
    assert {execution.lane for execution in start(store)} == started
    resumed = client.post(f"/api/queue/resume{query}").json()["paused"]
    assert not any(resumed.values())
    assert {execution.lane for execution in start(store)} == {"requires_cookie", "no_cookie"} - started


def test_resuming_everything_resumes_the_queues_lanes_and_leaves_other_lanes_as_they_are(client, store):
    """Spec: C4"""
    store.lanes.pause("default")
    client.post("/api/queue/pause?scope=requires_cookie")
    paused = client.post("/api/queue/resume?scope=all").json()["paused"]
    assert paused == {"all": False, "default": True, "no_cookie": False, "requires_cookie": False}


def test_a_capacity_holds_at_once(client, store):
    """Spec: A9"""
    for _ in range(6):
        enqueue(client)
    assert len(start(store)) == 2
    answer = client.post("/api/queue/capacity?requires_cookie=3&no_cookie=5")
    assert answer.json()["capacity"] == {"default": None, "no_cookie": 5, "requires_cookie": 3}
    assert len(start(store)) == 3
    client.post("/api/queue/capacity?no_cookie=0")
    assert start(store) == []
    assert client.post("/api/queue/capacity?default=7").json()["capacity"]["default"] == 7


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("pause?scope=nowhere", 404),
        ("resume?scope=", 422),
        ("pause?lane=no_cookie", 422),
        ("capacity", 422),
        ("capacity?no_cookie=-1", 422),
        ("capacity?no_cookie=two", 422),
        ("capacity?no_cookie=1&no_cookie=2", 422),
        ("capacity?requires_cookie=3&no_cookie=1000001", 422),
        ("capacity?requires_cookie=3&nowhere=1", 404),
        ("capacity?requires_cookie=3&*=1", 404),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(client, path, status):
    """Spec: C4"""
    before = stats(client)
    assert client.post(f"/api/queue/{path}").status_code == status
    after = stats(client)
    assert (after["capacity"], after["paused"]) == (before["capacity"], before["paused"])


# The lines of the design document, as they stand there; <job_id> is a request's id.
CURL = (
    "curl -s http://localhost:8000/api/queue/stats | jq",
    "curl -s -X POST 'http://localhost:8000/api/queue/pause?scope=requires_cookie'",
    "curl -s -X POST 'http://localhost:8000/api/queue/resume?scope=all'",
    "curl -s -X POST 'http://localhost:8000/api/queue/capacity?requires_cookie=1&no_cookie=2'",
    "curl -s -X POST http://localhost:8000/api/requests/<job_id>/cancel",
    "curl -s -X POST http://localhost:8000/api/requests/<job_id>/prioritize",
)


def test_every_curl_line_of_the_design_works_as_written(url, tmp_path):
    """Spec: C4"""
    with serving_here(url, packs="media") as served:
        port = served.address.rpartition(":")[2]
        (tmp_path / ".curlrc").write_text(f"fail-with-body\nconnect-to = localhost:8000:127.0.0.1:{port}\n")
        environment = os.environ | {"CURL_HOME": str(tmp_path)}
        for line in CURL:
            made = served.ask("POST", "/api/requests/enqueue", {"type": "download"})[1]["id"]
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line.replace("<job_id>", str(made))],
                env=environment, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            assert '"capacity"' in done.stdout or f'"id":{made}' in done.stdout, (line, done.stdout)


EXPECTED = {
    "download": (1950, [60, 120, 240, None]),
    "scan": (300, [30, 30, None]),
    "associate": (120, [10, 10, None]),
    "check": (60, [5, None]),
    "expected_total": (120, [3, 6, 12, None]),
    "parse": (300, [3, 6, 12, None]),
    "list_fetch": (1800, [3, 6, 12, None]),
}


@pytest.mark.parametrize("code", EXPECTED)
def test_the_types_are_there_from_the_start_with_their_limits_and_retries(client, store, code):
    """Spec: A3, C7"""
    timeout, delays = EXPECTED[code]
    kind = store.types.by_code()[code]
    assert kind.timeout_seconds == timeout
    assert [next_delay(kind.retry, errors, 0.5) for errors in range(len(delays))] == delays


def test_a_pause_that_is_set_again_keeps_what_is_left_out(client):
    """Spec: X10"""
    until = "2100-01-01T00:00:00Z"
    for body, kept in (
        ({"reason": "moving", "until": until}, ("moving", until)),
        (None, ("moving", until)),
        ({"reason": "dust"}, ("dust", until)),
        ({"until": None}, ("dust", None)),
    ):
        assert client.post("/api/queue/pause?scope=default", json=body).status_code == 200
        [pause] = client.get("/api/pauses").json()["items"]
        assert (pause["reason"], pause["until"]) == kept
    assert client.put("/api/lanes/default", json={"paused": True}).json()["pause"]["reason"] == "dust"


@contextmanager
def serving_media(url):
    with open_store(url) as store:
        set_up(store, MEDIA, migrate=True)
        with TestClient(create_app(store, Settings(url=url, packs="media")), base_url=HERE) as client:
            yield store, client


def test_a_restart_keeps_requests_pauses_capacities_and_edited_types(url):
    """Spec: C12"""
    with serving_media(url) as (store, client):
        made = [enqueue(client) for _ in range(3)]
        client.post("/api/queue/capacity?requires_cookie=4")
        client.post("/api/queue/pause?scope=no_cookie")
        store.lanes.set_capacity("no_cookie", None)
        store.types.put(replace(store.types.by_code()["parse"], timeout_seconds=77.0), edited=True)
    with serving_media(url) as (store, client):
        assert [item["id"] for item in client.get("/api/requests").json()["items"]] == made[::-1]
        found = stats(client)
        assert found["capacity"] == {"default": None, "no_cookie": None, "requires_cookie": 4}
        assert found["paused"]["no_cookie"] is True
        assert store.types.by_code()["parse"].timeout_seconds == 77.0


@pytest.fixture
def store_alone(url):
    with open_store(url) as opened:
        yield opened


def capacities(store):
    return {lane.name: lane.capacity for lane in store.lanes.all() if lane.name != "default"}


def test_the_environment_says_what_room_a_lane_begins_with(store_alone):
    """Spec: C2"""
    set_up(
        store_alone, MEDIA, {"QUEUE_COOKIE_LANE_CONCURRENCY": "3", "QUEUE_NOCOOKIE_LANE_CONCURRENCY": "7"}, migrate=True
    )
    assert capacities(store_alone) == {"requires_cookie": 3, "no_cookie": 7}
    set_up(store_alone, MEDIA, {"QUEUE_COOKIE_LANE_CONCURRENCY": "9"}, migrate=True)
    assert capacities(store_alone) == {"requires_cookie": 3, "no_cookie": 7}


def test_a_lane_that_tasks_have_made_before_the_first_start_gets_its_room_all_the_same(store_alone):
    """Spec: C2"""
    store_alone.lanes.pause("requires_cookie")
    set_up(store_alone, MEDIA, {}, migrate=True)
    assert capacities(store_alone) == {"requires_cookie": 1, "no_cookie": 2}


@pytest.mark.parametrize("said", ["-1", "two", "1.5", "1000001"])
def test_a_variable_that_is_no_capacity_is_refused_by_its_name_and_nothing_is_made(store_alone, said):
    """Spec: C2"""
    with pytest.raises(Invalid, match="QUEUE_NOCOOKIE_LANE_CONCURRENCY"):
        set_up(store_alone, MEDIA, {"QUEUE_NOCOOKIE_LANE_CONCURRENCY": said}, migrate=True)
    assert store_alone.types.by_code() == {}
