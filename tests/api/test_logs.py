"""Requests in the log: one line each, with who asked and never with what proves it; and the id all of it shares."""

import json
import logging

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.core.task import NewTask
from headgate.events.log_lines import JsonFormatter
from headgate.settings import Settings
from tests.api.conftest import HERE

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Kept(logging.Handler):
    """Every line that was written, as JSON says it."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonFormatter())
        self.text = ""

    def emit(self, record):
        self.text += self.format(record) + "\n"

    @property
    def lines(self):
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def requests(self):
        return [line for line in self.lines if "method" in line]


@pytest.fixture
def log():
    handler, logger = Kept(), logging.getLogger("headgate")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_change_is_one_line_at_info_and_looking_is_at_debug(client, log):
    """Spec: D10, A12"""
    made = client.post("/api/tasks", json={"type": "plain", "ext": {"pin": "plover"}}, headers={"X-Request-ID": "r-1"})
    client.get(f"/api/tasks/{made.json()['id']}")
    client.post("/api/tasks", json={"type": "nosuch"})
    change, look, refused = log.requests
    assert change.pop("milliseconds") >= 0
    del change["time"], change["process"], change["message"]
    assert change == {
        "level": "info", "logger": "headgate.api", "request_id": "r-1", "correlation_id": "r-1", "method": "POST",
        "path": "/api/tasks", "status": 201, "user": "person", "tenant_id": None, "task_id": made.json()["id"],
    }  # fmt: skip
    assert (look["task_id"], look["user"]) == (made.json()["id"], "person")
    assert (look["level"], look["method"], look["status"]) == ("debug", "GET", 200)
    assert (refused["level"], refused["status"]) == ("debug", 422)
    assert "plover" not in log.text


def test_what_agents_do_all_the_time_is_at_debug(client, log):
    """Spec: D10"""
    assert client.post("/api/agents/a-1/claim", json={}).status_code == 200
    assert [(line["level"], line["status"]) for line in log.requests] == [("debug", 200)]


def test_a_bug_is_at_info_and_its_lines_have_the_id_of_the_request(client, store, log, monkeypatch):
    """Spec: D10"""
    monkeypatch.setattr(store.tasks, "get", None)
    assert client.get("/api/tasks/1", headers={"X-Request-ID": "r-9"}).status_code == 500
    error, line = log.lines
    assert error["level"] == "error"
    assert "Traceback" in error["error"]
    assert (line["level"], line["status"]) == ("info", 500)
    assert error["request_id"] == line["request_id"] == "r-9"
    assert (error["task_id"], error["user"]) == (1, "person")


def test_a_line_has_the_name_and_the_tenant_of_a_key_and_never_the_key(store, url, log):
    """Spec: D10, B11"""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as client:
        key = store.keys.add("robot", Role.SUBMIT, tenant_id=7)[1]
        client.post("/api/tasks?wait=0.0007", json={"type": "plain"}, headers={"Authorization": f"Bearer {key}"})
        client.post("/api/tasks", json={"type": "plain"}, headers={"Authorization": f"Bearer {key[:-1]}x"})
    taken, refused = log.requests
    assert taken["user"].endswith(" robot")
    assert taken["tenant_id"] == 7
    assert (refused["status"], "user" in refused) == (401, False)
    assert key[-20:-1] not in log.text
    assert "0.0007" not in log.text


@pytest.mark.parametrize(("headers", "trace"), [
    ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, TRACE),
    ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Correlation-ID": "order-7"}, TRACE),
    ({"X-Correlation-ID": TRACE}, TRACE),
    ({"X-Correlation-ID": "order-7"}, None),
])  # fmt: skip
def test_a_line_has_the_trace_that_its_request_is_part_of(client, log, headers, trace):
    """Spec: D10"""
    client.post("/api/tasks", json={"type": "plain"}, headers=headers)
    assert [line.get("trace_id") for line in log.requests] == [trace]


def agent_holding(client):
    """What agent a-1 was handed."""
    [task] = client.post("/api/agents/a-1/claim", json={"types": ["plain"]}).json()["tasks"]
    return f"/api/agents/a-1/tasks/{task['id']}", {"exec_id": task["exec_id"]}, task["id"]


def test_what_an_agent_reports_leaves_the_line_that_a_worker_would_write(client, store, log):
    """Spec: D10, B2"""
    store.tasks.submit(NewTask("plain", correlation_id="c-1", creator=42))
    path, own, task_id = agent_holding(client)
    client.post(f"{path}/fail", json={**own, "error_info": "OSError: no disk\n\nTraceback: …", "retryable": False})
    store.tasks.submit(NewTask("plain"))
    path, own, other_id = agent_holding(client)
    client.post(f"{path}/complete", json=own)
    failed, succeeded = [line for line in log.lines if line["logger"] == "headgate.tasks"]
    assert failed["message"].startswith(f"task failed: task={task_id} type=plain attempt=1 seconds=")
    assert failed["message"].endswith(" error=OSError: no disk (not retried: errors of this class are never retried)")
    about = ("level", "task_id", "type", "attempt", "correlation_id", "user", "outcome")
    assert [failed[name] for name in about] == ["warning", task_id, "plain", 1, "c-1", "42", "failed"]
    assert (succeeded["level"], succeeded["task_id"], succeeded["outcome"]) == ("info", other_id, "succeeded")
    assert 0 <= succeeded["seconds"] < 60


def test_a_late_report_of_an_agent_leaves_no_line_of_an_end(client, store, log):
    """Spec: D10, B3"""
    store.tasks.submit(NewTask("plain"))
    path, own, _ = agent_holding(client)
    assert client.post(f"{path}/complete", json=own).status_code == 200
    assert client.post(f"{path}/fail", json={**own, "error_info": "no"}).status_code == 409
    assert [line["outcome"] for line in log.lines if line["logger"] == "headgate.tasks"] == ["succeeded"]


def test_a_path_cannot_forge_a_line(client, log):
    """Spec: D10"""
    client.get("/api/%0A%7B%22level%22:%22error%22%7D%E2%80%A8%1B")
    [line] = log.requests
    assert line["path"].startswith('/api/\n{"level":"error"}')
    assert len(log.text.splitlines()) == 1


@pytest.mark.parametrize(("headers", "body", "expected"), [
    ({"X-Request-ID": "r-1"}, {}, "r-1"),
    ({"X-Request-ID": "r-1", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, {}, TRACE),
    ({"X-Correlation-ID": "order-7", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, {}, "order-7"),
    ({"X-Correlation-ID": "order-7"}, {"correlation_id": "mine"}, "mine"),
    ({"X-Request-ID": "r-1", "X-Correlation-ID": "no spaces"}, {}, "r-1"),
])  # fmt: skip
def test_tasks_have_the_correlation_id_of_their_request_unless_they_name_one(client, headers, body, expected):
    """Spec: D10"""
    made = client.post("/api/tasks", json={"type": "plain", **body}, headers=headers).json()
    assert made["correlation_id"] == expected
    [event] = client.get(f"/api/tasks/{made['id']}/events").json()["items"]
    assert event["correlation_id"] == expected
    many = client.post("/api/tasks/bulk", json={"tasks": [{"type": "plain", **body}] * 2}, headers=headers).json()
    assert [task["correlation_id"] for task in many["tasks"]] == [expected] * 2


@pytest.mark.parametrize("packs", ["media"])
def test_the_requests_of_the_queue_have_it_too(client, store):
    """Spec: D10"""
    made = client.post(
        "/api/requests/enqueue",
        json={"type": "download", "url": "https://example.org/a"},
        headers={"X-Correlation-ID": "c-1"},
    )
    assert made.status_code == 201, made.text
    assert [task.correlation_id for task in store.tasks.find().items] == ["c-1"]


def test_an_idempotency_key_is_not_about_the_id_of_the_request(client):
    """Spec: D10"""
    body, key = {"type": "plain"}, {"Idempotency-Key": "k-1"}
    first = client.post("/api/tasks", json=body, headers=key | {"X-Request-ID": "r-1"})
    again = client.post("/api/tasks", json=body, headers=key | {"X-Request-ID": "r-2"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["correlation_id"] == "r-1"


def test_one_request_does_not_lend_its_id_to_another(client, store):
    """Spec: D10"""
    client.post("/api/tasks", json={"type": "plain"}, headers={"X-Correlation-ID": "c-1"})
    made = store.tasks.submit(NewTask("plain"))
    assert store.tasks.get(made.id).correlation_id is None
