"""`/api/listeners`, and what `/metrics` tells of them."""

from headgate.store.events.subscriptions import Lease
from tests.api.conftest import Client
from tests.api.test_metrics import scraped
from tests.factories import submit


def listen(store, name="mail", **counts):
    lease = store.subscriptions.lease(name, "laptop-1", 30.0)
    store.subscriptions.save(name, "laptop-1", Lease(store.events.last(), lease.tries), **counts)


def test_listeners_are_listed_with_what_they_handled_and_how_far_behind_they_are(client: Client, store):
    """Spec: X9"""
    listen(store, handled=["submitted"] * 3, failed=["submitted"] * 2, skipped=["cancelled"])
    [found] = client.get("/api/listeners").json()["items"]
    assert (found["name"], found["handled"], found["failed"], found["skipped"]) == ("mail", 3, 2, 1)
    assert (found["holder"], found["in_use"], found["lag_seconds"]) == ("laptop-1", True, 0)
    submit(store)
    [found] = client.get("/api/listeners").json()["items"]
    assert found["lag_seconds"] > 0
    assert found["waiting_since"]


def test_a_listener_can_be_removed(client: Client, store):
    """Spec: X9"""
    listen(store)
    assert client.delete("/api/listeners/mail").status_code == 204
    assert client.get("/api/listeners").json() == {"items": []}
    assert client.delete("/api/listeners/mail").status_code == 404


def test_metrics_tell_what_each_listener_did_with_events_of_each_kind_and_its_lag(client: Client, store):
    """Spec: X9, D11"""
    listen(store, handled=["submitted"] * 3, failed=["submitted"] * 2, skipped=["cancelled"])
    submit(store)
    for _ in range(2):  # it is counted once
        found = scraped(client)
        counts = {key[1:]: value for key, value in found.items() if key[0] == "tasks_events_processed_total"}
        assert counts == {
            (("eventType", "submitted"), ("listenerName", "mail"), ("outcome", "handled")): 3,
            (("eventType", "submitted"), ("listenerName", "mail"), ("outcome", "failed")): 2,
            (("eventType", "cancelled"), ("listenerName", "mail"), ("outcome", "skipped")): 1,
        }
    assert found["headgate_listener_lag_seconds", ("listener", "mail")] > 0
