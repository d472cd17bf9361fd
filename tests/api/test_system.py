"""Whether the server is well, who works, how it went, and what is removed."""

import json

from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import open_store
from tests.api.conftest import HERE
from tests.factories import put, running, settle, sql, submit, worker


def test_a_server_that_can_write_is_ready(client):
    """Spec: X6"""
    assert client.get("/livez").json() == client.get("/readyz").json() == {"status": "ok"}


def test_a_server_whose_schema_is_behind_lives_and_is_not_ready(tmp_path):
    """Spec: X6"""
    with (
        open_store(f"sqlite:///{tmp_path}/new.db") as store,
        TestClient(create_app(store, Settings()), base_url=HERE) as client,
    ):
        assert client.get("/livez").status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "migrate" in answer.json()["detail"]
        assert answer.headers["retry-after"]
        store.migrate()
        assert client.get("/readyz").status_code == 200


def test_a_server_that_cannot_write_is_not_ready(client, url):
    """Spec: X6"""
    refuse = {
        "sqlite": (
            "CREATE TRIGGER full BEFORE UPDATE ON headgate_catalog BEGIN SELECT RAISE(ABORT, 'no'); END",
            "DROP TRIGGER full",
        ),
        "postgres": (
            "CREATE RULE full_ AS ON UPDATE TO headgate_catalog DO INSTEAD"
            " SELECT 1 / (version - version) FROM headgate_catalog",
            "DROP RULE full_ ON headgate_catalog",
        ),
    }["sqlite" if url.startswith("sqlite") else "postgres"]
    sql(url, refuse[0])
    try:
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").status_code >= 500
    finally:
        sql(url, refuse[1])
    assert client.get("/readyz").status_code == 200


def test_workers_are_listed_and_those_that_left_if_asked(client, store):
    """Spec: A8"""
    stays = store.workers.register("stays", types=["plain"], lease_seconds=20)
    leaves = store.workers.register("leaves")
    store.workers.leave(leaves)
    [found] = client.get("/api/workers").json()["items"]
    assert (found["id"], found["name"], found["types"], found["lease_seconds"]) == (stays, "stays", ["plain"], 20.0)
    both = client.get("/api/workers?lost=true").json()["items"]
    assert [(each["id"], each["lost"], each["types"]) for each in both] == [
        (stays, False, ["plain"]),
        (leaves, True, None),
    ]


def test_a_worker_says_which_handlers_do_not_stop_and_names_no_other_tenants_task(app, client, store):
    """Spec: B11"""
    theirs, own = running(store, tenant_id=1), running(store, tenant_id=2)
    for task in (theirs, own):
        store.workers.beat(store.tasks.get(task.id).worker_id, detail=json.dumps({"stuck": [task.id]}))
    worker(store)
    assert [each["stuck"] for each in client.get("/api/workers").json()["items"]] == [[theirs.id], [own.id], []]
    assert "headgate_workers_stuck 2.0" in client.get("/metrics").text.splitlines()
    _, key = store.keys.add("theirs", role=Role.READ, tenant_id=2)
    app.server.keyring.forget()
    seen = client.get("/api/workers", headers={"Authorization": f"Bearer {key}"}).json()["items"]
    assert [each["stuck"] for each in seen] == [[], [own.id], []]


def test_an_agents_start_queue_is_shown_to_whom_it_concerns(app, client, store):
    """Spec: B11, E3"""
    for tenant_id in (1, 1, 2):
        submit(store, agent_id="rig", tenant_id=tenant_id)
    agent = store.agents.sign_on("rig", tenant_id=None, types=None, lease_seconds=30)
    store.workers.register("a worker")
    shown = [(each["start_queue"], each["next_start"]) for each in client.get("/api/workers").json()["items"]]
    assert shown == [(3, None), (None, None)]
    request = ClaimRequest(agent.worker_id, 1, agent_id="rig", tenant_id=1, start_seconds=600)
    assert len(store.agents.hand_over(request).executions) == 1
    [rig, _] = client.get("/api/workers").json()["items"]
    assert (rig["start_queue"], rig["next_start"] is None) == (2, False)
    _, key = store.keys.add("theirs", role=Role.READ, tenant_id=2)
    app.server.keyring.forget()
    [rig, _] = client.get("/api/workers", headers={"Authorization": f"Bearer {key}"}).json()["items"]
    assert (rig["start_queue"], rig["next_start"]) == (1, None)


