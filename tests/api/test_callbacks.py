"""Callbacks over HTTP: what is owed, what came of it, and once more by hand."""

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.callbacks import Attempt, CallbackKind, Delivery
from headgate.core.keys import Role
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.settings import Settings
from headgate.store.callbacks.deliveries import DeliveryOutcome
from tests.api.conftest import HERE
from tests.factories import running, settle

BOTH = {"success": {"url": "https://good.example/x"}, "error": {"url": "https://bad.example:443/y"}}


@pytest.fixture(autouse=True)
def types(store):
    store.types.put(TaskType("told", callback=BOTH))


def owed(store, event=None, **fields):
    execution = running(store, "told", **fields)
    settle(store, execution, event or Returned('"done"'))
    return execution.id


def sent(store, attempt, status, kind=CallbackKind.SUCCESS, host="good.example"):
    [leased] = store.deliveries.record_and_lease([], [("told", kind, 1)], 60.0)
    store.deliveries.record([DeliveryOutcome(leased, host, attempt, status)])


def items(client, query=""):
    answer = client.get(f"/api/callbacks{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def test_a_task_shows_its_callbacks_and_every_attempt(store, client):
    """Spec: B6"""
    task_id = owed(store)
    sent(store, Attempt(503, 0.25, body="not now"), Delivery.PENDING)
    sent(store, Attempt(None, 15.0, "no whole answer within 15 s"), Delivery.UNDELIVERABLE)
    [callback] = client.get(f"/api/tasks/{task_id}/callbacks").json()["items"]
    assert callback["webhook_id"].startswith("msg_")
    assert {name: callback[name] for name in ("task_id", "type", "kind", "status", "attempts", "host")} == {
        "task_id": task_id, "type": "told", "kind": "success", "status": "undeliverable", "attempts": 2,
        "host": "good.example",
    }  # fmt: skip
    assert (callback["last_status"], callback["last_error"]) == (None, "no whole answer within 15 s")
    assert (callback["next_attempt_at"], callback["delivered_at"]) == (None, None)
    second, first = callback["history"]
    assert (first["status"], first["seconds"], first["answer"]) == (503, 0.25, "not now")
    assert (second["status"], second["error"]) == (None, "no whole answer within 15 s")
    assert client.get(f"/api/tasks/{task_id}").json()["status"] == "notifying"
    assert client.get(f"/api/tasks/{task_id}?view=B").json()["status"] == "Completed"


def test_a_callback_is_sent_again_by_hand(store, client):
    """Spec: B6"""
    task_id = owed(store)
    sent(store, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    again = client.post(f"/api/tasks/{task_id}/redeliver")
    assert (again.status_code, again.json()["status"], again.json()["attempts"]) == (200, "pending", 0)
    sent(store, Attempt(200, 0.1), Delivery.DELIVERED)
    assert client.get(f"/api/tasks/{task_id}").json()["status"] == "succeeded"
    named = client.post(f"/api/tasks/{task_id}/redeliver", json={"delivery_id": again.json()["id"]})
    assert (named.status_code, named.json()["status"]) == (200, "pending")
    kinds = [event["kind"] for event in client.get(f"/api/tasks/{task_id}/events").json()["items"]]
    assert kinds.count("redelivery_asked") == 2
    assert "undeliverable" in kinds


def test_what_cannot_be_sent_again_is_refused_with_the_reason(store, client):
    """Spec: B6"""
    plain = running(store)
    answer = client.post(f"/api/tasks/{plain.id}/redeliver")
    assert (answer.status_code, answer.json()["detail"]) == (409, f"task {plain.id} has no callback to send")
    assert client.post("/api/tasks/4711/redeliver").status_code == 404
    assert client.get("/api/tasks/4711/callbacks").status_code == 404
    assert client.post(f"/api/tasks/{owed(store)}/redeliver", json={"delivery_id": 4711}).status_code == 404
    assert client.post(f"/api/tasks/{plain.id}/redeliver", json={"id": 1}).status_code == 422


def test_an_undeliverable_success_is_resolved_with_a_remark(store, client):
    """Spec: B6, B7"""
    task_id = owed(store)
    sent(store, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    answer = client.post(f"/api/tasks/{task_id}/resolve", json={"remark": "told by telephone"})
    assert (answer.json()["status"], answer.json()["result"]) == ("resolved", "done")


def test_callbacks_are_listed_over_all_tasks_and_filtered(store, client):
    """Spec: B6"""
    first, second = owed(store), owed(store, Raised("no"))
    sent(store, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    third = owed(store)
    assert [item["task_id"] for item in items(client)] == [third, second, first]
    for query, found in {
        "?status=undeliverable": [first], "?status=pending": [third, second], "?kind=error": [second],
        "?type=told&kind=success": [third, first], "?type=other": [], "?host=good.example": [third, first],
        "?host=bad.example": [second], "?host=bad.example&status=delivered": [],
    }.items():  # fmt: skip
        assert [item["task_id"] for item in items(client, query)] == found, query
    page = client.get("/api/callbacks?limit=2").json()
    assert [item["task_id"] for item in items(client, f"?limit=2&cursor={page['next_cursor']}")] == [first]
    for wrong in ("?status=lost", "?kind=both", "?limit=0", "?limit=201", "?cursor=x", "?colour=red"):
        assert client.get(f"/api/callbacks{wrong}").status_code == 422, wrong


def test_what_piled_up_while_a_receiver_was_away_is_sent_again_at_once(store, client):
    """Spec: B6"""
    ids = [owed(store) for _ in range(3)]
    for _ in ids:
        sent(store, Attempt(500, 0.1), Delivery.UNDELIVERABLE)
    assert client.post("/api/callbacks/redeliver", json={"host": "other.example"}).json() == {"items": []}
    some = client.post("/api/callbacks/redeliver", json={"host": "good.example", "limit": 2}).json()["items"]
    assert [(item["task_id"], item["problem"]) for item in some] == [(ids[2], None), (ids[1], None)]
    assert len(client.post("/api/callbacks/redeliver").json()["items"]) == 1
    assert {item["status"] for item in items(client)} == {"pending"}


def test_answers_of_receivers_are_for_admins_and_each_tenant_has_its_own(store, url):
    """Spec: B6, B11"""
    task_id = owed(store, tenant_id=1)
    owed(store, tenant_id=2)
    sent(store, Attempt(500, 0.1, body="canary of the inside"), Delivery.UNDELIVERABLE)
    keys = {
        (role, tenant): {"Authorization": f"Bearer {store.keys.add('x', role, tenant_id=tenant)[1]}"}
        for role in (Role.READ, Role.OPERATOR, Role.ADMIN)
        for tenant in (None, 1, 2)
    }
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as client:
        path = f"/api/tasks/{task_id}/callbacks"
        for who, status in (((Role.READ, 1), 200), ((Role.OPERATOR, 1), 200), ((Role.ADMIN, 2), 404)):
            answer = client.get(path, headers=keys[who])
            assert (answer.status_code, "canary" in answer.text) == (status, False), who
        for admin in ((Role.ADMIN, 1), (Role.ADMIN, None)):
            assert "canary of the inside" in client.get(path, headers=keys[admin]).text
        for tenant, count in ((None, 2), (1, 1), (2, 1)):
            found = client.get("/api/callbacks", headers=keys[Role.READ, tenant]).json()["items"]
            assert [item["tenant_id"] for item in found if tenant in (None, item["tenant_id"])] == (
                [2, 1] if tenant is None else [tenant]
            )
            assert len(found) == count
        foreign = client.post("/api/callbacks/redeliver", headers=keys[Role.OPERATOR, 2])
        assert foreign.json() == {"items": []}
        assert client.post(f"/api/tasks/{task_id}/redeliver", headers=keys[Role.OPERATOR, 2]).status_code == 404
        assert client.post(f"/api/tasks/{task_id}/redeliver", headers=keys[Role.READ, 1]).status_code == 403
        assert store.tasks.get(task_id).status is State.NOTIFYING


def test_how_many_callbacks_wait_for_a_person_is_counted_by_the_server(store, client):
    for _ in range(3):
        owed(store)
        sent(store, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    assert client.get("/api/callbacks/counts").json() == {"undeliverable": 3, "exact": True}
