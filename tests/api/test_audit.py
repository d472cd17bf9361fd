"""`/api/audit`: who did what over HTTP, from where, with the old value and the new."""

import pytest

from headgate.core.keys import Role
from tests.api.conftest import Client
from tests.factories import submit


def audit(client: Client, **wanted):
    answer = client.get("/api/audit", params=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def test_an_edit_over_http_is_in_the_audit_with_who_and_from_where(client: Client):
    """Spec: A12"""
    client.put("/api/lanes/mail", json={"capacity": 3})
    client.put("/api/lanes/mail", json={"capacity": 5})
    second, first = audit(client, object="lane:mail", kind="capacity_changed")
    assert first["changes"] == {"capacity": {"old": None, "new": 3}}
    assert second["changes"] == {"capacity": {"old": 3, "new": 5}}
    assert (second["actor"], second["address"]) == ("person", "testclient")


def test_an_act_upon_a_task_has_its_reason_and_states(client: Client, store):
    """Spec: A12"""
    task = submit(store)
    client.post(f"/api/tasks/{task.id}/cancel", json={"reason": "no longer wanted"})
    [act] = audit(client, object=f"task:{task.id}")
    assert (act["kind"], act["from"], act["to"]) == ("cancelled", "queued", "cancelled")
    assert (act["reason"], act["actor"]) == ("no longer wanted", "person")


def test_the_audit_goes_on_page_by_page(client: Client, store):
    """Spec: A12"""
    for capacity in range(1, 6):
        store.lanes.set_capacity("mail", capacity, actor="os:alice")
    seen, cursor = [], None
    while True:
        go_on = f"&cursor={cursor}" if cursor else ""
        page = client.get(f"/api/audit?actor=os:alice&limit=2{go_on}").json()
        seen += [act["changes"]["capacity"]["new"] for act in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [5, 4, 3, 2, 1]


def test_who_has_a_key_is_named_by_it_and_a_tenant_sees_its_own(client: Client, store):
    """Spec: A12, B11"""
    mine, other = submit(store, tenant_id=7), submit(store, tenant_id=8)
    keys = {
        name: store.keys.add(name, Role.OPERATOR, tenant_id=tenant)[1] for name, tenant in (("ops", None), ("seven", 7))
    }
    for name, task in (("ops", other), ("seven", mine)):
        client.post(f"/api/tasks/{task.id}/pause", headers={"Authorization": f"Bearer {keys[name]}"})
    client.headers["Authorization"] = f"Bearer {keys['ops']}"
    assert [act["object"] for act in audit(client, kind="paused")] == [f"task:{mine.id}", f"task:{other.id}"]
    assert [act["actor"] for act in audit(client, actor="key:2")] == ["key:2 seven"]
    client.headers["Authorization"] = f"Bearer {keys['seven']}"
    assert [act["object"] for act in audit(client)] == [f"task:{mine.id}"]


@pytest.mark.parametrize("wanted", [{"since": "2026-03-01T12:00:00"}, {"limit": 0}, {"cursor": 0}, {"what": "x"}])
def test_what_cannot_be_asked_of_the_audit_is_refused(client: Client, wanted):
    """Spec: A12"""
    assert client.get("/api/audit", params=wanted).status_code == 422
