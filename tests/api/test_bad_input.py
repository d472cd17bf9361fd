"""What breaks a rule gets a clear answer and changes nothing."""

import json

import pytest

from headgate.core.task import MAX_JSON_BYTES

PROBLEM = "application/problem+json"
MIB = 1024 * 1024


def post(client, body, content_type="application/json", **headers):
    return client.post("/api/tasks", content=body, headers={"content-type": content_type, **headers})


def refused(client, answer, status, *words):
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:headgate:problem:")
    assert problem["request_id"] == answer.headers["x-request-id"] != ""
    for word in words:
        assert word in problem["detail"]
    assert client.get("/api/tasks").json()["items"] == []


def nested(depth):
    return '{"type": "plain", "ext": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 422, ""),
        (b"{", 400, "not JSON"),
        (b"null", 422, "object"),
        (b'{"type": "plain", "ext": NaN}', 400, "not JSON"),
        (b'{"type": "\xff"}', 400, "not JSON"),
        (b'{"type": "plain"} x', 400, "not JSON"),
        (b"[" * 100_000, 422, "nested"),
        (nested(65), 422, "more than 64 levels deep"),
        (b'{"type": "plain", "ext": 1e400}', 422, "out of range"),
        (b'{"type": "plain", "priority": 9223372036854775808}', 422, "priority"),
        (b'{"type": "plain", "priority": "5"}', 422, "priority"),
        (b'{"type": "plain", "priority": 5.5}', 422, "priority"),
        (b'{"type": "plain", "creator": true}', 422, "creator"),
        (b'{"type": "plain", "ext": "\\ud800"}', 400, "not JSON"),
        (b'{"type": "plain", "name": "\\ud800"}', 400, "not JSON"),
        (b'{"type": "plain", "name": "a\\u0000b"}', 422, "NUL"),
        (b'{"type": "plain", "type": "plain"}', 422, "'type' twice"),
        (b'{"type": "plain", "ext": [{"a": {"b:": 1, "b:": 2}}]}', 422, "'b:' twice"),
        (b'{"type": "plain", "ext": {"a": 1, "a": "\\u003a"}}', 422, "'a' twice"),
        (b'{"type": "plain", "ext": {"a": 1, "a": "\\u003A"}}', 422, "'a' twice"),
        (b'{"type": "plain", "status": "succeeded"}', 422, "status"),
        (b'{"type": "plain", "exec_id": null}', 422, "exec_id"),
        (b'{"ext": {}}', 422, "type"),
        (b'{"type": "plain", "start_time": "2026-01-01T00:00:00"}', 422, "time zone"),
        (b'{"type": "plain", "start_time": "2026-01-01T00:00:00Z", "delay_seconds": 1}', 422, "not both"),
        (b'{"type": "plain", "delay_seconds": -1}', 422, "delay_seconds"),
        (b'{"type": "plain", "lane": "*"}', 422, "*"),
        (b'{"type": "plain", "lane": ""}', 422, "lane"),
        (b'{"type": "plane"}', 422, "plain"),
        (b'{"type": "plain", "parent_id": 99}', 404, "99"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_body_that_breaks_a_rule_is_refused_with_the_reason(client, body, status, word):
    """Spec: X6"""
    refused(client, post(client, body), status, word)


def test_ext_may_be_nested_64_deep_and_hold_whatever_json_can(client):
    """Spec: B1"""
    assert post(client, nested(64)).status_code == 201
    ext = {"nul": "\0", "huge": 10**40, "tiny": 1e-300, "": [None, True, "中文 \N{GRINNING FACE}"], "a:b": ":"}
    made = client.post("/api/tasks", json={"type": "plain", "ext": ext}).json()
    assert client.get(f"/api/tasks/{made['id']}").json()["ext"] == ext


def test_ext_has_256_kib_at_most(client):
    """Spec: B1"""
    quotes = 2
    refused(client, client.post("/api/tasks", json={"type": "plain", "ext": "x" * (MAX_JSON_BYTES - 1)}), 422, "ext")
    fits = client.post("/api/tasks", json={"type": "plain", "ext": "x" * (MAX_JSON_BYTES - quotes)})
    assert fits.status_code == 201


def test_a_body_has_1_mib_at_most_also_when_its_length_is_not_said(client):
    """Spec: X6"""
    blank = b" " * MIB
    refused(client, post(client, blank + b"{}"), 413)
    refused(client, post(client, iter([blank, b"{}"])), 413)
    whole = json.dumps({"type": "plain"}).encode()
    assert post(client, blank[: MIB - len(whole)] + whole).status_code == 201


@pytest.mark.parametrize(
    "said", ["text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=latin1"]
)
def test_only_json_is_read(client, said):
    """Spec: X6"""
    refused(client, post(client, b'{"type": "plain"}', said), 415, "body")


def test_a_compressed_body_is_not_read(client):
    """Spec: X6"""
    refused(client, post(client, b'{"type": "plain"}', **{"content-encoding": "gzip"}), 415, "compressed")


def test_json_may_say_its_charset(client):
    """Spec: X6"""
    assert post(client, b'{"type": "plain"}', "application/json; charset=UTF-8").status_code == 201


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("stauts=queued", "stauts"),
        ("status=waiting-room", "waiting-room"),
        ("status=New", "New"),
        ("view=B&status=queued", "queued"),
        ("view=E", "view"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=ten", "limit"),
        ("limit=1&limit=2", "twice"),
        ("cursor=0", "cursor"),
        ("cursor=null", "cursor"),
        ("view=NULL", "view"),
        ("created_after=2026-01-01T00:00:00", "time zone"),
        ("created_after=yesterday", "created_after"),
        ("lane=" + "x" * 256, "lane"),
        ("q=%00", "NUL"),
    ],
)
def test_a_query_that_breaks_a_rule_is_refused_with_the_reason(client, query, word):
    """Spec: A1"""
    refused(client, client.get(f"/api/tasks?{query}"), 422, word)


@pytest.mark.parametrize("task_id", ["0", "-1", "+1", "1_0", "９", "1.0", "x", str(2**63)])
def test_a_path_takes_an_id_that_is_one(client, task_id):
    """Spec: B1"""
    client.post("/api/tasks", json={"type": "plain"})
    answer = client.get(f"/api/tasks/{task_id}")
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/nowhere", 404),
        ("GET", "/api/nowhere", 404),
        ("DELETE", "/api/tasks", 405),
        ("GET", "/api/purge", 405),
    ],
)
def test_where_there_is_nothing_the_answer_is_a_problem_too(client, method, path, status):
    """Spec: X6"""
    refused(client, client.request(method, path), status)


def test_a_method_that_is_not_there_names_those_that_are(client):
    """Spec: X6"""
    assert "GET" in client.delete("/api/tasks").headers["allow"]


def test_a_request_may_bring_its_own_id_if_it_can_be_shown(client):
    """Spec: D10"""
    assert client.get("/api/nowhere", headers={"x-request-id": "mine-1"}).json()["request_id"] == "mine-1"
    strange = client.get("/api/nowhere", headers={"x-request-id": "a b\tc"}).json()["request_id"]
    assert strange
    assert strange != "a b\tc"


def test_an_error_of_ours_shows_nothing_of_the_inside(client, store, monkeypatch):
    """Spec: X6"""

    def broken(*_: object) -> None:
        raise RuntimeError("SELECT secret FROM inside")

    monkeypatch.setattr(store.tasks, "find", broken)
    answer = client.get("/api/tasks")
    assert answer.status_code == 500
    assert "inside" not in answer.text
    assert answer.json()["request_id"]