def test_the_dispatcher_is_shown_as_one_and_counted_as_no_worker(client, store):
    """Spec: D1, D11"""
    leader = store.dispatch.lead(30.0, '{"messages":{"published":7,"confirmed":6,"returned":1}}')
    detail = '{"pools":[],"broker":true,"deliveries":{"received":6,"redelivered":2}}'
    store.workers.register("rig", types=[], detail=detail)
    shown = {each["id"]: (each["kind"], each["types"]) for each in client.get("/api/workers").json()["items"]}
    assert shown[leader] == ("dispatcher", [])
    lines = client.get("/metrics").text.splitlines()
    for line in (
        'headgate_workers_alive{kind="worker"} 1.0',
        'headgate_broker_messages_total{outcome="returned"} 1.0',
        'headgate_broker_deliveries_total{outcome="redelivered",worker="rig"} 2.0',
        "headgate_broker_consumers 1.0",
        "headgate_broker_tasks 0.0",
    ):
        assert line in lines, line


def test_a_tenants_key_does_not_read_what_is_told_of_all_tenants(app, client, store):
    """Spec: B11"""
    keys = [store.keys.add("k", role=Role.READ, tenant_id=tenant_id)[1] for tenant_id in (None, 2)]
    app.server.keyring.forget()
    for path in ("/metrics", "/api/broker", "/api/listeners", "/api/series"):
        asked = [client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code for key in keys]
        assert asked == [200, 403], path


def test_statistics_per_type(client, store):
    """Spec: A8"""
    for event in (Returned(), Returned(), Returned(), Raised("no")):
        settle(store, running(store), event)
    answer = client.get("/api/stats?seconds=3600").json()
    [found] = answer["items"]
    assert (answer["seconds"], found["type"], found["finished"], found["success_rate"]) == (3600.0, "plain", 4, 0.75)
    assert 0 <= found["p50"] <= found["p95"] <= found["p99"]
    assert client.get("/api/stats?seconds=0").status_code == 422


def test_a_tenant_sees_its_own_statistics(store):
    """Spec: B11"""
    settle(store, running(store, tenant_id=1), Returned())
    settle(store, running(store, tenant_id=2), Raised("no"))
    assert [each.success_rate for each in store.statistics.by_type(tenant_id=1)] == [1.0]
    assert [each.finished for each in store.statistics.by_type()] == [2]


def test_purge_removes_what_ended_so_long_ago_and_says_how_many(client, store):
    """Spec: A7"""
    done, dead = put(store, State.SUCCEEDED), put(store, State.DEAD)
    cancelled = put(store, State.CANCELLED)
    assert client.post("/api/purge").json()["purged"] == dict.fromkeys(
        ("succeeded", "partial", "failed", "resolved", "cancelled"), 0
    )
    asked = {"older_than_days": 0, "status": ["succeeded"]}
    assert client.post("/api/purge", json=asked).json() == {"purged": {"succeeded": 1}, "more": False}
    assert client.get(f"/api/tasks/{done.id}").status_code == 404
    for task in (dead, cancelled):
        assert client.get(f"/api/tasks/{task.id}").status_code == 200


def test_a_purge_whose_time_is_up_says_that_there_is_more_and_the_next_one_goes_on(client, store, monkeypatch):
    """Spec: A7"""
    done = put(store, State.SUCCEEDED)
    asked = {"older_than_days": 0, "status": ["succeeded"]}
    with monkeypatch.context() as hurried:
        hurried.setattr("headgate.api.system.PURGE_SECONDS", -1.0)
        assert client.post("/api/purge", json=asked).json() == {"purged": {"succeeded": 0}, "more": True}
    assert client.get(f"/api/tasks/{done.id}").status_code == 200
    assert client.post("/api/purge", json=asked).json() == {"purged": {"succeeded": 1}, "more": False}


def test_a_purge_is_in_the_audit_with_who_asked(client, store):
    """Spec: A12"""
    cursor = store.events.last()
    client.post("/api/purge", json={"older_than_days": 1})
    events, _ = store.events.after(cursor)
    assert [(event.kind, event.actor) for event in events] == [("purged", "person")]


def test_only_what_has_ended_is_purged(client):
    """Spec: A7"""
    for status in (["dead"], ["queued"], []):
        assert client.post("/api/purge", json={"status": status}).status_code == 422
