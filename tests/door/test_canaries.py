"""Canaries in every text that the API takes, and secrets of every kind: where they sing, and where they must not."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from headgate.api.app import routes_of
from headgate.core.keys import Role
from headgate.core.signing import SignedRequest, authorization
from headgate.pack import find_packs
from headgate.store.store import open_store
from lab.headgate_server import HeadgateServer, headgate_server
from lab.raw_http import RawAnswer, RawClient
from tests.door.canaries import NAUGHTY, Canary, Sent, canary, requests_with_canaries

ROUTES = routes_of(find_packs(["media"]))
SERVER_SECRET = "secret-of-the-server-4711"  # noqa: S105
CALLBACK_SECRET = "secret-of-the-callback-4711"  # noqa: S105
COOKIE_SECRET = "secret-of-a-site-4711"  # noqa: S105
HEADERS = ("X-Request-ID", "X-Correlation-ID", "traceparent", "User-Agent", "X-Forwarded-For", "Accept", "Cookie")
NEEDED: dict[str, dict[str, Any]] = {
    "/api/periodic-tasks/preview": {"cron_expressions": "@daily"},
    "/api/requests/busy": {"subscription_id": 1},
}
EXEC_ID, TASK_ID = "00000000-0000-4000-8000-000000000000", 999_999_999  # stand for those of a fresh task
TEXT_LINE = re.compile(r"\d\d:\d\d:\d\d (debug|info|warning|error) +\S")
# Control characters, line breaks of any kind, and what makes text run the other way.
RAW = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Aviary:
    """A server that heard it all: what it answered, what it logged, and what it was told in confidence."""

    def __init__(self, server: HeadgateServer, key: str) -> None:
        self.server = server
        self.key = key
        self.client = RawClient(server.address)
        self.birds: list[Canary] = []
        self.answers: list[tuple[str, RawAnswer]] = []
        self.secrets: dict[str, str] = {"the server's secret": SERVER_SECRET, "a key": key.split("_")[2]}

    def ask(self, method: str, path: str, body: Any = None, **given: str | None) -> RawAnswer:
        """An answer, which is remembered; of a stream its head alone."""
        usual = {"Authorization": f"Bearer {self.key}"}
        headers = {name: value for name, value in (usual | given).items() if value is not None}
        data = b"" if body is None else json.dumps(body).encode()
        if data:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        self.client.send(self.client.head(method, path, **headers) + data)
        status, found = self.client.answer_head()
        is_stream = found.get("content-type", "").startswith("text/event-stream")
        answer = RawAnswer(status, found, b"" if is_stream else self.client.answer_body(found))
        self.answers.append((f"{method} {path}", answer))
        if is_stream or found.get("connection") == "close":
            self.client.close()
            self.client = RawClient(self.server.address)
        return answer

    def made(self, method: str, path: str, body: Any = None) -> Any:
        """What a request that must succeed is told; it is not remembered, as it may tell a secret for the only time."""
        answer = self.ask(method, path, body)
        assert answer.status in (200, 201), answer
        self.answers.pop()
        return answer.json

    def send(self, sent: Sent, names: dict[str, str]) -> None:
        """A request with a canary; `names` are the things in its path."""
        query, headers, parameter = NEEDED.get(sent.route.path, {}), {}, sent.parameter
        if parameter is not None:
            match parameter.place:
                case "path":
                    names = names | {parameter.name: sent.value}
                case "query":
                    query = query | {parameter.name: sent.value}
                case "header":
                    headers[parameter.name] = sent.value
                case "cookie":
                    headers["Cookie"] = f"{parameter.name}={sent.value}"
        path = re.sub(r"\{(\w+)\}", lambda found: quote(names[found[1]], safe=""), sent.route.path)
        self.birds.append(sent.canary)
        self.ask(sent.route.method, f"{path}?{urlencode(query)}", sent.body, **headers)

    def let_fly(self) -> None:
        """Every request with a canary, about a task of its own, which agent a-1 executes where agents report."""
        names = {"code": "plain", "name": "default", "site": "example.org", "agent_id": "a-1"}
        names |= dict.fromkeys(("periodic_id", "request_id", "subscription_id"), "1")
        known: dict[str, Any] = {
            "type": "plain",
            "types": "plain",
            "cron_expressions": "@daily",
            "url": "https://example.org/a",
        }
        known |= {"wait_seconds": 0, "exec_id": EXEC_ID, "id": TASK_ID}
        for route in ROUTES:
            for sent in requests_with_canaries(route, known):
                text = json.dumps(sent.body)
                task_id, exec_id = TASK_ID, EXEC_ID
                if EXEC_ID in text:
                    task_id, exec_id = self.held()
                elif "{task_id}" in route.path:
                    task_id = self.made("POST", "/api/tasks", {"type": "plain"})["id"]
                body = json.loads(text.replace(EXEC_ID, exec_id).replace(str(TASK_ID), str(task_id)))
                self.send(replace(sent, body=body), names | {"task_id": str(task_id)})
        for header in HEADERS:
            self.birds.append(bird := canary("header"))
            self.ask("GET", "/api/tasks", **{header: bird.text})
        self.birds.append(bird := canary("path"))
        self.ask("GET", "/" + quote(bird.text))

    def held(self) -> tuple[int, str]:
        """A task that agent a-1 executes."""
        self.made("POST", "/api/tasks", {"type": "plain"})
        claim = {"types": ["plain"], "limit": 1, "wait_seconds": 0}
        [task] = self.made("POST", "/api/agents/a-1/claim", claim)["tasks"]
        return task["id"], task["exec_id"]

    def confide(self) -> None:
        """Use secrets of every kind, also where none belongs."""
        made = self.made("POST", "/api/keys", {"name": "signer", "role": "admin"})
        named = self.made("POST", "/api/keys", {"name": f"naughty{NAUGHTY}", "role": "read"})
        assert self.ask("GET", "/api/tasks", Authorization=f"Bearer {named['key']}").status == 200
        self.secrets |= {"a new key": made["key"].split("_")[2], "a secret key": made["secret_key"]}
        request = SignedRequest("GET", "/api/tasks", "", self.client.host, b"")
        signed = authorization(made["access_key"], made["secret_key"], request, int(time.time()), "0123456789abcdef")
        assert self.ask("GET", "/api/tasks", Authorization=signed).status == 200
        assert self.ask("GET", "/api/tasks", Authorization=signed).status == 401  # a second time
        self.secrets["a signature"] = signed.rpartition("=")[2]
        cookie = self.ask("POST", "/api/session").headers["set-cookie"].partition(";")[0]
        assert self.ask("GET", "/api/session", Authorization=None, Cookie=cookie).status == 200
        self.secrets["a session"] = cookie.partition("=")[2]
        self.answers = [(about, answer) for about, answer in self.answers if about != "POST /api/session"]
        security = {"type": "aksk", "ak": "us", "sk": CALLBACK_SECRET}
        callback = {"success": {"url": "https://example.org/"}, "security": security}
        self.made("PUT", "/api/task-types/told", {"config": {"callback": callback}})
        self.ask("PUT", "/api/task-types/told", {"config": {"callback": callback | {"error": 1}}})
        self.secrets["the secret of a callback"] = CALLBACK_SECRET
        self.made("PUT", "/api/cookies/example.org", {"content": f"SESSDATA={COOKIE_SECRET}"})
        self.secrets["the cookie of a site"] = COOKIE_SECRET
        # A key that its owner puts where none belongs is shown to them there, and is in no log.
        assert self.ask("GET", f"/api/{self.key}").status == 404
        task_id, exec_id = self.held()
        self.made(
            "POST",
            f"/api/agents/a-1/tasks/{task_id}/fail",
            {"exec_id": exec_id, "error_info": f"refused: Authorization: Bearer {self.key}", "retryable": False},
        )

    def look_around(self) -> None:
        """Everything that can be read."""
        for route in ROUTES:
            if route.method == "GET" and "{" not in route.path:
                self.ask("GET", f"{route.path}?{urlencode(NEEDED.get(route.path, {}))}")
        self.ask("GET", "/the-end")
        self.server.logged("/the-end")


@pytest.fixture(scope="module", params=["text", "json"])
def aviary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aviary]:
    folder = tmp_path_factory.mktemp(request.param)
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        _, key = store.keys.add("admin", Role.ADMIN)
    flags = ("--log-json",) if request.param == "json" else ()
    with headgate_server(folder, flags=flags, packs="media", secret=SERVER_SECRET, log_level="debug") as server:
        aviary = Aviary(server, key)
        aviary.made("PUT", "/api/task-types/plain", {})
        aviary.confide()
        aviary.let_fly()
        aviary.look_around()
        yield aviary
        aviary.client.close()


def test_one_event_is_one_line_whatever_a_text_holds(aviary):
    """Spec: D10"""
    for line in aviary.server.log:
        if line.startswith("{"):
            assert json.loads(line)["level"] in {"debug", "info", "warning", "error"}
        else:
            assert TEXT_LINE.match(line), line
        assert RAW.search(line) is None


def test_no_text_makes_an_error_of_ours_or_a_header_of_its_own(aviary):
    """Spec: X6"""
    assert len(aviary.birds) > 200
    assert sum(answer.status < 300 for _, answer in aviary.answers) > 100  # most of them got as far as the store
    wrong = [(about, answer) for about, answer in aviary.answers if answer.status in (0, 500)]
    assert wrong == []
    assert [about for about, answer in aviary.answers if "FORGED" in str(answer.headers)] == []
    inner = re.compile(rb"Traceback|sqlite3|SELECT |headgate_task\b|\.py\b|headgate\.db")
    assert [about for about, answer in aviary.answers if answer.status >= 400 and inner.search(answer.body)] == []


def test_neither_a_payload_nor_a_question_is_in_the_log(aviary):
    """Spec: D10"""
    log = "\n".join(aviary.server.log)
    hidden = [bird for bird in aviary.birds if bird.payload or bird.place in ("query", "header", "cookie")]
    assert [bird for bird in hidden if bird.name in log] == []
    assert [bird for bird in aviary.birds if bird.name in log] != []  # the log does name what paths name


def test_no_secret_is_in_a_log_an_answer_a_figure_or_an_event(aviary):
    """Spec: B11, RELIABILITY T26"""
    told = [text for about, answer in aviary.answers for text in (answer.body.decode(), str(answer.headers))]
    assert len(told) > 400
    places = {"log": "\n".join(aviary.server.log), "answers": "\n".join(told)}
    found = {
        (place, name) for place, text in places.items() for name, secret in aviary.secrets.items() if secret in text
    }
    assert found - {("answers", "a key")} == set()  # which its owner wrote into an error
