"""Lanes, resources and rate limits over HTTP."""

import pytest

from headgate.core.keys import Role
from headgate.core.limits import Rate
from headgate.core.task import TaskType
from tests.factories import running, start, submit


def lane(client, name):
    [found] = [each for each in client.get("/api/lanes").json()["items"] if each["name"] == name]
    return found


def test_a_lane_shows_what_runs_what_is_queued_and_what_waits(client, store):
    """Spec: C4, A9"""
    running(store, lane="x", mutex="m")
    submit(store, lane="x", mutex="m")
    submit(store, lane="x")
    submit(store, lane="x", delay_seconds=3600)
    store.statistics.take_sample()
    found = lane(client, "x")
    assert found.pop("as_of").endswith("Z")
    assert found.pop("drained")["in_seconds"] is None  # nothing of the kind has finished yet
    assert found == {
        "name": "x", "capacity": None, "running": 1, "others": 0, "queued": 1, "queued_exact": True, "blocked": 1,
        "later": 1, "paused": False, "pause": None, "source": "default",
    }  # fmt: skip


def test_a_tenant_sees_its_own_part_of_a_lane_and_how_many_others_fill_it(client, store):
    """Spec: B11, X12"""
    store.lanes.set_capacity("x", 2)
    for tenant_id in (1, 2):
        running(store, lane="x", tenant_id=tenant_id)
    for tenant_id in (1, 2):
        submit(store, lane=f"of {tenant_id}", tenant_id=tenant_id)
        for _ in range(tenant_id):
            submit(store, lane="x", tenant_id=tenant_id, delay_seconds=3600)
    store.statistics.take_sample()
    key = store.keys.add("k", Role.READ, tenant_id=1)[1]
    headers = {"Authorization": f"Bearer {key}"}
    lanes = {each["name"]: each for each in client.get("/api/lanes", headers=headers).json()["items"]}
    assert lanes.keys() == {"default", "of 1", "x"}
    assert [lanes["x"][name] for name in ("running", "others", "capacity", "later")] == [1, 1, 2, 1]
    stats = client.get("/api/queue/stats", headers=headers).json()
    assert (stats["running"], stats["capacity"]) == (
        {"default": 0, "of 1": 0, "x": 1},
        {"default": None, "of 1": None, "x": 2},
    )
    counts = client.get("/api/counts", headers=headers).json()["items"]
    assert {(each["lane"], each["status"], each["count"]) for each in counts} == {
        ("of 1", "queued", 1), ("x", "pending", 1), ("x", "running", 1),
    }  # fmt: skip


def test_a_capacity_holds_at_once_and_null_lifts_it(client, store):
    """Spec: A9"""
    submit(store, lane="x")
    assert client.put("/api/lanes/x", json={"capacity": 0}).json()["capacity"] == 0
    assert start(store) == []
    assert client.put("/api/lanes/x", json={"capacity": None}).json()["capacity"] is None
    assert len(start(store)) == 1


def test_a_lane_is_paused_and_resumed(client, store):
    """Spec: A9"""
    submit(store, lane="x")
    for _ in range(2):
        assert client.put("/api/lanes/x", json={"paused": True}).json()["paused"] is True
    assert start(store) == []
    assert client.put("/api/lanes/x", json={"paused": False, "capacity": 3}).json() == lane(client, "x")
    assert len(start(store)) == 1


def test_the_pause_of_everything_shows(client, store):
    """Spec: A9"""
    assert client.get("/api/lanes").json()["everything_paused"] is False
    store.lanes.pause()
    assert client.get("/api/lanes").json()["everything_paused"] is True


