"""The request queue over HTTP: its fields, its words, its lanes."""

import threading

import pytest

import headgate.packs.media.requests as requests
import headgate.store.reading.lists as lists
from headgate.core.machine import CancelReached, Raised, Returned
from headgate.core.task import NewTask
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.reading.lists import Filter

FIELDS = {
    "id", "type", "subscription_id", "url", "requires_cookie", "ua_profile", "status", "priority", "attempts",
    "max_attempts", "last_error", "created_at", "started_at", "finished_at",
}  # fmt: skip


@pytest.fixture
def packs():
    return "media"


def enqueue(client, type_code="parse", query="", **fields):
    answer = client.post(f"/api/requests/enqueue{query}", json={"type": type_code, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def start(store, limit=10):
    worker_id = store.workers.register("tester")
    return store.claims.take(ClaimRequest(worker_id, limit)).executions


def listed(client, query=""):
    answer = client.get(f"/api/requests{query}")
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_a_request_shows_every_field_of_the_design(client):
    """Spec: C1"""
    made = enqueue(client, "list_fetch", subscription_id=7, url="https://example.org/list", ua_profile="mobile")
    assert made.keys() >= FIELDS
    assert {name: made[name] for name in ("type", "subscription_id", "url", "requires_cookie", "ua_profile")} == {
        "type": "list_fetch",
        "subscription_id": 7,
        "url": "https://example.org/list",
        "requires_cookie": False,
        "ua_profile": "mobile",
    }
    assert (made["status"], made["attempts"], made["max_attempts"], made["last_error"]) == ("queued", 0, 4, None)
    assert (made["started_at"], made["finished_at"]) == (None, None)
    assert made.pop("created") is True
    assert client.get(f"/api/requests/{made['id']}").json() == made


def test_the_states_are_told_in_the_queues_own_words(client, store):
    """Spec: C1"""

    def status(request_id):
        return client.get(f"/api/requests/{request_id}").json()["status"]

    good, bad, gone = (enqueue(client, max_attempts=1, priority=n)["id"] for n in range(3))
    client.post(f"/api/requests/{gone}/pause")
    assert (status(good), status(gone)) == ("queued", "paused")
    first, second = start(store)
    assert (status(good), status(bad)) == ("running", "running")
    store.executions.settle([Outcome(first, Returned("1")), Outcome(second, Raised("no route", None))])
    client.post(f"/api/requests/{gone}/cancel")
    assert (status(good), status(bad), status(gone)) == ("done", "failed", "canceled")
    ended = client.get(f"/api/requests/{bad}").json()
    assert (ended["last_error"], ended["attempts"], ended["max_attempts"]) == ("no route", 1, 1)
    assert ended["started_at"] is not None
    assert ended["finished_at"] is not None


def test_a_download_always_takes_the_cookies_lane_and_its_one_browser(client):
    """Spec: C7"""
    made = enqueue(client, "download", requires_cookie=False, ua_profile="mobile")
    assert (made["requires_cookie"], made["lane"], made["ua_profile"]) == (True, "requires_cookie", "desktop")


def test_the_lanes_let_one_and_two_run(client, store):
    """Spec: C2"""
    for _ in range(4):
        enqueue(client, "parse", requires_cookie=True)
        enqueue(client, "parse", requires_cookie=False)
    lanes = [execution.lane for execution in start(store, 20)]
    assert sorted(lanes) == ["no_cookie", "no_cookie", "requires_cookie"]


def test_requests_of_one_subscription_run_one_at_a_time_and_in_order_across_lanes(client, store):
    """Spec: A10"""
    made = [enqueue(client, kind, subscription_id=7)["id"] for kind in ("list_fetch", "download", "parse", "download")]
    started = []
    for _ in made:
        [execution] = start(store, 20)
        started.append(execution.id)
        store.executions.settle([Outcome(execution, Returned())])
    assert started == made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [5, 4, 3, 2, 1]),
        ("?lane=requires_cookie", [4, 2]),
        ("?lane=no_cookie", [5, 3, 1]),
        ("?type=parse", [5, 1]),
        ("?subscription_id=8", [4, 3]),
        ("?status=canceled", [3]),
        ("?status=queued&lane=no_cookie&type=parse", [5, 1]),
        ("?status=done", []),
        ("?page=1&size=2", [5, 4]),
        ("?page=2&size=2", [3, 2]),
        ("?page=3&size=2", [1]),
        ("?page=4&size=2", []),
        ("?cursor=3&size=1", [2]),
    ],
)
def test_requests_are_listed_by_lane_state_type_and_subscription_in_pages(client, store, query, expected):
    """Spec: C4"""
    store.tasks.submit(NewTask("plain", start_time=None))
    made = [
        enqueue(client, "parse", subscription_id=7)["id"],
        enqueue(client, "download", subscription_id=7)["id"],
        enqueue(client, "list_fetch", subscription_id=8)["id"],
        enqueue(client, "download", subscription_id=8)["id"],
        enqueue(client, "parse")["id"],
    ]
    client.post(f"/api/requests/{made[2]}/cancel")
    query = query.replace("cursor=3", f"cursor={made[2]}")
    assert listed(client, query) == [made[number - 1] for number in expected]


