"""The console's files: who may have them, how long they are kept, and what the browser is told about them."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headgate.api import console
from headgate.api.app import create_app
from headgate.core.keys import Role
from headgate.settings import Settings
from headgate.store.store import Store
from tests.api.conftest import HERE, Client

PAGES = ("/", "/tasks", "/tasks/17", "/queue", "/anything/else")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "console"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>the console</title>")
    (folder / "assets" / "index-abc.js").write_text("console")
    (folder / "assets" / "index-abc.js.gz").write_bytes(gzip.compress(b"console"))
    (folder / ".made-from").write_text("a secret of the builder")
    return folder


@pytest.fixture
def browser(store: Store, url: str, packs: str, built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(console.Console.__init__, "__defaults__", (built,))
    with TestClient(create_app(store, Settings(url=url, packs=packs)), base_url=HERE) as opened:
        yield opened


@pytest.mark.parametrize("path", PAGES)
def test_every_path_that_is_not_the_apis_is_a_page_of_the_console(browser, path):
    """Spec: X7"""
    answer = browser.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "the console" in answer.text
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_page_may_load_nothing_but_the_servers_own_files(browser):
    """Spec: X7"""
    said = browser.get("/").headers
    policy = {
        part.strip().partition(" ")[0]: part.strip().partition(" ")[2]
        for part in said["Content-Security-Policy"].split(";")
    }
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
        "img-src": "'self' data:", "base-uri": "'none'", "form-action": "'self'", "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    }  # fmt: skip
    assert said["X-Content-Type-Options"] == "nosniff"
    assert said["Referrer-Policy"] == "no-referrer"
    assert said["Cross-Origin-Opener-Policy"] == "same-origin"


def test_files_whose_names_change_with_their_content_are_kept_for_ever(browser):
    """Spec: X7"""
    answer = browser.get("/assets/index-abc.js")
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert browser.get("/assets/index-of-yesterday.js").status_code == 404


@pytest.mark.parametrize(
    ("accepted", "encoding"), [("gzip, br", "gzip"), ("", None), ("identity", None), ("gzip;q=0", None)]
)
def test_files_are_sent_packed_to_whoever_can_unpack_them(browser, accepted, encoding):
    """Spec: X7"""
    with browser.stream("GET", "/assets/index-abc.js", headers={"Accept-Encoding": accepted}) as answer:
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.headers["Vary"] == "accept-encoding"


@pytest.mark.parametrize(
    "path",
    [
        "/.made-from",
        "/assets/../.made-from",
        "/assets/%2e%2e/.made-from",
        "/../../settings.py",
        "//etc/passwd",
        "/assets//etc/passwd",
    ],
)
def test_nothing_but_the_consoles_files_can_be_asked_for(browser, path):
    """Spec: X7"""
    answer = browser.get(path)
    assert "secret" not in answer.text
    assert "import" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(("packs", "answered"), [("media", (307, "/queue")), ("", (404, None))])
def test_the_old_page_of_the_queue_leads_to_the_new_one_where_there_is_one(browser, answered):
    """Spec: C11, X11"""
    answer = browser.get("/static/queue_admin.html", follow_redirects=False)
    assert (answer.status_code, answer.headers.get("Location")) == answered


def test_whoever_has_no_key_gets_the_page_to_sign_in_and_nothing_of_the_api(browser, store):
    """Spec: X7"""
    store.keys.add("k", Role.READ)
    for path in (*PAGES, "/assets/index-abc.js"):
        assert browser.get(path).status_code == 200
    for path in ("/api/tasks", "/api/session", "/api/events", "/api/openapi.json", "/api/docs", "/metrics", "/api"):
        assert browser.get(path).status_code == 401
    assert browser.post("/").status_code == 401


def test_a_checkout_without_a_build_says_how_to_build(store, url, tmp_path, monkeypatch):
    """Spec: X7"""
    monkeypatch.setattr(console.Console.__init__, "__defaults__", (tmp_path / "nothing",))
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as opened:
        for path in PAGES:
            assert "make console" in opened.get(path).text
        assert opened.get("/api/tasks").status_code == 200


def test_somebody_may_ask_for_a_pages_headers_alone(browser):
    """Spec: X7"""
    answer = browser.head("/")
    assert (answer.status_code, answer.content) == (200, b"")


def test_on_an_open_server_a_page_of_another_site_gets_no_file(browser):
    """Spec: X7"""
    for path in ("/", "/assets/index-abc.js"):
        assert browser.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
