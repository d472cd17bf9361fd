"""What people ask of tasks over HTTP, of one or of many."""

import pytest

from headgate.core.states import FINAL, State
from tests.factories import lose, put, record, submit

BODIES = {"resolve": {"remark": "by hand"}}
ACTIONS = ("cancel", "pause", "resume", "retry", "resolve", "discard", "prioritize")


def act(client, action, task_id, body=None):
    body = BODIES.get(action) if body is None else body
    path = f"/api/tasks/{task_id}/{action}"
    return client.post(path) if body is None else client.post(path, json=body)


def many(client, action, **fields):
    extra = BODIES.get(action, {}) if not fields.get("dry_run") else {}
    answer = client.post("/api/tasks/actions", json={"action": action, **extra, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def clear(client, store):
    """Leave nothing that could be claimed."""
    many(client, "cancel", filter={"status": [state for state in State if state not in FINAL]})
    for held in store.workers.all():
        lose(store, held.id)
        store.executions.rescue(held.id)


def test_an_open_task_is_paused_resumed_prioritized_and_cancelled(client, store):
    """Spec: A2, B8"""
    first, second = submit(store), submit(store)
    assert act(client, "pause", second.id).json()["status"] == "paused"
    assert act(client, "resume", second.id).json()["status"] == "queued"
    assert act(client, "prioritize", second.id, {"priority": 9}).json()["priority"] == 9
    assert act(client, "prioritize", second.id).json()["priority"] < first.priority
    cancelled = act(client, "cancel", second.id, {"reason": "no more"}).json()
    assert (cancelled["status"], cancelled["remark"]) == ("cancelled", "no more")


def test_a_dead_task_is_resolved_discarded_or_retried(client, store):
    """Spec: B7, D12"""
    resolved = act(client, "resolve", put(store, State.DEAD).id).json()
    assert (resolved["status"], resolved["remark"]) == ("resolved", "by hand")
    assert act(client, "discard", put(store, State.DEAD).id).json()["status"] == "failed"
    assert act(client, "retry", put(store, State.DEAD).id).json()["status"] == "queued"


def test_a_final_task_is_retried_as_a_linked_copy(client, store):
    """Spec: A2"""
    done = put(store, State.SUCCEEDED)
    copy = act(client, "retry", done.id).json()
    assert (copy["retry_of"], copy["status"]) == (done.id, "queued")
    assert copy["id"] != done.id


def test_a_remark_is_needed_to_resolve(client, store):
    """Spec: B7"""
    dead = put(store, State.DEAD)
    for body in ({}, {"remark": ""}, {"remark": "x" * 4001}):
        assert act(client, "resolve", dead.id, body).status_code == 422
    assert client.post(f"/api/tasks/{dead.id}/resolve").status_code == 422
    assert store.tasks.get(dead.id) == dead


@pytest.mark.parametrize("state", State)
def test_a_dry_run_foretells_what_an_action_does_and_changes_nothing(client, store, state):
    """Spec: A2, D12"""
    for action in ACTIONS:
        task = put(store, state)
        before = record(store, task.id)
        [foretold] = many(client, action, ids=[task.id], dry_run=True)
        assert record(store, task.id) == before
        assert (foretold["id"], foretold["status"]) == (task.id, state)
        answer = act(client, action, task.id)
        assert answer.status_code == (409 if foretold["problem"] else 200)
        if foretold["problem"]:
            assert foretold["problem"] == answer.json()["detail"]
            assert record(store, task.id) == before
        clear(client, store)


def test_one_action_on_many_says_what_became_of_each(client, store):
    """Spec: D12"""
    dead, queued = put(store, State.DEAD), submit(store)
    done = many(client, "resolve", ids=[dead.id, queued.id, 4711])
    assert [(each["id"], each["status"]) for each in done] == [(dead.id, "resolved"), (queued.id, None), (4711, None)]
    assert "queued" in done[1]["problem"]
    assert "4711" in done[2]["problem"]


def test_an_action_on_what_a_filter_finds(client, store):
    """Spec: D12"""
    mine = [submit(store, lane="x", creator=creator).id for creator in (1, 1, 2)]
    other = submit(store)
    assert {each["id"] for each in many(client, "cancel", filter={"lane": "x", "creator": 1})} == set(mine[:2])
    found = many(client, "pause", filter={"status": ["queued"], "q": "plain"})
    assert {each["id"]: each["status"] for each in found} == {other.id: "paused", mine[2]: "paused"}


def test_many_are_given_a_priority(client, store):
    ids = [submit(store).id for _ in range(3)]
    many(client, "prioritize", ids=ids, priority=1)
    assert [store.tasks.get(task_id).priority for task_id in ids] == [1, 1, 1]


def test_an_action_by_a_filter_goes_on_where_it_has_stopped(client, store, monkeypatch):
    """Spec: D12. Also over a page on which nothing was found."""
    monkeypatch.setattr("headgate.store.reading.lists.MOST_READ", 4)
    wanted = [submit(store, name="wanted").id for _ in range(3)]
    for _ in range(9):
        submit(store)
    body = {"action": "cancel", "filter": {"q": "wanted"}}
    found, answer = [], client.post("/api/tasks/actions", json=body).json()
    assert (answer["items"], answer["next_cursor"] is None) == ([], False)
    while answer["next_cursor"] is not None:
        answer = client.post("/api/tasks/actions", json=body | {"cursor": answer["next_cursor"]}).json()
        found += [done["id"] for done in answer["items"]]
    assert found == wanted[::-1]
    assert {task.status for task in store.tasks.get_many(wanted).values()} == {State.CANCELLED}


@pytest.mark.parametrize(
    "body",
    [
        {"action": "cancel"},
        {"action": "cancel", "ids": [1], "cursor": 9},
        {"action": "cancel", "ids": []},
        {"action": "cancel", "ids": [1], "filter": {}},
        {"action": "cancel", "ids": list(range(1, 202))},
        {"action": "explode", "ids": [1]},
        {"action": "resolve", "ids": [1]},
        {"action": "cancel", "filter": {"colour": "red"}},
        {"action": "cancel", "filter": {"status": ["New"]}},
        {"action": "cancel", "filter": {"created_after": "2026-01-01T00:00:00"}},
    ],
)
def test_an_action_on_many_that_breaks_a_rule_touches_none(client, store, body):
    """Spec: D12"""
    task = submit(store)
    assert client.post("/api/tasks/actions", json=body).status_code == 422
    assert store.tasks.get(task.id) == task


def test_a_refused_action_says_why_as_a_code_with_its_values(client, store):
    task = submit(store)
    answer = client.post(f"/api/tasks/{task.id}/retry")
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (409, "urn:headgate:problem:refused")
    assert problem["code"] == "wrong-state"
    assert problem["params"] == {"task_id": task.id, "status": "queued", "action": "retry", "allowed": "dead,retrying"}
    assert problem["detail"] == f"task {task.id} is queued; only dead or retrying tasks can be retried"
    for dry_run in (True, False):
        body = {"action": "retry", "ids": [task.id], "dry_run": dry_run}
        [done] = client.post("/api/tasks/actions", json=body).json()["items"]
        assert (done["code"], done["params"], done["problem"]) == (
            problem["code"], problem["params"], problem["detail"],
        )  # fmt: skip


def test_what_is_not_there_and_what_breaks_a_rule_have_codes_too(client):
    missing = client.get("/api/tasks/4711").json()
    assert (missing["code"], missing["params"]) == ("no-task", {"task_id": 4711})
    unknown = client.post("/api/tasks", json={"type": "plian"}).json()
    assert (unknown["type"], unknown["code"]) == ("urn:headgate:problem:unknown-type", "unknown-type")
    assert unknown["params"]["type"] == "plian"
    past = client.post("/api/queue/pause", json={"until": "2001-01-01T00:00:00Z"}).json()
    assert (past["type"], past["code"]) == ("urn:headgate:problem:invalid", "pause-end-past")
    nowhere = client.get("/api/nowhere").json()
    assert (nowhere["code"], "params" in nowhere) == ("no-such-address", False)