def test_a_pause_shows_its_reason_and_end_wherever_it_holds(client, store):
    """Spec: A9"""
    store.rate_limits.set("key:k", Rate(5.0, 10))
    until = "2030-01-01T00:00:00Z"
    why = {"reason": "moving house", "until": until}
    for scope in ("lane:default", "type:plain", "tenant:3", "key:k", "all"):
        assert client.post(f"/api/queue/pause?scope={scope}", json=why).status_code == 200
    pauses = client.get("/api/pauses").json()["items"]
    assert [(pause["scope"], pause["name"]) for pause in pauses] == [
        ("all", ""), ("key", "k"), ("lane", "default"), ("tenant", "3"), ("type", "plain"),
    ]  # fmt: skip
    for pause in pauses:
        assert (pause["reason"], pause["until"], pause["actor"]) == ("moving house", until, "person")
    everything, key, of_lane, _, of_type = pauses
    lanes = client.get("/api/lanes").json()
    assert (lanes["everything_paused"], lanes["pause"]) == (True, everything)
    assert lane(client, "default")["pause"] == of_lane
    assert client.get("/api/task-types/plain").json()["pause"] == of_type
    assert client.get("/api/rate-limits/key:k").json()["pause"] == key
    for pause in pauses:
        scope = f"{pause['scope']}:{pause['name']}".removesuffix(":")
        assert client.post(f"/api/queue/resume?scope={scope}").status_code == 200
    assert client.get("/api/pauses").json() == {"items": []}


@pytest.mark.parametrize(
    ("scope", "body", "status"),
    [
        ("type:none", {}, 404),
        ("lane:none", {}, 404),
        ("tenant:x", {}, 422),
        ("key:", {}, 422),
        ("all:x", {}, 422),
        ("all", {"until": "2001-01-01T00:00:00Z"}, 422),
        ("all", {"until": "2030-01-01T00:00:00"}, 422),
        ("all", {"because": "x"}, 422),
    ],
)
def test_a_pause_that_breaks_a_rule_is_refused(client, scope, body, status):
    """Spec: A9"""
    assert client.post(f"/api/queue/pause?scope={scope}", json=body).status_code == status
    assert client.get("/api/pauses").json() == {"items": []}


def test_a_type_that_was_read_while_it_is_paused_may_be_sent_back(client, store):
    """Spec: B5"""
    client.post("/api/queue/pause?scope=type:plain")
    read = client.get("/api/task-types/plain").json()
    assert client.put("/api/task-types/plain", json=read).status_code == 200


def test_the_audit_says_who_changed_a_lane(client, store):
    """Spec: A12"""
    cursor = store.events.last()
    client.put("/api/lanes/x", json={"capacity": 2, "paused": True})
    events, _ = store.events.after(cursor)
    assert [(event.kind, event.actor) for event in events] == [("capacity_changed", "person"), ("paused", "person")]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("x", {}),
        ("x", {"capacity": -1}),
        ("x", {"capacity": 1_000_001}),
        ("x", {"capacity": "2"}),
        ("x", {"paused": None}),
        ("x", {"name": "y"}),
        ("*", {"paused": True}),
        ("%00", {"paused": True}),
        ("x" * 256, {"paused": True}),
    ],
)
def test_a_change_that_breaks_a_rule_is_refused_and_makes_no_lane(client, name, body):
    """Spec: A9"""
    before = client.get("/api/lanes").json()
    assert client.put(f"/api/lanes/{name}", json=body).status_code == 422
    assert client.get("/api/lanes").json() == before


def test_resources_are_listed_looked_up_and_changed(client, store):
    """Spec: A11, C3"""
    unused = {"running": 0, "waiting": 0, "holders": [], "waiters": []}
    resource = {"name": "yt-dlp", "capacity": 2, "source": "person"} | unused
    assert client.put("/api/resources/yt-dlp", json={"capacity": 2}).json() == resource
    assert client.get("/api/resources/yt-dlp").json() == resource
    names = [each["name"] for each in client.get("/api/resources").json()["items"]]
    assert names == ["disk-writer", "yt-dlp"]
    assert client.get("/api/resources/none").status_code == 404
    assert client.put("/api/resources/yt-dlp", json={"capacity": None}).status_code == 422


def test_a_resource_names_those_that_use_it_hold_it_and_wait_for_it(client, store):
    """Spec: C3, X3"""
    store.types.put(TaskType("copy", uses=("net",)))
    store.resources.set("net", 2)
    user, holder, waiter = running(store, "copy"), running(store), running(store)
    for each in (holder, waiter):
        store.holds.take(each.id, each.exec_id, "net")
    told = client.get("/api/resources/net").json()
    assert (told["running"], told["waiting"]) == (2, 1)
    assert [each["task_id"] for each in told["holders"]] == [user.id, holder.id]
    assert [each["since"] is None for each in told["holders"]] == [True, False]
    assert [each["task_id"] for each in told["waiters"]] == [waiter.id]


