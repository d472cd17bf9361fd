"""How the broker is doing, as anybody with a key of no tenant may read it."""

import json

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.settings import Settings
from tests.api.conftest import HERE
from tests.factories import submit


@pytest.fixture
def app(store, url):
    return create_app(store, Settings(url=url, broker="amqp://guest:secret-word@rabbit.example:5673/"))


def consumer(store, name="one", **deliveries):
    detail = {"pools": [{"types": ["plain"], "slots": 2}], "broker": True, "deliveries": deliveries}
    return store.workers.register(name, types=["plain"], detail=json.dumps(detail))


def test_a_server_without_a_broker_has_nothing_to_say_of_one(store, url):
    """Spec: D11"""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as client:
        answer = client.get("/api/broker").json()
    assert answer.pop("configured") is False
    assert not any(answer.values())


def test_without_a_dispatcher_the_broker_is_away_and_no_password_is_told(client):
    """Spec: D11"""
    answer = client.get("/api/broker")
    told = answer.json()
    assert (told["configured"], told["address"], told["dispatcher"]) == (True, "rabbit.example:5673", None)
    assert (told["tasks"], told["queues"], told["dead_letters"]) == (0, [], None)
    assert "secret-word" not in answer.text


def test_what_the_dispatcher_and_the_consumers_said_is_told(client, store):
    """Spec: D11"""
    said = {"process": "box-7", "messages": {"published": 5, "confirmed": 4, "unconfirmed": 1}, "dead_letters": 3}
    leader = store.dispatch.lead(30.0, json.dumps(said))
    consumer(store, received=4, redelivered=1, **{"no slot": 2})
    consumer(store, "two", received=3, stale=1)
    for lane in ("default", "default", "other"):
        submit(store, lane=lane)
    assert len(store.dispatch.take(leader).handovers) == 3
    told = client.get("/api/broker").json()
    assert (told["dispatcher"]["worker_id"], told["dispatcher"]["process"]) == (leader, "box-7")
    assert (told["consumers"], told["tasks"], told["dead_letters"]) == (2, 3, 3)
    assert [(queue["name"], queue["tasks"]) for queue in told["queues"]] == [
        ("headgate.tasks.default.plain", 2),
        ("headgate.tasks.other.plain", 1),
    ]
    assert (told["messages"]["published"], told["messages"]["unconfirmed"], told["messages"]["resent"]) == (5, 1, 0)
    counts = told["deliveries"]
    assert (counts["received"], counts["redelivered"], counts["stale"], counts["no_slot"]) == (7, 1, 1, 2)
    metrics = client.get("/metrics").text
    for line in (
        "headgate_broker_tasks 3.0",
        "headgate_broker_consumers 2.0",
        "headgate_broker_dispatchers 1.0",
        "headgate_broker_dead_letters 3.0",
        'headgate_broker_queue_tasks{queue="headgate.tasks.default.plain"} 2.0',
    ):
        assert line in metrics


def test_a_key_of_one_tenant_reads_nothing_of_the_broker(app, store):
    """Spec: B11"""
    _, key = store.keys.add("reader", Role.READ, tenant_id=1)
    with TestClient(app, base_url=HERE) as client:
        answer = client.get("/api/broker", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 403
    assert "rabbit.example" not in answer.text
