"""Weights of tenants over HTTP."""

from collections import Counter

import pytest

from headgate.api.door.principal import Role
from headgate.core.machine import Returned
from headgate.core.task import NewTask
from tests.factories import settle, start


def test_a_weight_is_set_shown_and_set_back_and_holds_at_once(client, store):
    """Spec: A4, X12"""
    for tenant_id in (1, 7):
        store.tasks.submit_many([NewTask("plain", tenant_id=tenant_id)] * 20)
    assert client.put("/api/tenants/7", json={"weight": 3}).json() == {"id": 7, "weight": 3.0}
    listed = [{"id": 1, "weight": 1.0}, {"id": 7, "weight": 3.0}]
    assert client.get("/api/tenants").json() == {"items": listed}
    got: Counter[int] = Counter()
    for _ in range(12):
        [execution] = start(store)
        got[execution.tenant_id] += 1
        settle(store, execution, Returned())
    assert abs(got[7] - 9) <= 1
    assert client.delete("/api/tenants/7").status_code == 204
    assert client.get("/api/tenants").json()["items"][1] == {"id": 7, "weight": 1.0}


@pytest.mark.parametrize("body", [{"weight": 0}, {"weight": 1001}, {"weight": "3"}, {"weight": None}, {}])
def test_a_weight_out_of_bounds_is_refused(client, body):
    """Spec: X12"""
    assert client.put("/api/tenants/7", json=body).status_code == 422
    assert client.get("/api/tenants").json() == {"items": []}


def test_a_tenant_s_key_sees_its_own_weight_and_changes_none(client, store):
    """Spec: B11, X12"""
    store.tenants.set_weight(8, 2)
    _, secret = store.keys.add("tenant", Role.ADMIN, tenant_id=7)
    headers = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/tenants", headers=headers).json() == {"items": [{"id": 7, "weight": 1.0}]}
    for tenant_id in (7, 8):
        assert client.put(f"/api/tenants/{tenant_id}", json={"weight": 9}, headers=headers).status_code == 403
        assert client.delete(f"/api/tenants/{tenant_id}", headers=headers).status_code == 403