def test_rate_limits_are_put_listed_looked_up_lifted_and_removed(client, store):
    """Spec: D8"""
    put = client.put("/api/rate-limits/key:openai", json={"rate": 5, "burst": 10})
    told = {"name": "key:openai", "rate": 5.0, "burst": 10, "source": "person", "pause": None}
    others = {"name": "key:*", "rate": 10.0, "burst": 20, "source": "default", "pause": None}
    assert (put.status_code, put.json()) == (200, told)
    assert {each.name: each.limit for each in store.rate_limits.all()}["key:openai"] == Rate(5.0, 10)
    assert client.get("/api/rate-limits/key:openai").json() == put.json()
    assert client.get("/api/rate-limits").json() == {"items": [others, told]}
    lifted = client.put("/api/rate-limits/key:openai", json={"rate": None})
    assert (lifted.status_code, lifted.json()) == (200, told | {"rate": None, "burst": None})
    assert client.get("/api/rate-limits/key:openai").json() == lifted.json()
    assert client.put("/api/rate-limits/type:none", json={"rate": None, "burst": None}).status_code == 404
    assert client.delete("/api/rate-limits/key:openai").status_code == 204
    assert client.get("/api/rate-limits").json() == {"items": [others]}
    for method in ("GET", "DELETE"):
        assert client.request(method, "/api/rate-limits/key:openai").status_code == 404


def test_a_lane_is_removed_once_its_tasks_have_ended(client, store):
    """Spec: A9"""
    task = submit(store, lane="x")
    refused = client.delete("/api/lanes/x")
    assert refused.status_code == 409
    assert refused.json()["detail"] == "lane x has 1 open task: wait for it to end, or cancel it"
    store.tasks.cancel(task.id)
    assert client.delete("/api/lanes/x").status_code == 204
    assert client.delete("/api/lanes/x").status_code == 404
    assert client.delete("/api/lanes/*").status_code == 422
    assert client.get(f"/api/tasks/{task.id}").json()["lane"] == "x"


def test_a_resource_is_removed_unless_a_type_uses_it(client, store):
    """Spec: A11"""
    store.types.put(TaskType("copy", uses=("net",)))
    refused = client.delete("/api/resources/net")
    assert (refused.status_code, "used by task type copy" in refused.json()["detail"]) == (409, True)
    store.types.remove("copy")
    assert client.delete("/api/resources/net").status_code == 204
    assert client.delete("/api/resources/net").status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/lanes/x", {"capacity": 2}),
        ("/api/resources/x", {"capacity": 2}),
        ("/api/rate-limits/key:x", {"rate": 1, "burst": 2}),
    ],
)
def test_a_limit_is_handed_back_to_the_next_declaration(client, path, body):
    """Spec: X10"""
    assert client.post(f"{path}/reset").status_code == 404
    assert client.put(path, json=body).json()["source"] == "person"
    reset = client.post(f"{path}/reset").json()
    assert reset["source"] == "default"
    assert reset.items() >= body.items()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai", {"rate": 5, "burst": 10}),
        ("key:", {"rate": 5, "burst": 10}),
        ("key:a", {"rate": 0, "burst": 10}),
        ("key:a", {"rate": 5, "burst": 0}),
        ("key:a", {"rate": 5}),
    ],
)
def test_a_rate_limit_that_breaks_a_rule_is_refused(client, store, name, body):
    """Spec: D8"""
    assert client.put(f"/api/rate-limits/{name}", json=body).status_code == 422
    assert [each.name for each in store.rate_limits.all()] == ["key:*"]


def test_a_name_with_a_slash_is_reached_like_any_other(client, store):
    """Spec: X6"""
    submit(store, lane="eu/west")
    assert client.put("/api/lanes/eu%2Fwest", json={"capacity": 3}).json()["name"] == "eu/west"
    assert lane(client, "eu/west")["capacity"] == 3
    assert client.put("/api/task-types/pay%2frefund", json={}).json()["code"] == "pay/refund"
    assert client.get("/api/task-types/pay%2Frefund").status_code == 200
    assert client.put("/api/rate-limits/key:a%2Fb", json={"rate": 1, "burst": 2}).status_code == 200
    assert client.get("/api/task-types/pay/refund").status_code == 404
