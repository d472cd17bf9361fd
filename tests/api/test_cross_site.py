"""A page of another site cannot drive a server without keys through the browser of whoever sits at the machine."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.api.door.gatekeeper import Gatekeeper
from headgate.core.states import State
from headgate.settings import Settings
from headgate.store.store import Store, open_store
from lab.chromium import Chromium
from tests.api.conftest import HERE
from tests.factories import TYPES, submit

PATIENCE = 60.0
# Whatever a page may send without being asked first, and what it must ask for.
PAGE = """<!doctype html><title>another site</title><body><script>
const api = "%(api)s";
const body = JSON.stringify({type: "plain"});
const send = (path, options) => fetch(api + path, options).then(
  answer => answer.type + " " + answer.status, () => "failed");
const simple = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
async function attack() {
  const told = {};
  for (const kind of simple) {
    const about = {method: "POST", mode: "no-cors", headers: {"Content-Type": kind}, body};
    told[kind] = await send("/api/tasks", about);
  }
  told.cancel = await send("/api/tasks/1/cancel", {method: "POST", mode: "no-cors"});
  told.pause = await send("/api/queue/pause?scope=all", {method: "POST", mode: "no-cors"});
  told.key = await send("/api/keys", {method: "POST", mode: "no-cors", body: '{"name": "k", "role": "admin"}'});
  told.json = await send("/api/tasks", {method: "POST", headers: {"Content-Type": "application/json"}, body});
  told.read = await send("/api/tasks", {});
  told.beacon = navigator.sendBeacon(api + "/api/tasks/1/cancel", "");
  told.image = await new Promise(done => {
    const image = new Image();
    image.onload = () => done("shown"); image.onerror = () => done("failed"); image.src = api + "/api/tasks";
  });
  for (const path of ["/api/tasks", "/api/tasks/1/cancel", "/api/queue/pause"]) {
    const frame = document.createElement("iframe"), form = document.createElement("form");
    frame.name = path; form.target = path; form.method = "post"; form.action = api + path; form.enctype = "text/plain";
    const field = document.createElement("input");
    field.name = '{"type": "plain", "ext": {"x": "'; field.value = '"}}';
    form.append(field); document.body.append(frame, form);
    await new Promise(done => { frame.onload = done; form.submit(); setTimeout(done, 5000); });
    told["form " + path] = "sent";
  }
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
}
attack();
</script></body>"""


def wait_until(holds: Callable[[], bool]) -> None:
    """A bounded wait for something that another process or thread does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@contextmanager
