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
    listen(store, handled=3, failed=2, skipped=1)
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


def test_metrics_tell_what_each_listener_handled_and_its_lag(client: Client, store):
    """Spec: X9, A8"""
    listen(store, handled=3, failed=2, skipped=1)
    submit(store)
    found = scraped(client)
    mail = ("listener", "mail")
    counts = [
        found["headgate_listener_events_total", mail, ("outcome", each)] for each in ("handled", "failed", "skipped")
    ]
    assert counts == [3, 2, 1]
    assert found["headgate_listener_lag_seconds", mail] > 0
