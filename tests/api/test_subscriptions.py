"""Subscriptions over HTTP: what they are, what their buttons begin, and that each begins it once."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

import headgate.packs.media.deletion as deletion
import headgate.packs.media.subscription_tasks as subscription_tasks
from headgate.core.machine import Raised, Returned
from headgate.core.task import NewTask
from headgate.duties import all_duties
from headgate.packs.media.items import Items, ListedItem
from headgate.packs.media.subscriptions import Subscriptions
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.reading.lists import Filter
from headgate.threads import inline

LIST = "https://videos.example.org/list/7"
BUTTONS = [
    ("get", "expected-total", "expected_total"),
    ("post", "refresh-list", "list_fetch"),
    ("post", "download", "list_fetch"),
]


@pytest.fixture
def packs():
    return "media"


def create(client, **fields):
    answer = client.post("/api/subscriptions", json={"name": "A list", "url": LIST, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def shown(client, subscription):
    answer = client.get(f"/api/subscriptions/{subscription['id']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def ask(client, method, subscription, path):
    return client.request(method.upper(), f"/api/subscriptions/{subscription['id']}/{path}")


def start(store, limit=10):
    return store.claims.take(ClaimRequest(store.workers.register("tester"), limit)).executions


def fetch_list(store, subscription, keys):
    """The list of a subscription, as a handler puts it."""
    store.tasks.submit(NewTask("list_fetch", json.dumps({"subscription_id": subscription["id"]})))
    [execution] = start(store)
    owner = {"task_id": execution.id, "exec_id": execution.exec_id}
    page = [ListedItem(key, number, key.upper(), f"{LIST}/{key}") for number, key in enumerate(keys)]
    Items(store.database).put_items(subscription["id"], page, **owner)
    Subscriptions(store.database).mark_listed(subscription["id"], **owner)
    store.executions.settle([Outcome(execution, Returned())])


def test_a_subscription_is_made_listed_shown_and_deleted(client):
    """Spec: C5"""
    first, second = create(client), create(client, name="Another", requires_cookie=True)
    assert first == {
        "id": first["id"], "tenant_id": 0, "name": "A list", "url": LIST, "requires_cookie": False,
        "created_at": first["created_at"], "expected_total": None, "expected_at": None, "listed_at": None,
        "items": {"listed": 0, "downloaded": 0, "missing": 0, "broken": 0},
        "last_ended": None, "busy": None,
    }  # fmt: skip
    assert shown(client, second)["requires_cookie"] is True
    page = client.get("/api/subscriptions?limit=1").json()
    assert [item["id"] for item in page["items"]] == [second["id"]]
    assert client.get(f"/api/subscriptions?cursor={page['next_cursor']}").json()["items"] == [first]
    for _ in range(2):
        assert client.delete(f"/api/subscriptions/{first['id']}").status_code == 204
    assert ask(client, "get", first, "").status_code == 404
    assert ask(client, "post", first, "download").status_code == 404
    assert [item["id"] for item in client.get("/api/subscriptions").json()["items"]] == [second["id"]]


@pytest.mark.parametrize(
    "body",
    [{}, {"name": "x", "url": "no address"}, {"name": "", "url": LIST}, {"name": " ", "url": LIST}, {"x": 1}],
)
def test_a_subscription_that_cannot_be_is_refused_and_nothing_is_made(client, body):
    assert client.post("/api/subscriptions", json=body).status_code == 422
    assert client.get("/api/subscriptions").json()["items"] == []


@pytest.mark.parametrize(("method", "path", "type_code"), BUTTONS)
def test_of_clicks_at_once_one_makes_a_request_and_all_are_answered_with_it(client, store, method, path, type_code):
    """Spec: C5, C13"""
    subscription = create(client)
    answers = []
    clicks = [
        threading.Thread(target=lambda: answers.append(ask(client, method, subscription, path))) for _ in range(6)
    ]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    found = [answer.json() for answer in answers]
    requests = [each["requests"][0] if path == "download" else each for each in found]
    assert {(each["id"], each["type"], each["priority"]) for each in requests} == {(requests[0]["id"], type_code, 3)}
    assert [each["created"] for each in requests].count(True) == 1
    assert len(client.get("/api/requests").json()["items"]) == 1
    [execution] = start(store)
    again = ask(client, method, subscription, path).json()
    again = again["requests"][0] if path == "download" else again
    assert (again["id"], again["status"], again["created"]) == (execution.id, "running", False)
    store.executions.settle([Outcome(execution, Returned())])
    assert ask(client, method, subscription, path).status_code in (200, 201)
    assert len(client.get("/api/requests").json()["items"]) == 2


def test_a_download_fetches_the_list_first_and_always_with_the_cookie(client):
    """Spec: C5"""
    subscription = create(client)
    answer = ask(client, "post", subscription, "download").json()
    [request] = answer["requests"]
    assert (answer["created"], answer["already_open"]) == (1, 0)
    assert (request["type"], request["lane"], request["ua_profile"]) == ("list_fetch", "requires_cookie", "desktop")
    task = client.get(f"/api/tasks/{request['id']}").json()
    assert task["ext"]["then_download"] is True
    assert ask(client, "post", subscription, "refresh-list").json()["id"] == request["id"]


def test_a_download_while_the_list_is_only_refreshed_is_told_so(client):
    """Spec: C5"""
    subscription = create(client, requires_cookie=True)
    request = ask(client, "post", subscription, "refresh-list").json()
    assert (request["lane"], request["url"]) == ("requires_cookie", LIST)
    answer = ask(client, "post", subscription, "download")
    assert answer.status_code == 409
    assert f"request {request['id']}" in answer.json()["detail"]
    assert len(client.get("/api/requests").json()["items"]) == 1


def test_what_the_last_list_has_is_downloaded_item_by_item_and_no_item_twice(client, store, monkeypatch):
    """Spec: C5"""
    monkeypatch.setattr("headgate.packs.media.subscription_routes.BATCH", 2)
    subscription = create(client)
    assert "refresh it first" in ask(client, "post", subscription, "download?use_cache_only=true").json()["detail"]
    fetch_list(store, subscription, ["v1", "v2", "v3"])
    answer = ask(client, "post", subscription, "download?use_cache_only=true").json()
    assert (answer["created"], answer["already_open"], len(answer["requests"])) == (3, 0, 3)
    assert {request["lane"] for request in answer["requests"]} == {"requires_cookie"}
    assert [request["url"] for request in answer["requests"]] == [f"{LIST}/{key}" for key in ("v1", "v2", "v3")]
    [execution] = start(store)
    Items(store.database).mark_downloaded(
        subscription["id"], "v1", path="v1", bytes=1, task_id=execution.id, exec_id=execution.exec_id
    )
    store.executions.settle([Outcome(execution, Returned())])
    again = ask(client, "post", subscription, "download?use_cache_only=true").json()
    assert (again["created"], again["already_open"]) == (0, 2)
    assert shown(client, subscription)["items"] == {"listed": 2, "downloaded": 1, "missing": 0, "broken": 0}


def test_who_waits_for_the_total_gets_it(client, store):
    """Spec: C5"""
    subscription = create(client)
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(ask(client, "get", subscription, "expected-total?wait=60"))
    )
    waiting.start()
    while not (executions := start(store)):
        pass
    [execution] = executions
    Subscriptions(store.database).set_expected_total(
        subscription["id"], 999, task_id=execution.id, exec_id=execution.exec_id
    )
    store.executions.settle([Outcome(execution, Returned("999"))])
    waiting.join()
    assert (answers[0].status_code, answers[0].json()["status"], answers[0].json()["result"]) == (200, "done", 999)
    assert shown(client, subscription)["expected_total"] == 999
    assert ask(client, "get", subscription, "expected-total?wait=0").status_code == 202


def test_a_subscription_says_what_it_is_busy_with(client, store):
    """Spec: C11"""
    subscription, other = create(client), create(client)
    ask(client, "get", subscription, "expected-total")
    ask(client, "post", subscription, "refresh-list")
    queued = shown(client, subscription)["busy"]
    assert (queued["type"], queued["status"], queued["open"]) == ("expected_total", "queued", 2)
    [execution] = start(store)
    running = shown(client, subscription)["busy"]
    assert running == {
        "subscription_id": subscription["id"], "request_id": execution.id, "type": "expected_total",
        "status": "running", "open": 2,
        "text": f"expected_total {execution.id} is running, and 1 more",
    }  # fmt: skip
    assert shown(client, other)["busy"] is None
    query = f"subscription_id={subscription['id']}&subscription_id={other['id']}&subscription_id=99"
    assert client.get(f"/api/requests/busy?{query}").json() == {"items": [running]}
    for _ in range(2):
        store.executions.settle([Outcome(each, Returned()) for each in [execution, *start(store)]])
    assert shown(client, subscription)["busy"] is None


def test_a_subscription_says_how_its_last_request_ended(client, store):
    """Spec: C11"""
    subscription, other = create(client), create(client)
    failed = ask(client, "post", subscription, "refresh-list").json()["id"]
    store.tasks.submit(NewTask("parse", f'{{"subscription_id":{subscription["id"]}}}', tenant_id=9))
    for each in start(store):
        store.executions.settle([Outcome(each, Raised("Fatal: the site is gone\nTraceback: of it"))])
    ended = shown(client, subscription)["last_ended"]
    assert ended == {
        "request_id": failed, "type": "list_fetch", "status": "failed", "ended_at": ended["ended_at"],
        "error": "Fatal: the site is gone",
    }  # fmt: skip
    assert ended["ended_at"] is not None
    assert store.history.archive(limit=10) == 2
    assert shown(client, subscription)["last_ended"] == ended
    assert shown(client, other)["last_ended"] is None
    ask(client, "get", subscription, "expected-total")
    assert shown(client, subscription)["last_ended"] == ended  # what is open has not ended
    store.executions.settle([Outcome(each, Returned()) for each in start(store)])
    done = shown(client, subscription)["last_ended"]
    assert (done["type"], done["status"], done["error"]) == ("expected_total", "done", None)


def test_requests_of_a_subscription_take_turns_whichever_way_they_come_in(client, store):
    """Spec: A10, C13"""
    subscription = create(client)
    ext = {"subscription_id": subscription["id"], "url": LIST}
    ask(client, "get", subscription, "expected-total")
    client.post("/api/requests/enqueue", json={"type": "download", **ext})
    client.post("/api/tasks", json={"type": "parse", "ext": ext})
    store.tasks.submit(NewTask("list_fetch", json.dumps(ext)))
    other = create(client)
    ask(client, "get", other, "expected-total")
    seen = []
    for _ in range(4):
        executions = start(store)
        mine = [each for each in executions if json.loads(each.ext)["subscription_id"] == subscription["id"]]
        assert len(mine) == 1
        seen += executions
        store.executions.settle([Outcome(each, Returned()) for each in executions])
    assert len(seen) == 5


def test_the_tasks_of_a_subscription_are_found_by_what_they_are_about_and_not_by_their_mutex(client, store):
    """Spec: A13, C4"""
    subscription = create(client)
    sid = subscription["id"]
    made = [
        store.tasks.submit(NewTask("download", f'{{"subscription_id" : {sid}, "url": "{LIST}"}}', mutex="mine")).id,
        store.tasks.submit(NewTask("parse", f'{{"subscription_id":{sid}}}')).id,
    ]
    store.tasks.submit(NewTask("parse", f'{{"subscription_id":{sid}7}}'))
    store.tasks.submit(NewTask("parse", f'{{"subscription_id":"{sid}"}}'))
    store.tasks.submit(NewTask("parse", f'{{"note":"\\"subscription_id\\":{sid},"}}'))
    store.tasks.submit(NewTask("parse", "{}", mutex=f"subscription:{sid}"))
    others = store.tasks.submit(NewTask("parse", f'{{"subscription_id":{sid}}}', tenant_id=9))
    store.tasks.cancel(made[1])

    def ids(query):
        return [item["id"] for item in client.get(query).json()["items"]]

    assert ids(f"/api/subscriptions/{sid}/tasks") == made[::-1]
    assert ids(f"/api/subscriptions/{sid}/tasks?status=canceled") == [made[1]]
    assert ids(f"/api/requests?subscription_id={sid}") == [others.id, *made[::-1]]
    assert ids(f"/api/requests?subscription_id={sid}&type=download&lane=requires_cookie") == [made[0]]
    assert shown(client, subscription)["busy"]["open"] == 1


def test_the_tasks_of_a_subscription_are_read_in_bounded_parts(client, store, monkeypatch):
    """Spec: A13, C4"""
    monkeypatch.setattr(subscription_tasks, "MOST_READ", 4)
    subscription = create(client)
    ext = f'{{"subscription_id":{subscription["id"]}}}'
    made = [store.tasks.submit(NewTask("parse", ext)).id for _ in range(10)]
    store.tasks.cancel(made[1])
    found: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"/api/subscriptions/{subscription['id']}/tasks?status=canceled{cursor}").json()
        found += [item["id"] for item in page["items"]]
        cursor = None if page["next_cursor"] is None else f"&cursor={page['next_cursor']}"
    assert found == [made[1]]


def test_a_page_of_a_subscription_s_tasks_ends_at_2_mib(client, store):
    """Spec: A13, X12"""
    subscription = create(client)
    ext = json.dumps({"subscription_id": subscription["id"], "note": "x" * 250 * 1024})
    made = [store.tasks.submit(NewTask("parse", ext)).id for _ in range(12)]
    of_requests = f"/api/requests?subscription_id={subscription['id']}"
    for path in (f"/api/subscriptions/{subscription['id']}/tasks?", of_requests, "/api/requests?size=200"):
        first = client.get(path).json()
        assert [item["id"] for item in first["items"]] == made[:3:-1]
        second = client.get(f"{path}&cursor={first['next_cursor']}").json()
        assert [item["id"] for item in second["items"]] == made[3::-1]
        assert second["next_cursor"] is None
    by_number = client.get(f"{of_requests}&page=2&size=5").json()
    assert [item["id"] for item in by_number["items"]] == made[6:1:-1]


def test_deleting_a_subscription_cancels_its_tasks_running_ones_too(client, store):
    """Spec: A13"""
    subscription, other = create(client), create(client)
    for each in (subscription, other):
        for method, path, _ in BUTTONS[:2]:
            ask(client, method, each, path)
    running = {json.loads(each.ext)["subscription_id"]: each for each in start(store)}[subscription["id"]]
    assert client.delete(f"/api/subscriptions/{subscription['id']}").status_code == 204
    tasks = client.get(f"/api/requests?subscription_id={subscription['id']}").json()["items"]
    assert [each["status"] for each in tasks] == ["canceled", "running"]
    assert store.tasks.get(running.id).cancel_requested
    acts = [act for act in store.acts.find().items if act.actor == "system:media"]
    assert {act.kind for act in acts} == {"cancelled", "cancel_requested"}
    assert {act.reason for act in acts} == {f"subscription {subscription['id']} was deleted"}
    assert shown(client, other)["busy"]["open"] == 2


def test_deleting_a_subscription_leaves_what_has_succeeded_as_it_is(client, store, url):
    """Spec: A13"""
    subscription = create(client)
    told = replace(store.types.by_code()["parse"], callback={"success": {"url": "https://good.example/x"}})
    store.types.put(told, edited=True)
    done = store.tasks.submit(NewTask("parse", f'{{"subscription_id":{subscription["id"]}}}'))
    store.executions.settle([Outcome(each, Returned()) for each in start(store)])
    assert client.delete(f"/api/subscriptions/{subscription['id']}").status_code == 204
    assert asyncio.run(deletion.FinishDeletions(store, Settings(url=url), inline).turn()) == 0
    assert store.tasks.get(done.id).status == "notifying"


def test_a_deletion_that_a_crash_cut_short_is_finished_later(client, store, url):
    """Spec: A13"""
    subscription, other = create(client), create(client)
    for each in (subscription, other):
        ask(client, "get", each, "expected-total")
    Subscriptions(store.database).mark_deleted(subscription["id"])  # and there it died
    late = store.tasks.submit(NewTask("parse", f'{{"subscription_id":{subscription["id"]}}}'))
    duty = deletion.FinishDeletions(store, Settings(url=url), inline)
    assert [asyncio.run(duty.turn()) for _ in range(2)] == [2, 0]
    assert store.tasks.get(late.id).status == "cancelled"
    assert shown(client, other)["busy"] is not None


def test_a_process_with_every_duty_finishes_deletions_too(store, url):
    """Spec: A13"""
    duties = [type(duty) for duty in all_duties(store, Settings(url=url, packs="media"), inline)]
    assert deletion.FinishDeletions in duties
    assert deletion.FinishDeletions not in [type(duty) for duty in all_duties(store, Settings(url=url), inline)]


def test_a_collection_is_looked_at_once_for_clicks_at_once(client):
    """Spec: C5"""
    body = {"url": LIST, "ua_profile": "mobile"}
    first = client.post("/api/subscriptions/parse-collection", json=body)
    assert first.status_code == 201
    request = first.json()
    assert (request["type"], request["lane"], request["ua_profile"], request["priority"]) == (
        "parse", "no_cookie", "mobile", 3,
    )  # fmt: skip
    assert client.post("/api/subscriptions/parse-collection", json=body).json()["id"] == request["id"]
    with_cookie = client.post("/api/subscriptions/parse-collection", json=body | {"requires_cookie": True}).json()
    assert (with_cookie["lane"], with_cookie["ua_profile"]) == ("requires_cookie", "desktop")
    assert client.post("/api/subscriptions/parse-collection", json={"url": "nonsense"}).status_code == 422
    assert client.post("/api/subscriptions/parse-collection?sync=true&wait=0", json=body).status_code == 202


def test_a_page_of_another_site_cannot_ask_for_the_total(client):
    """Spec: D9"""
    subscription = create(client)
    address = f"/api/subscriptions/{subscription['id']}/expected-total"
    answer = client.get(address, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert client.get("/api/requests").json()["items"] == []


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest/", "https://127.0.0.1/x", "https://me:pw@example.org/"]
)
def test_an_address_that_may_not_be_asked_is_refused_and_nothing_is_submitted(client, store, address):
    """Spec: RELIABILITY T23"""
    answers = [
        client.post("/api/subscriptions", json={"name": "A list", "url": address}),
        client.post("/api/subscriptions/parse-collection", json={"url": address}),
        client.post("/api/requests/enqueue", json={"type": "download", "url": address}),
    ]
    assert [answer.status_code for answer in answers] == [422] * 3
    assert all(answer.json()["detail"].startswith("url: ") for answer in answers)
    assert all("MEDIA_PRIVATE_ALLOW" in answer.text or "cookie" in answer.text for answer in answers)
    assert store.tasks.find(Filter()).items == []