def another_site(api: str) -> Iterator[tuple[int, "Queue[dict[str, Any]]"]]:
    """A site with that page; its port, and what the page tells when it is done."""
    heard: Queue[dict[str, Any]] = Queue()

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = (PAGE % {"api": api}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def do_POST(self) -> None:
            said = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            heard.put(json.loads(said))

        def log_message(self, *_: object) -> None: ...

    site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=site.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield site.server_address[1], heard
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


class Seen:
    """What came to the server, and how it was answered."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.answers: list[tuple[str, str, int]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answers.append((scope["method"], scope["path"], message["status"]))
            await send(message)

        await self._app(scope, receive, told if scope["type"] == "http" else send)


@contextmanager
def open_server(store: Store, url: str) -> Iterator[tuple[str, Seen]]:
    """A real server without keys."""
    seen = Seen(create_app(store, Settings(url=url)))
    server = uvicorn.Server(uvicorn.Config(seen, port=0, log_config=None, log_level="error", ws="none"))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{port}", seen
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture
def here(tmp_path: Any) -> Iterator[tuple[Store, str]]:
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.migrate()
        for kind in TYPES:
            store.types.put(kind)
        submit(store)
        yield store, url


def attacked(store: Store, url: str, site_name: str) -> tuple[dict[str, Any], Seen]:
    with open_server(store, url) as (api, seen), another_site(api) as (port, heard):
        rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
        with Chromium(f"http://{site_name}:{port}/", rules) as browser:
            wait_until(lambda: not heard.empty() or not browser.lives)
            assert browser.lives, browser.errors
            return heard.get(), seen


@pytest.mark.parametrize("site_name", ["evil.example", "localhost", "127.0.0.1"])
def test_a_page_of_another_site_changes_and_reads_nothing(here, site_name):
    """Spec: B11"""
    told, seen = attacked(here[0], here[1], site_name)
    store, _ = here
    assert len([answer for answer in seen.answers if answer[0] == "POST"]) >= 6
    assert {status for _, _, status in seen.answers} == {403}
    assert told["read"] == "failed"
    assert told["json"] == "failed"
    assert [(task.id, task.status) for task in store.tasks.find().items] == [(1, State.QUEUED)]
    assert not store.pauses.active()
    assert store.keys.find() == []


def test_without_the_gatekeeper_that_page_would_have_its_way(here, monkeypatch):
    """Spec: B11"""
    monkeypatch.setattr(Gatekeeper, "_check_local_request", lambda *_: None)
    attacked(here[0], here[1], "evil.example")
    store, _ = here
    assert store.tasks.get(1).status is State.CANCELLED
    assert store.pauses.active()


def test_a_name_that_was_bent_to_this_machine_is_not_answered(here):
    """Spec: B11"""
    store, url = here
    with open_server(store, url) as (api, seen):
        port = api.rpartition(":")[2]
        page = f"http://rebound.example:{port}/api/tasks"
        with Chromium(page, "--host-resolver-rules=MAP *.example 127.0.0.1") as browser:
            wait_until(lambda: bool(seen.answers) or not browser.lives)
            assert browser.lives, browser.errors
    assert ("GET", "/api/tasks", 403) in seen.answers
    assert {status for _, _, status in seen.answers} == {403}


ALLOWED: list[dict[str, str]] = [
    {},
    {"Host": "127.0.0.1:8000"},
    {"Host": "LOCALHOST:1"},
    {"Host": "localhost"},
    {"Host": "[::1]:8000"},
    {"Host": "127.9.9.9"},
    {"Host": "headgate.internal:8000"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Origin": "http://127.0.0.1"},
    {"Host": "localhost:8000", "Origin": "http://localhost:8000"},
]
REFUSED: list[dict[str, str]] = [
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost.evil.example:8000"},
    {"Host": "evil.example:127.0.0.1"},
    {"Host": "[::2]"},
    {"Host": "10.0.0.1"},
    {"Host": ""},
    {"Host": "0.0.0.0"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "something new"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Origin": "null"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:3000"},
    {"Origin": "http://127.0.0.1.evil.example"},
    {"Origin": ""},
]


@pytest.fixture
def client(here: tuple[Store, str]) -> Iterator[Any]:
    store, url = here
    settings = Settings(url=url, hosts="headgate.internal, other.internal")
    with TestClient(create_app(store, settings), base_url=HERE) as opened:
        yield opened


@pytest.mark.parametrize("headers", ALLOWED, ids=str)
def test_a_program_or_a_page_of_ours_is_answered(client, headers):
    """Spec: B11"""
    assert client.get("/api/tasks", headers=headers).status_code == 200
    assert client.post("/api/tasks", headers=headers, json={"type": "plain"}).status_code == 201


@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_whoever_cannot_be_ours_is_refused_and_changes_nothing(client, here, headers):
    """Spec: B11"""
    assert client.get("/api/tasks", headers=headers).status_code == 403
    assert client.post("/api/tasks", headers=headers, json={"type": "plain"}).status_code == 403
    assert len(here[0].tasks.find().items) == 1


def test_two_host_headers_are_one_too_many(client):
    """Spec: B11"""
    headers = [("Host", "127.0.0.1"), ("Host", "127.0.0.1")]
    assert client.get("/api/tasks", headers=headers).status_code == 403


def test_a_link_from_another_site_may_lead_to_a_page_and_not_into_the_api(client):
    """Spec: B11"""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=link).status_code != 403
    for path in ("/api/tasks", "//api/tasks", "/%61pi/tasks"):
        assert client.get(f"{HERE}{path}", headers=link).status_code == 403
    assert client.post("/", headers=link).status_code == 403
    assert client.get("/", headers=link | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