def test_a_list_says_where_to_go_on_whichever_lane_the_next_request_is_in(client):
    """Spec: C4"""
    made = [enqueue(client, "parse", requires_cookie=number % 3 == 0)["id"] for number in range(9)]
    found, query = [], "?size=2"
    while True:
        page = client.get(f"/api/requests{query}").json()
        found += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query = f"?size=2&cursor={page['next_cursor']}"
    assert found == made[::-1]


@pytest.mark.parametrize("looks", [1, 3])
def test_a_filter_that_fits_few_reads_a_bounded_part_for_each_page_and_finds_all_of_them(
    client, store, monkeypatch, looks
):
    """Spec: C4"""
    rare = [enqueue(client, "list_fetch", requires_cookie=number == 1)["id"] for number in range(2)]
    for number in range(30):
        enqueue(client, "parse", requires_cookie=number % 2 == 0)
    rare.append(enqueue(client, "list_fetch")["id"])
    monkeypatch.setattr(lists, "MOST_READ", 4)
    monkeypatch.setattr(lists, "MOST_ENTRIES", 4)
    monkeypatch.setattr(requests, "MOST_LOOKS", looks)
    finds: list[Filter] = []
    find = store.tasks.find

    def counted(wanted, **options):
        finds.append(wanted)
        return find(wanted, **options)

    monkeypatch.setattr(store.tasks, "find", counted)
    found, pages = [], 0
    cursor: str | None = ""
    while cursor is not None:
        finds.clear()
        page = client.get(f"/api/requests?type=list_fetch&status=queued&size=5{cursor}").json()
        assert len(finds) <= 2 * looks
        found += [item["id"] for item in page["items"]]
        cursor = None if page["next_cursor"] is None else f"&cursor={page['next_cursor']}"
        pages += 1
        assert pages < 100
    assert found == rare[::-1]


@pytest.mark.parametrize(
    "query",
    ["?lane=default", "?status=succeeded", "?page=0", "?size=201", "?page=21&size=100", "?page=2&cursor=5", "?x=1"],
)
def test_a_list_that_cannot_be_is_refused(client, query):
    """Spec: C4"""
    assert client.get(f"/api/requests{query}").status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "scan"},
        {"type": "parse", "max_attempts": 0},
        {"type": "parse", "ua_profile": "lynx"},
        {"type": "parse", "subscription_id": "7"},
        {"type": "parse", "status": "done"},
        {"type": "parse", "url": "x" * 5000},
    ],
)
def test_a_request_that_cannot_be_is_refused_and_nothing_is_made(client, body):
    """Spec: C4"""
    answer = client.post("/api/requests/enqueue", json=body)
    assert answer.status_code == 422, answer.text
    assert listed(client) == []


