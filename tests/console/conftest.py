"""The console as people have it: a real server with real workers, and Chromium in front of it.

One server for each file of tests, and one browser for all, which keeps nothing from visit to visit. Every page is
watched: an error in it, or a report of its Content-Security-Policy, fails the test that opened it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Locator, Page, sync_playwright
from playwright.sync_api import expect as playwrights

from lab.chromium import QUIET, program
from lab.console import build
from lab.server import free_port
from tests.console.shop import MODULE

PATIENCE = 60.0
HEADGATE = str(Path(sys.executable).with_name("headgate"))
WATCH = """
window.reports = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.reports.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
LOOK_MS, LONGEST_LOOK_MS = 40.0, 1000.0


def expect(what: Page | Locator) -> "Expected":
    """Playwright's `expect`, with short pauses: it would look again after 0.1 s, 0.35 s, 0.85 s, 1.85 s."""
    return Expected(what)


class Expected:
    """What is to be true of a page soon; each check is Playwright's own, of the same name."""

    def __init__(self, what: Page | Locator) -> None:
        self._checks = playwrights(what)

    def __getattr__(self, name: str) -> Callable[..., None]:
        check = getattr(self._checks, name)

        def soon(*wanted: Any, **options: Any) -> None:
            end, look = time.monotonic() + PATIENCE, LOOK_MS
            while True:
                try:
                    check(*wanted, **options, timeout=look)
                    return
                except AssertionError:
                    if time.monotonic() > end:
                        raise
                look = min(look * 1.2, LONGEST_LOOK_MS)

        return soon


class Served:
    """A server in a folder of its own, as a program asks it; it can be stopped and started again."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self._words = words
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.key = ""  # that programs come with, once it is needed
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        with (self.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                [HEADGATE, "up", "shop", "--port", str(self.port), *self._words],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log.txt").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)

    def stop(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) != 0:
                return False
        try:
            with urllib.request.urlopen(self.address + "/readyz", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; an error is raised with what the server said."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as problem:
            raise AssertionError(f"{method} {path}: {problem.code} {problem.read().decode()}") from None

    def submit(self, type_code: str, ext: Any = None, **fields: Any) -> int:
        return int(self.ask("POST", "/api/tasks", {"type": type_code, "ext": ext or {}, **fields})["id"])

    def task(self, task_id: int) -> dict[str, Any]:
        return dict(self.ask("GET", f"/api/tasks/{task_id}"))

    def reached(self, task_id: int, *states: str) -> dict[str, Any]:
        """The task, as soon as it is in one of these states."""
        return dict(until(lambda: self.task(task_id), lambda task: task["status"] in states))

    def let_go(self, name: str) -> None:
        """Let a `held` task of this name go on."""
        (self.folder / name).touch()


def until(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + PATIENCE
    while not holds(found := look()):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    build()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with the tasks of `tests.console.shop`, and the media pack."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(MODULE)
    server = Served(folder, "--pack", "media")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium, environment = program()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium, env={**environment}, args=[word for word in QUIET if word != "--headless"]
        )
        yield opened
        opened.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Visit]:
    """Open a page in a browser of its own, each watched until the end of the test; `clock`: its time can be moved."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def refuse(dialog: Dialog) -> None:
        errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def opened(path: str = "/", *, server: Served = served, clock: bool = False, **about: Any) -> Page:
        context = browser.new_context(**{"locale": "en-GB", "viewport": {"width": 1440, "height": 900}} | about)
        context.add_init_script(WATCH)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(f"{page.url}: {error}"))
        page.on("dialog", refuse)
        if clock:
            page.clock.install()
        page.goto(server.address + path)
        expect(page.locator("h1, main h2").first).to_be_visible()
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            errors += [f"{page.url}: {report}" for report in page.evaluate("window.reports ?? []")]
        context.close()
    assert errors == []
