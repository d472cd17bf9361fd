"""Parents and children over HTTP: how far a family is, and what becomes of it."""

import pytest

from headgate.core.machine import Raised, Returned
from tests.factories import running, settle, start, submit

GOOD, BAD = Returned(), Raised("no")


def looked_up(client, task_id):
    answer = client.get(f"/api/tasks/{task_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_parent_shows_how_far_its_children_are(client, store):
    """Spec: D7"""
    parent = running(store)
    for _ in range(4):
        submit(store, parent_id=parent.id)
    settle(store, parent, GOOD)
    for event in (GOOD, GOOD, BAD):
        settle(store, start(store)[0], event)
    found = looked_up(client, parent.id)
    assert (found["status"], found["progress"]) == ("waiting", {"done": 3, "total": 4, "failed": 1})
    assert found["children"] == {
        "total": 4, "ended": 3, "succeeded": 2, "failed": 1, "exact": True,
        "states": {"failed": 1, "queued": 1, "succeeded": 2},
    }  # fmt: skip
    settle(store, start(store)[0], GOOD)
    store.history.archive()
    ended = looked_up(client, parent.id)
    assert (ended["status"], ended["progress"]) == ("partial", {"done": 4, "total": 4, "failed": 1})


def test_while_its_own_code_runs_a_parent_s_progress_is_what_the_code_says(client, store):
    """Spec: D7, D3"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    assert looked_up(client, parent.id)["progress"] == {"done": 0, "total": 1}
    store.executions.progress(parent.id, parent.exec_id, '{"done": 7, "total": 9, "note": "dealing out"}')
    assert looked_up(client, parent.id)["progress"] == {"done": 7, "total": 9, "note": "dealing out"}
    settle(store, parent, GOOD)
    assert looked_up(client, parent.id)["progress"] == {"done": 0, "total": 1, "note": "dealing out"}


def test_a_list_shows_the_progress_of_parents(client, store):
    """Spec: D7, D3"""
    parent = running(store)
    for _ in range(2):
        submit(store, parent_id=parent.id)
    settle(store, parent, GOOD)
    settle(store, start(store)[0], GOOD)
    listed = {task["id"]: task for task in client.get("/api/tasks").json()["items"]}
    assert listed[parent.id]["progress"] == {"done": 1, "total": 2}
    assert listed[parent.id]["children"]["ended"] == 1
    assert [task["progress"] for task in listed.values() if task["id"] != parent.id] == [None, None]


def test_a_task_without_children_shows_none(client, store):
    """Spec: D7"""
    found = looked_up(client, submit(store).id)
    assert "children" not in found
    assert found["progress"] is None


def test_a_child_that_fails_cancels_the_rest_where_its_parent_says_so(client, store):
    """Spec: D7"""
    asked = {"type": "plain", "on_child_failure": "cancel"}
    parent = client.post("/api/tasks", json=asked).json()
    assert parent["on_child_failure"] == "cancel"
    [execution] = start(store)
    bulk = {"tasks": [{"type": "plain", "parent_id": parent["id"]}] * 3}
    children = [child["id"] for child in client.post("/api/tasks/bulk", json=bulk).json()["tasks"]]
    settle(store, start(store)[0], BAD)
    settle(store, execution, GOOD)
    assert [looked_up(client, child)["status"] for child in children] == ["failed", "cancelled", "cancelled"]
    assert looked_up(client, parent["id"])["status"] == "failed"


def test_a_type_says_what_a_failed_child_means_for_the_others(client, store):
    """Spec: D7, B5"""
    put = client.put("/api/task-types/strict", json={"config": {"on_child_failure": "cancel"}})
    assert put.json()["config"]["on_child_failure"] == "cancel"
    assert store.types.by_code()["strict"].on_child_failure == "cancel"


@pytest.mark.parametrize("policy", ["panic", "", 1])
def test_a_policy_nobody_knows_is_refused(client, policy):
    """Spec: D7"""
    assert client.post("/api/tasks", json={"type": "plain", "on_child_failure": policy}).status_code == 422
    answer = client.put("/api/task-types/x", json={"config": {"on_child_failure": policy}})
    assert answer.status_code == 422


def test_a_parent_that_gave_up_says_so_and_takes_no_more_children(client, store):
    """Spec: D7"""
    parent = running(store)
    submit(store, parent_id=parent.id)
    start(store)
    settle(store, parent, BAD)
    found = looked_up(client, parent.id)
    assert (found["status"], found["gave_up"], found["error_info"]) == ("waiting", True, "no")
    refused = client.post("/api/tasks", json={"type": "plain", "parent_id": parent.id})
    assert refused.status_code == 409
    assert "accepts no more children" in refused.json()["detail"]


def test_cancelling_a_parent_cancels_its_children(client, store):
    """Spec: D7, B8"""
    parent = submit(store)
    children = [submit(store, parent_id=parent.id).id for _ in range(3)]
    assert client.post(f"/api/tasks/{parent.id}/cancel").json()["status"] == "cancelled"
    assert {looked_up(client, child)["status"] for child in children} == {"cancelled"}