def test_the_same_idempotency_key_enqueues_once(client):
    """Spec: C4"""
    key = {"Idempotency-Key": "k1"}
    answers = [client.post("/api/requests/enqueue", json={"type": "parse"}, headers=key) for _ in range(2)]
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = client.post("/api/requests/enqueue", json={"type": "download"}, headers=key)
    assert other.status_code == 422
    assert len(listed(client)) == 1


def test_a_queued_request_is_cancelled_at_once_and_a_running_one_gives_its_place_back_when_it_ends(client, store):
    """Spec: C10"""
    running, queued = (enqueue(client, "download")["id"] for _ in range(2))
    [execution] = start(store)
    assert execution.id == running
    assert client.post(f"/api/requests/{queued}/cancel", json={"reason": "too late"}).json()["status"] == "canceled"
    assert client.post(f"/api/requests/{running}/cancel").json()["status"] == "running"
    waiting = enqueue(client, "download")["id"]
    assert start(store) == []  # it still runs: its place is not free
    store.executions.settle([Outcome(execution, CancelReached())])
    assert client.get(f"/api/requests/{running}").json()["status"] == "canceled"
    assert [execution.id for execution in start(store)] == [waiting]


def test_a_request_put_first_is_the_next_to_run(client, store):
    """Spec: C4"""
    made = [enqueue(client, "download")["id"] for _ in range(3)]
    assert client.post(f"/api/requests/{made[2]}/prioritize").status_code == 200
    assert [execution.id for execution in start(store)] == [made[2]]
    assert client.post(f"/api/requests/{made[1]}/prioritize", json={"priority": -3}).json()["priority"] == -3


def test_a_paused_request_waits_until_it_is_resumed(client, store):
    """Spec: C4"""
    made = enqueue(client, "download")["id"]
    assert client.post(f"/api/requests/{made}/pause").json()["status"] == "paused"
    assert start(store) == []
    assert client.post(f"/api/requests/{made}/resume").json()["status"] == "queued"
    assert [execution.id for execution in start(store)] == [made]


def test_what_has_ended_is_not_acted_upon(client):
    """Spec: C4"""
    made = enqueue(client)["id"]
    client.post(f"/api/requests/{made}/cancel")
    for action in ("pause", "resume", "cancel", "prioritize"):
        assert client.post(f"/api/requests/{made}/{action}").status_code == 409


def test_a_task_of_another_lane_is_no_request(client, store):
    """Spec: A1"""
    task_id = store.tasks.submit(NewTask("plain")).id
    for path in (f"/api/requests/{task_id}", "/api/requests/999999"):
        assert client.get(path).status_code == 404
        for action in ("pause", "resume", "cancel", "prioritize"):
            assert client.post(f"{path}/{action}").status_code == 404
    assert client.get(f"/api/tasks/{task_id}").json()["status"] == "queued"


@pytest.mark.parametrize("query", ["?sync=true", "?wait=30"])
def test_who_waits_gets_the_request_as_it_ended(client, store, query):
    """Spec: C4"""

    def work():
        while not (executions := start(store)):
            pass
        store.executions.settle([Outcome(executions[0], Returned('{"total": 999}'))])

    worker = threading.Thread(target=work)
    worker.start()
    ended = enqueue(client, "expected_total", query, subscription_id=7)
    worker.join()
    assert (ended["status"], ended["result"]) == ("done", {"total": 999})


def test_who_waits_in_vain_is_told_that_it_goes_on(client):
    """Spec: C4"""
    answer = client.post("/api/requests/enqueue?wait=0.05", json={"type": "parse"})
    assert answer.status_code == 202
    assert answer.json()["status"] == "queued"


def test_both_domains_are_listed_and_a_request_is_a_task_like_any_other(client, store):
    """Spec: A1"""
    request = enqueue(client, "download", subscription_id=7)["id"]
    other = store.tasks.submit(NewTask("scan")).id
    tasks = {task["id"]: task for task in client.get("/api/tasks?view=A").json()["items"]}
    assert tasks.keys() == {request, other}
    assert tasks[request]["mutex"] == "subscription:7"
    assert listed(client) == [request]
