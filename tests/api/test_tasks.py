"""Tasks over HTTP: submitted, looked up, listed, explained."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.core.keys import Role
from headgate.core.machine import Raised, Returned
from headgate.core.states import State, View, status_word
from headgate.core.usage import Usage
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest, Outcome
from tests.factories import put, running, settle, start, submit
from tests.worker.conftest import working

B1 = {
    "id", "tenant_id", "type", "creator", "start_time", "status", "executing_deadline", "exec_id", "error_count",
    "error_info", "category", "remark", "ext", "result", "exec_time", "create_date", "update_date",
}  # fmt: skip
MORE = {
    "lane", "priority", "mutex", "attempt", "name", "agent_id", "parent_id", "retry_of", "unique_key", "progress",
    "correlation_id", "scheduling_time", "started_at", "finished_at",
}  # fmt: skip


def made(client, **fields):
    answer = client.post("/api/tasks", json={"type": "plain", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def ids_of(answer):
    assert answer.status_code == 200, answer.text
    return [task["id"] for task in answer.json()["items"]]


# submitting


def test_a_task_has_bs_names_and_what_was_asked_for(client):
    """Spec: B1"""
    asked = {
        "ext": {"to": ["a", 1, None]}, "creator": 7, "name": "first", "lane": "x", "category": "c", "priority": 2,
        "mutex": "m", "rate_key": "r", "agent_id": "a1", "unique_key": "u", "max_error_count": 3,
        "timeout_seconds": 9.5, "correlation_id": "k", "on_child_failure": "cancel",
    }  # fmt: skip
    task = made(client, **asked)
    assert task.keys() >= B1 | MORE
    assert {name: task[name] for name in asked} == asked
    assert (task["status"], task["tenant_id"], task["created"]) == ("queued", 0, True)
    looked_up = client.get(f"/api/tasks/{task['id']}").json()
    assert looked_up == {name: value for name, value in task.items() if name != "created"}


def test_a_task_may_start_later(client):
    """Spec: A2"""
    start_time = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    at = made(client, start_time=start_time.isoformat())
    assert (at["status"], datetime.fromisoformat(at["start_time"])) == ("pending", start_time)
    assert made(client, delay_seconds=60)["status"] == "pending"


def test_an_open_task_with_the_same_unique_key_is_given_back(client):
    """Spec: X2"""
    first, second = (made(client, unique_key="u") for _ in range(2))
    assert (first["created"], second["created"], second["id"]) == (True, False, first["id"])


def test_a_child_names_its_parent_and_is_found_by_it(client, store):
    """Spec: D7"""
    parent = made(client)
    children = [made(client, parent_id=parent["id"])["id"] for _ in range(3)]
    assert ids_of(client.get(f"/api/tasks/{parent['id']}/children")) == children[::-1]
    page = client.get(f"/api/tasks/{parent['id']}/children?limit=2").json()
    assert page["next_cursor"] == children[1]
    rest = client.get(f"/api/tasks/{parent['id']}/children?cursor={page['next_cursor']}")
    assert ids_of(rest) == children[:1]


def test_bulk_makes_all_in_the_order_given(client):
    """Spec: A1"""
    answer = client.post("/api/tasks/bulk", json={"tasks": [{"type": "plain", "name": f"n{n}"} for n in range(50)]})
    assert answer.status_code == 201
    tasks = answer.json()["tasks"]
    assert [task["name"] for task in tasks] == [f"n{n}" for n in range(50)]
    assert ids_of(client.get("/api/tasks?limit=100")) == [task["id"] for task in tasks][::-1]


@pytest.mark.parametrize(
    ("wrong", "status"),
    [({"type": "unheard-of"}, 422), ({"type": "plain", "ext": "x" * 300_000}, 422),
     ({"type": "plain", "parent_id": 10**9}, 404)],
)  # fmt: skip
def test_bulk_makes_all_or_none(client, wrong, status):
    """Spec: A1"""
    answer = client.post("/api/tasks/bulk", json={"tasks": [{"type": "plain"}, wrong, {"type": "plain"}]})
    assert answer.status_code == status
    assert ids_of(client.get("/api/tasks")) == []


@pytest.mark.parametrize("count", [0, 1001])
def test_bulk_takes_1_to_1000(client, count):
    """Spec: A1"""
    assert client.post("/api/tasks/bulk", json={"tasks": [{"type": "plain"}] * count}).status_code == 422
    assert ids_of(client.get("/api/tasks")) == []


@pytest.mark.parametrize(("path", "wrap"), [("", lambda task: task), ("/bulk", lambda task: {"tasks": [task, task]})])
def test_an_idempotency_key_makes_nothing_twice(client, path, wrap):
    """Spec: X2"""

    def ask(**fields):
        body = wrap({"type": "plain", "ext": {"b": 1, "a": 2}, **fields})
        return client.post(f"/api/tasks{path}", json=body, headers={"idempotency-key": "k1"})

    def ids(answer):
        assert answer.status_code == 201
        return [task["id"] for task in answer.json().get("tasks", [answer.json()])]

    first = ids(ask())
    assert ids(ask()) == first
    other = ask(priority=9)
    assert (other.status_code, other.json()["type"]) == (422, "urn:headgate:problem:key-reused")
    assert ids_of(client.get("/api/tasks")) == first[::-1]


def test_an_idempotency_key_makes_nothing_twice_at_once(client, store):
    """Spec: X2"""
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: client.post("/api/tasks", json={"type": "plain"}, headers={"idempotency-key": "k"}), range(8)
            )
        )
    assert {answer.json()["id"] for answer in answers} == set(ids_of(client.get("/api/tasks")))
    assert len(ids_of(client.get("/api/tasks"))) == 1


# waiting


def test_wait_answers_when_a_worker_has_finished_the_task(client, url):
    """Spec: X6"""
    app = Headgate(settings=Settings(url=url, poll_seconds=0.2))

    @app.task
    def double(number: int) -> int:
        return 2 * number

    try:
        with working(app):
            answer = client.post("/api/tasks?wait=60", json={"type": "double", "ext": {"number": 21}})
    finally:
        app.close()
    assert answer.status_code == 201
    assert (answer.json()["status"], answer.json()["result"]) == ("succeeded", 42)


def test_wait_says_202_when_the_time_is_up(client):
    """Spec: X6"""
    answer = client.post("/api/tasks?wait=0.01", json={"type": "plain"})
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert client.post("/api/tasks?wait=301", json={"type": "plain"}).status_code == 422


# looking up


def test_a_task_that_is_not_there_is_not_found_wherever_it_is_asked_about(client):
    """Spec: A13"""
    for part in ("", "/why", "/events", "/log", "/children"):
        assert client.get(f"/api/tasks/4711{part}").status_code == 404
    for action in ("cancel", "pause", "resume", "retry", "discard", "prioritize"):
        assert client.post(f"/api/tasks/4711/{action}").status_code == 404
    assert client.post("/api/tasks/4711/resolve", json={"remark": "x"}).status_code == 404


def test_why_says_gate_by_gate_what_a_task_waits_for(client, store):
    """Spec: X3"""
    holder = running(store, mutex="m")
    waiting = made(client, mutex="m")
    answer = client.get(f"/api/tasks/{waiting['id']}/why").json()
    assert (answer["task_id"], answer["status"]) == (waiting["id"], "blocked")
    shut = {gate["name"]: gate for gate in answer["gates"] if not gate["open"]}
    assert shut["mutex"]["holders"] == [holder.id]
    assert all(gate["reason"] for gate in answer["gates"])


def test_events_are_the_audit_oldest_first(client, store):
    """Spec: A12"""
    task = made(client)
    client.post(f"/api/tasks/{task['id']}/pause")
    client.post(f"/api/tasks/{task['id']}/cancel", json={"reason": "no more"})
    events = client.get(f"/api/tasks/{task['id']}/events").json()["items"]
    assert [(event["kind"], event["from"], event["to"], event["actor"]) for event in events] == [
        ("submitted", None, "queued", "person"),
        ("paused", "queued", "paused", "person"),
        ("cancelled", "paused", "cancelled", "person"),
    ]
    assert {"id", "task_id", "at", "exec_id", "correlation_id", "detail"} <= events[0].keys()
    later = client.get(f"/api/tasks/{task['id']}/events?after={events[0]['id']}&limit=1").json()["items"]
    assert later == [events[1]]


def test_a_tasks_own_log_lines(client, store):
    """Spec: A12"""
    execution = running(store)
    store.executions.add_log(execution.id, execution.exec_id, [("info", "one"), ("error", "two")])
    lines = client.get(f"/api/tasks/{execution.id}/log").json()["items"]
    assert [(line["level"], line["message"], line["attempt"]) for line in lines] == [
        ("info", "one", 1),
        ("error", "two", 1),
    ]
    assert client.get(f"/api/tasks/{execution.id}/log?after={lines[0]['id']}").json()["items"] == lines[1:]


def test_what_an_execution_used_is_told_where_it_was_measured(client, store):
    """Spec: A8"""
    process, thread, coroutine = running(store), running(store), running(store)
    ends = [Outcome(process, Returned(), Usage(1.5, 60_000_000, 4096, 8192)), Outcome(thread, Returned(), Usage(0.25))]
    store.executions.settle([*ends, Outcome(coroutine, Returned())])
    told = [client.get(f"/api/tasks/{each.id}").json().get("usage") for each in (process, thread, coroutine)]
    sizes = ("memory_bytes", "read_bytes", "written_bytes")
    assert told == [
        {"attempt": 1, "cpu_seconds": 1.5, "memory_bytes": 60_000_000, "read_bytes": 4096, "written_bytes": 8192},
        {"attempt": 1, "cpu_seconds": 0.25} | dict.fromkeys(sizes),
        None,
    ]


def test_what_a_program_stored_is_shown_as_it_is(client, store):
    """Spec: B1"""
    strange = submit(store, ext='{"half": "\\ud800", "big": 1' + "0" * 400 + "}")
    answer = client.get(f"/api/tasks/{strange.id}")
    assert answer.status_code == 200
    assert answer.text.count('"half": "\\ud800"') == 1


# listing


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("state", State)
def test_a_view_shows_and_finds_each_state_by_its_own_word(client, store, view, state):
    """Spec: A1, C1"""
    task = put(store, state)
    said = status_word(view, state, task.error_count)
    assert client.get(f"/api/tasks/{task.id}?view={view}").json()["status"] == said
    found = {each["id"]: each["status"] for each in client.get(f"/api/tasks?view={view}&status={said}").json()["items"]}
    assert found[task.id] == said
    assert set(found.values()) == {said}


@pytest.mark.parametrize(("view", "fresh", "failed"), [("B", "New", "Error"), ("D", "QUEUED", "RETRYING")])
def test_a_task_that_failed_before_is_found_by_the_word_it_shows(client, store, view, fresh, failed):
    """Spec: A1"""
    again = running(store, max_error_count=3)
    settle(store, again, Raised("once", 0.0))
    store.due.bring()
    new = submit(store)
    assert store.tasks.get(again.id).status is State.QUEUED
    assert ids_of(client.get(f"/api/tasks?view={view}&status={fresh}")) == [new.id]
    assert ids_of(client.get(f"/api/tasks?view={view}&status={failed}")) == [again.id]
    assert ids_of(client.get(f"/api/tasks?view={view}&status={fresh}&status={failed}")) == [new.id, again.id]


def test_filters_find_what_they_name_and_history_too(client, store):
    """Spec: A1, B4, C4"""
    asked = {"lane": "x", "category": "c", "creator": 5, "mutex": "m", "agent_id": "a", "correlation_id": "k"}
    found = made(client, name="A needle", **asked)["id"]
    made(client)
    client.post(f"/api/tasks/{found}/cancel")
    assert store.history.archive() == 1
    for name, value in (asked | {"type": "plain", "status": "cancelled", "q": "nEEdle"}).items():
        listed = ids_of(client.get("/api/tasks", params={name: value}))
        assert found in listed
        assert (len(listed) == 1) == (name != "type")
    before = client.get(f"/api/tasks/{found}").json()["create_date"]
    assert ids_of(client.get("/api/tasks", params={"created_before": before})) == []
    assert found in ids_of(client.get("/api/tasks", params={"created_after": before}))


def test_pages_have_neither_gap_nor_repeat_while_tasks_are_added_and_archived(client, store):
    """Spec: C4"""
    for _ in range(25):
        submit(store)
    there = ids_of(client.get("/api/tasks?limit=200"))
    seen, cursor = [], None
    while True:
        page = client.get("/api/tasks", params={"limit": 4} | ({"cursor": cursor} if cursor else {})).json()
        seen += [task["id"] for task in page["items"]]
        cursor = page["next_cursor"]
        submit(store)
        worker = store.workers.register("finisher")
        ended = store.claims.take(ClaimRequest(worker, 2)).executions
        store.executions.settle([Outcome(execution, Returned()) for execution in ended])
        store.history.archive()
        if cursor is None:
            break
    assert seen == there


def test_a_page_that_looked_at_enough_says_where_to_go_on_though_it_found_nothing(client, store, monkeypatch):
    """Spec: A1"""
    monkeypatch.setattr("headgate.store.reading.lists.MOST_READ", 4)
    wanted = submit(store, ext='"needle"')
    for _ in range(5):
        submit(store)
    pages = [client.get("/api/tasks?q=needle").json()]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(client.get("/api/tasks", params={"q": "needle", "cursor": cursor}).json())
    assert [[task["id"] for task in page["items"]] for page in pages] == [[], [], [wanted.id]]


def test_a_running_task_shows_who_holds_it_and_until_when(client, store):
    """Spec: B1"""
    submit(store)
    [execution] = start(store)
    task = client.get(f"/api/tasks/{execution.id}").json()
    assert (task["status"], task["exec_id"], task["attempt"]) == ("running", execution.exec_id, 1)
    assert datetime.fromisoformat(task["executing_deadline"]) == execution.executing_deadline


def test_whoever_waits_for_a_log_line_gets_it_when_it_is_written(client, store):
    """Spec: X7, A12"""
    execution = running(store)
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(client.get(f"/api/tasks/{execution.id}/log", params={"wait": 60}).json())
    )
    waiting.start()
    store.executions.add_log(execution.id, execution.exec_id, [("info", "at last")])
    waiting.join(60)
    assert [line["message"] for line in answers[0]["items"]] == ["at last"]


def test_nobody_waits_for_the_log_of_a_task_that_has_ended(client, store):
    """Spec: X7, A12"""
    execution = running(store)
    settle(store, execution, Returned())
    assert client.get(f"/api/tasks/{execution.id}/log", params={"wait": 300}).json() == {"items": []}


def test_tasks_can_be_listed_by_tenant(client, store, app):
    """Spec: B11, X7"""
    mine, theirs = submit(store, tenant_id=1), submit(store, tenant_id=2)
    assert ids_of(client.get("/api/tasks", params={"tenant_id": 1})) == [mine.id]
    key = store.keys.add("k", Role.OPERATOR, tenant_id=1)[1]
    app.server.keyring.forget()
    client.headers["Authorization"] = f"Bearer {key}"
    assert client.get("/api/tasks", params={"tenant_id": 2}).status_code == 403
    assert ids_of(client.get("/api/tasks", params={"tenant_id": 1})) == [mine.id]
    wanted = {"action": "cancel", "filter": {"tenant_id": 2}}
    assert client.post("/api/tasks/actions", json=wanted).status_code == 403
    assert store.tasks.get(theirs.id).status == "queued"


def test_the_reason_of_an_action_on_many_stands_in_each_history(client, store):
    """Spec: A12, X7"""
    ids = [submit(store).id for _ in range(2)]
    client.post("/api/tasks/actions", json={"action": "cancel", "ids": ids, "reason": "not needed"})
    assert [store.tasks.get(task_id).remark for task_id in ids] == ["not needed"] * 2


def test_a_history_can_be_had_without_each_step_of_the_progress(client, store):
    """Spec: X7, A12"""
    execution = running(store)
    store.executions.progress(execution.id, execution.exec_id, '{"done": 1}')
    settle(store, execution, Returned())
    path = f"/api/tasks/{execution.id}/events"
    kinds = [event["kind"] for event in client.get(path, params={"progress": False}).json()["items"]]
    assert kinds == ["submitted", "started", "completed"]
    assert "progress" in [event["kind"] for event in client.get(path).json()["items"]]
