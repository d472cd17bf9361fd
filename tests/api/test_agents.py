"""Remote agents: what they are handed, what they report, what is asked of them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

import headgate.api.agents.cache as agent_cache
from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.core.retry import fixed
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.duties import Reaper
from headgate.settings import Settings
from headgate.store.store import open_store
from headgate.threads import inline
from tests.api.conftest import HERE
from tests.duties.turns import turn
from tests.factories import kinds, lose, record, submit
from tests.worker.conftest import until

NEVER = "00000000-0000-4000-8000-000000000000"
SETTINGS = Settings()
REPORTS: dict[str, dict[str, Any]] = {
    "start": {}, "beat": {}, "progress": {"done": 1}, "log": {"lines": [{"message": "x"}]},
    "checkpoint": {"name": "n", "state": 1}, "complete": {"result": 1}, "fail": {"error_info": "late"},
    "cancelled": {}, "paused": {}, "release": {},
}  # fmt: skip


@pytest.fixture
def store(url):
    with open_store(url) as store:
        for kind in (
            TaskType("plain"),
            TaskType("again", retry=fixed(0, retries=2)),
            TaskType("strict", retry=fixed(60, retries=3), unknown_errors="fail"),
            TaskType("sorted", category="parcels"),
            TaskType("called-back", callback={"success": {"url": "https://example.org", "method": "POST"}}),
        ):
            store.types.put(kind)
        yield store


@pytest.fixture
def client(store):
    with TestClient(create_app(store, SETTINGS), base_url=HERE) as client:
        yield Client(client)


class Client:
    """Somebody who asks, and keeps to what it was told."""

    def __init__(self, http):
        self.http = http

    def post(self, path, body, expect=200):
        answer = self.http.post(path, json=body)
        assert answer.status_code == expect, answer.text
        return answer.json()

    def claim(self, agent="one", **wanted):
        return self.post(f"/api/agents/{agent}/claim", wanted)["tasks"]

    def tell(self, what, task, agent="one", expect=200, **said):
        return self.post(f"/api/agents/{agent}/tasks/{task['id']}/{what}", {"exec_id": task["exec_id"], **said}, expect)


def test_a_claim_hands_over_due_tasks_with_all_that_an_agent_needs(store, client):
    """Spec: B2"""
    first = submit(store, ext='{"n": 1}', name="first", mutex="m", correlation_id="c")
    submit(store, delay_seconds=3600)
    [task] = client.claim(limit=10)
    row = store.tasks.get(first.id)
    assert (task["id"], task["ext"], task["attempt"], task["status"]) == (first.id, {"n": 1}, 1, "running")
    assert (task["name"], task["mutex"], task["correlation_id"]) == ("first", "m", "c")
    assert (row.exec_id, row.executing_deadline) == (
        task["exec_id"], datetime.fromisoformat(task["executing_deadline"]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "found"),
    [({}, "abcd"), ({"types": ["sorted"]}, "b"), ({"categories": ["parcels", "x"]}, "b"), ({"creator": 7}, "c"),
     ({"tenant_id": 3}, "d"), ({"types": ["nothing"]}, ""), ({"limit": 2, "tenant_id": 0}, "ab")],
)  # fmt: skip
def test_a_claim_is_filtered_by_type_category_creator_and_tenant(store, client, wanted, found):
    """Spec: B2"""
    submit(store, name="a")
    submit(store, "sorted", name="b")
    submit(store, creator=7, name="c")
    submit(store, tenant_id=3, name="d")
    assert "".join(sorted(task["name"] for task in client.claim(**{"limit": 9} | wanted))) == found


def test_a_repeated_claim_gets_the_same_tasks(store, client):
    """Spec: B2"""
    for _ in range(4):
        submit(store)
    submit(store, agent_id="one")
    first = client.claim(limit=3, claim_id="x")
    assert client.claim(limit=3, claim_id="x") == sorted(first, key=lambda task: task["id"])
    assert {task["id"] for task in first}.isdisjoint(task["id"] for task in client.claim(limit=3, claim_id="y"))


def test_an_assigned_task_is_handed_to_its_agent_alone_and_runs_when_the_start_is_confirmed(store, client):
    """Spec: E1"""
    free, own = submit(store), submit(store, agent_id="one")
    assert [task["id"] for task in client.claim("two", limit=5, types=["plain"])] == [free.id]
    [task] = client.claim("one", limit=5)
    assert (task["id"], task["status"], store.tasks.get(own.id).status) == (own.id, "scheduling", State.SCHEDULING)
    assert store.tasks.get(own.id).scheduling_time is not None
    assert client.tell("complete", task, expect=409)["type"].endswith(":refused")
    assert client.tell("start", task)["status"] == "running"
    assert client.tell("start", task)["status"] == "running"  # its answer may have been lost
    assert store.tasks.get(own.id).status is State.RUNNING
    assert client.tell("complete", task)["status"] == "succeeded"


def test_an_assigned_task_that_was_cancelled_cannot_be_started(store, client):
    """Spec: E1, B8"""
    own = submit(store, agent_id="one")
    [task] = client.claim()
    store.tasks.cancel(own.id)
    assert client.tell("start", task, expect=409)["type"].endswith(":stale-execution")
    assert store.tasks.get(own.id).status is State.CANCELLED


def test_an_assigned_task_whose_lane_was_paused_is_held_back_until_it_is_resumed(store, client):
    """Spec: E1, A9"""
    own = submit(store, agent_id="one", lane="x")
    [task] = client.claim()
    store.lanes.pause("x")
    problem = client.tell("start", task, expect=409)
    assert problem["type"].endswith(":paused")
    assert problem["detail"] == f"task {own.id} cannot start now (lane x is paused) and is back in the queue"
    assert store.tasks.get(own.id).status is State.QUEUED
    assert client.tell("start", task, expect=409)["type"].endswith(":stale-execution")


def test_the_same_agent_keeps_its_row_on_every_server_while_its_lease_lives(store, url, client):
    """Spec: B2"""
    client.claim(types=["plain"])
    with open_store(url) as other, TestClient(create_app(other, SETTINGS), base_url=HERE) as http:
        Client(http).claim(types=["sorted"], lease_seconds=45)
    [row] = store.workers.all()
    assert (row.agent_id, row.types, row.lease_seconds) == ("one", ("plain", "sorted"), 45)
    lose(store, row.id)
    client.claim()
    [fresh] = store.workers.all()
    assert fresh.id > row.id


def test_many_servers_that_hear_of_an_agent_at_once_make_one_row(store, url):
    """Spec: B2"""
    with open_store(url) as other, ThreadPoolExecutor(8) as pool:
        start = threading.Barrier(8)

        def sign_on(place):
            start.wait(timeout=60)
            return (store, other)[place % 2].agents.sign_on("one", tenant_id=1, types=None, lease_seconds=30).worker_id

        assert len(set(pool.map(sign_on, range(8)))) == 1
    assert len(store.workers.all()) == 1


def test_without_a_lease_a_task_stays_with_its_agent_until_the_deadline(store, client):
    """Spec: B2, B3"""
    submit(store, timeout_seconds=500)
    client.claim()
    [row] = store.workers.all()
    assert row.lease_seconds > 500
    client.claim("two", lease_seconds=20)
    assert store.workers.all()[1].lease_seconds == 20


UNDER_WAY = ("start", "beat", "progress", "log", "checkpoint")


def test_every_call_tells_what_is_asked(store, client):
    """Spec: B2, B8"""
    submit(store)
    [task] = client.claim()
    for ask, control in ((store.tasks.get, "none"), (store.tasks.pause, "pause"), (store.tasks.cancel, "cancel")):
        ask(task["id"])
        assert {client.tell(what, task, **REPORTS[what])["control"] for what in UNDER_WAY} == {control}


def test_every_call_renews_the_lease(store, client, monkeypatch):
    """Spec: B2"""
    monkeypatch.setattr(agent_cache, "FRESH_SECONDS", 0.0)
    submit(store)
    [task] = client.claim(lease_seconds=5)
    for what in UNDER_WAY:
        [before] = store.workers.all()
        client.tell(what, task, **REPORTS[what])
        assert store.workers.all()[0].lease_until > before.lease_until, what


def test_reports_are_kept_with_the_task(store, client):
    """Spec: B2, A12"""
    submit(store, "again")
    [task] = client.claim()
    client.tell("progress", task, done=1, note="a", data={"speed": [1, 2]})
    client.tell("log", task, lines=[{"message": "a", "level": "error"}, {"message": "b"}])
    client.tell("checkpoint", task, name="page", state={"n": 2})
    found, events, lines, _ = record(store, task["id"])
    assert found.progress == '{"done":1.0,"note":"a","data":{"speed":[1,2]}}'
    assert [(line.level, line.message) for line in lines] == [("error", "a"), ("info", "b")]
    assert [event.actor for event in events if event.kind == "progress"] == ["agent:one"]
    client.tell("fail", task, error_info="no")
    store.due.bring()
    [again] = client.claim("two")
    assert (again["attempt"], again["error_count"], again["checkpoints"]) == (2, 1, {"page": {"n": 2}})


def told(store, task_id: int) -> list[str]:
    return [event.detail for event in store.events.of(task_id) if event.kind == "progress"]


def test_the_last_progress_of_an_agent_is_told_before_the_end(store, client):
    """Spec: D3, D6"""
    submit(store)
    [task] = client.claim()
    for done in (1, 2, 3):
        client.tell("progress", task, done=done)
    client.tell("complete", task)
    assert told(store, task["id"]) == ['{"done":3.0}']
    assert [event.kind for event in store.events.of(task["id"])][-2:] == ["progress", "completed"]


def test_the_last_progress_of_an_agent_is_told_a_moment_later_while_it_goes_on_in_silence(store, client):
    """Spec: D3, D6"""
    submit(store)
    [task] = client.claim()
    for done in (1, 2, 3):
        client.tell("progress", task, done=done)
    until(lambda: told(store, task["id"]) == ['{"done":3.0}'])
    assert store.tasks.get(task["id"]).status == "running"


@pytest.mark.parametrize(("status", "state"), [("Completed", "notifying"), ("Success", "succeeded")])
def test_completed_asks_for_the_callback_and_success_does_without(store, client, status, state):
    """Spec: B6"""
    submit(store, "called-back")
    [task] = client.claim()
    answer = client.tell("complete", task, status=status, result={"a": [1]})
    assert (answer["status"], store.tasks.get(task["id"]).result) == (state, '{"a":[1]}')


@pytest.mark.parametrize(
    ("type_code", "said", "state"),
    [("again", {}, State.RETRYING), ("again", {"retryable": False}, State.FAILED), ("plain", {}, State.FAILED),
     ("strict", {}, State.FAILED), ("strict", {"retryable": True}, State.RETRYING)],
)  # fmt: skip
def test_a_failure_follows_the_policy_of_the_type(store, client, type_code, said, state):
    """Spec: B3, A5"""
    submit(store, type_code)
    [task] = client.claim()
    assert client.tell("fail", task, error_info="it broke", **said)["status"] == state
    row = store.tasks.get(task["id"])
    assert (row.status, row.error_count, row.error_info) == (state, 1, "it broke")


@pytest.mark.parametrize(
    ("names", "retryable", "state"),
    [
        (["CardExpired", "PaymentError"], True, "failed"),
        (["PaymentError"], False, "retrying"),
        (["KeyError"], None, "retrying"),
        ([], False, "failed"),
    ],
)
def test_the_error_classes_that_a_type_lists_hold_for_agents_too(store, client, names, retryable, state):
    """Spec: A5"""
    store.types.put(TaskType("again", retry=fixed(60, retries=3), retry_on=("PaymentError",), fatal=("CardExpired",)))
    submit(store, "again")
    [task] = client.claim()
    answer = client.tell("fail", task, error_info="it broke", retryable=retryable, error_names=names)
    assert answer["status"] == state


def test_the_next_try_waits_at_least_as_long_as_the_agent_says(store, client):
    """Spec: A5"""
    submit(store, "again")
    [task] = client.claim()
    client.tell("fail", task, error_info="busy", retry_after=500)
    row = store.tasks.get(task["id"])
    assert (row.start_time - row.update_date).total_seconds() == pytest.approx(500, abs=1)


def test_cancel_and_pause_end_an_execution_only_if_they_were_asked_for(store, client):
    """Spec: B8, A2"""
    for end, ask, state in (("cancelled", store.tasks.cancel, "cancelled"), ("paused", store.tasks.pause, "paused")):
        submit(store)
        [task] = client.claim()
        assert client.tell(end, task, expect=409)["type"].endswith(":refused")
        ask(task["id"])
        assert client.tell(end, task)["status"] == state


def test_a_task_that_is_given_back_counts_nothing_and_goes_to_another(store, client):
    """Spec: D9"""
    submit(store)
    [task] = client.claim()
    assert client.tell("release", task)["status"] == "queued"
    [again] = client.claim("two")
    assert (again["id"], again["error_count"], store.tasks.get(task["id"]).lost_count) == (task["id"], 0, 0)


def test_a_report_under_an_old_exec_id_changes_nothing_and_says_why(store, client):
    """Spec: B3"""
    submit(store, "again", timeout_seconds=0.001)
    [old] = client.claim()
    while not store.executions.end_overdue():
        pass
    [new] = client.claim("two")
    before = record(store, new["id"])
    for what, said in REPORTS.items():
        problem = client.tell(what, old, expect=409, **said)
        assert problem["type"] == "urn:headgate:problem:stale-execution", what
        assert "its deadline had passed" in problem["detail"], what
        assert record(store, new["id"]) == before, what
    assert before[0].error_count == 1


def test_an_exec_id_that_never_was_and_another_agents_change_nothing(store, client):
    """Spec: B3"""
    submit(store)
    [task] = client.claim()
    before = record(store, task["id"])
    for what, said in REPORTS.items():
        assert "it never owned it" in client.tell(what, task | {"exec_id": NEVER}, expect=409, **said)["detail"], what
        client.tell(what, task, agent="two", expect=409, **said)
        assert record(store, task["id"]) == before, what


def test_a_task_past_its_deadline_goes_to_another_agent_at_once_and_counts_one_error(store, client):
    """Spec: B3"""
    late = submit(store, "again", timeout_seconds=0.001)
    client.claim(claim_id="x")
    reaper = Reaper(store, SETTINGS, inline)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.claim, "two", wait_seconds=60)
        while not turn(reaper):
            pass
        [task] = waiting.result(timeout=60)
    assert (task["id"], task["attempt"], task["error_count"]) == (late.id, 2, 1)
    assert kinds(store, late.id)[-3:] == ["overdue", "retrying", "started"]


def test_many_reports_in_one_call_are_answered_one_by_one(store, client):
    """Spec: B3"""
    for _ in range(3):
        submit(store)
    submit(store, "again")
    submit(store, agent_id="one")
    tasks = sorted(client.claim(limit=9), key=lambda task: task["id"])
    said: list[dict[str, Any]] = [
        {"status": "Success", "result": 1}, {"status": "Completed", "exec_id": NEVER}, {"status": "Cancelled"},
        {"status": "Error", "error_info": "no"}, {"status": "Completed"},
    ]  # fmt: skip
    reports = [{"id": task["id"], "exec_id": task["exec_id"]} | words for task, words in zip(tasks, said, strict=True)]
    reports.append({"id": 999, "exec_id": NEVER, "status": "Success"})
    reports.append({"id": tasks[0]["id"], "exec_id": tasks[0]["exec_id"], "status": "Success", "result": "x" * 300_000})
    items = client.post("/api/agents/one/report", {"reports": reports})["items"]
    assert [item["status"] or item["problem"]["type"].rpartition(":")[2] for item in items] == [
        "succeeded", "stale-execution", "refused", "retrying", "refused", "not-found", "invalid",
    ]  # fmt: skip
    assert [store.tasks.get(task["id"]).status.value for task in tasks] == [
        "succeeded", "running", "running", "retrying", "scheduling",
    ]  # fmt: skip


def test_a_claim_that_breaks_a_rule_is_refused_and_takes_nothing(store, client):
    """Spec: B2"""
    task = submit(store)
    body: dict[str, Any]
    for body in (
        {"limit": 0}, {"limit": 101}, {"wait_seconds": 61}, {"lease_seconds": 1}, {"types": []}, {"nonsense": 1},
        {"claim_id": ""}, {"claim_id": "a\0"}, {"types": ["a\0"]}, {"limit": "many"},
    ):  # fmt: skip
        client.post("/api/agents/one/claim", body, expect=422)
    assert store.tasks.get(task.id).status is State.QUEUED


def test_names_that_cannot_be_kept_are_refused(store, client):
    """Spec: B2"""
    for path in ("%00/claim", "a" * 256 + "/claim"):
        client.post(f"/api/agents/{path}", {}, expect=422)
    client.post("/api/agents/%00/tasks/1/beat", {"exec_id": NEVER}, expect=422)
    client.post("/api/agents/one/tasks/1/beat", {"exec_id": "x"}, expect=422)
    client.post("/api/agents/one/tasks/1/beat", {"exec_id": NEVER}, expect=404)


def test_a_report_is_taken_by_any_server_and_by_each_only_once(store, url, client):
    """Spec: B3. Also by the one that handed the task out, and remembers it."""
    submit(store), submit(store)
    first, second = client.claim(limit=2)
    with open_store(url) as other, TestClient(create_app(other, SETTINGS), base_url=HERE) as http:
        assert Client(http).tell("complete", first, status="Success", result=1)["status"] == "succeeded"
        assert "its end is on record" in client.tell("complete", first, expect=409, result=2)["detail"]
        assert client.tell("complete", second, status="Success", result=3)["status"] == "succeeded"
        assert "its end is on record" in Client(http).tell("complete", second, expect=409, result=4)["detail"]
    assert [store.tasks.get(task["id"]).result for task in (first, second)] == ["1", "3"]


@pytest.mark.parametrize("late_first", [False, True])
def test_a_late_report_beside_the_right_one_does_it_no_harm(store, client, late_first):
    """Spec: B3"""
    submit(store, "again", timeout_seconds=0.001)
    [late] = client.claim()
    while not store.executions.end_overdue():
        pass
    [right] = client.claim()
    told = [(late, {"late": 1}), (right, {"right": 1})] if late_first else [(right, {"right": 1}), (late, {"late": 1})]
    reports = [
        {"id": task["id"], "exec_id": task["exec_id"], "status": "Success", "result": result} for task, result in told
    ]
    client.post("/api/agents/one/report", {"reports": reports})
    task = store.tasks.get(right["id"])
    assert (task.status, task.result) == (State.SUCCEEDED, '{"right":1}')


def test_a_success_that_is_reported_for_another_task_changes_neither(store, client):
    """Spec: B3"""
    submit(store), submit(store)
    first, second = client.claim(limit=2)
    client.tell("complete", {"id": first["id"], "exec_id": second["exec_id"]}, expect=409)
    assert {store.tasks.get(task["id"]).status for task in (first, second)} == {State.RUNNING}


def test_a_key_of_one_tenant_learns_nothing_of_anothers_tasks(store):
    """Spec: B11"""
    store.tasks.submit(NewTask("plain", tenant_id=2))
    _, theirs = store.keys.add("theirs", role=Role.AGENT, tenant_id=2)
    _, ours = store.keys.add("ours", role=Role.AGENT, tenant_id=1)
    with TestClient(create_app(store, SETTINGS), base_url=HERE) as http:
        client = Client(http)
        http.headers["Authorization"] = f"Bearer {theirs}"
        [task] = client.claim()
        http.headers["Authorization"] = f"Bearer {ours}"
        client.post("/api/agents/one/claim", {"tenant_id": 2}, expect=403)
        assert client.claim(limit=9) == []
        for what, said in REPORTS.items():
            assert client.tell(what, task, expect=404, **said)["detail"] == f"no task {task['id']}", what
        report = {"id": task["id"], "exec_id": task["exec_id"], "status": "Success"}
        [item] = client.post("/api/agents/one/report", {"reports": [report]})["items"]
        assert item["problem"]["type"].endswith(":not-found")
    assert store.tasks.get(task["id"]).status is State.RUNNING
    assert {row.tenant_id for row in store.workers.all()} == {1, 2}


def test_what_an_agent_does_names_its_key_in_the_audit_and_its_name_alone_in_its_attempts(store):
    """Spec: A12, B11"""
    submit(store)
    key, secret = store.keys.add("rig", role=Role.AGENT)
    with TestClient(create_app(store, SETTINGS), base_url=HERE) as http:
        http.headers["Authorization"] = f"Bearer {secret}"
        client = Client(http)
        [task] = client.claim()
        client.tell("progress", task, done=1)
        client.tell("complete", task, result=1)
    actors = {event.kind: event.actor for event in store.events.of(task["id"])}
    assert (actors["progress"], actors["completed"]) == (f"agent:one key:{key.id}", f"agent:one key:{key.id}")
    assert [attempt.executor for attempt in store.attempts.of(task["id"])] == ["agent:one"]


def test_an_agent_that_dies_and_comes_back_as_another_process_does_not_keep_what_it_lost(store, client):
    """Spec: B3"""
    submit(store)
    [first] = client.claim(lease_seconds=5, instance="1")
    assert client.claim(lease_seconds=5, instance="2") == []
    held = {worker.id: worker.name for worker in store.workers.all()}
    assert sorted(held.values()) == ["one 1", "one 2"]
    [dead] = [worker for worker in store.workers.all() if worker.name == "one 1"]
    assert store.workers.mark_lost(dead.id, dead.lease_until)
    assert [task.id for task in store.executions.rescue(dead.id)] == [first["id"]]
    [again] = client.claim(lease_seconds=5, instance="2")
    assert (again["id"], again["attempt"]) == (first["id"], 2)
