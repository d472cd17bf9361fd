"""Cookies over HTTP: what is in one goes in, and comes out nowhere."""

import dataclasses
import json
import logging
import traceback

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.errors import HeadgateError
from headgate.core.keys import ROLES
from headgate.core.machine import Raised
from headgate.core.task import NewTask
from headgate.outward.sealing import Seals
from headgate.packs.media.cookies import Cookies
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest, Outcome
from tests.api.conftest import HERE
from tests.api.test_secrets import dump

CANARY = "canary4711of2the3cookies"
SERVER_SECRET = "what the server keeps to itself"  # noqa: S105 of nobody
FILE = f".example.org\tTRUE\t/\tTRUE\t1999999999\tSESSDATA\t{CANARY}\n"


@pytest.fixture
def packs():
    return "media"


@pytest.fixture
def app(app, store, url, packs):
    """With a secret to seal under."""
    return create_app(store, Settings(url=url, packs=packs, secret=SERVER_SECRET))


def put(client, site="example.org", content=f"SESSDATA={CANARY}; other=1", **fields):
    return client.put(f"/api/cookies/{site}", json={"content": content, **fields})


def test_a_cookie_is_put_listed_enabled_and_deleted(client, store):
    """Spec: C9"""
    made = put(client)
    assert made.status_code == 200
    cookie = made.json()
    assert {name: cookie[name] for name in ("site", "tenant_id", "failures", "disabled_at", "last_error")} == {
        "site": "example.org", "tenant_id": 0, "failures": 0, "disabled_at": None, "last_error": None,
    }  # fmt: skip
    assert client.get("/api/cookies").json() == {"items": [cookie]}
    cookies = Cookies(store.database, Seals([SERVER_SECRET]))
    assert CANARY in cookies.content(cookies.find()[0])
    store.tasks.submit(NewTask("parse"))
    [execution] = store.claims.take(ClaimRequest(store.workers.register("tester"), 1)).executions
    owner = {"task_id": execution.id, "exec_id": execution.exec_id}
    cookies.count_failure(cookies.find()[0], "Forbidden", limit=1, **owner)
    disabled = client.get("/api/cookies").json()["items"][0]
    assert (disabled["failures"], disabled["last_error"]) == (1, "Forbidden")
    assert disabled["disabled_at"] is not None
    enabled = client.post("/api/cookies/example.org/enable")
    assert (enabled.status_code, enabled.json()["disabled_at"], enabled.json()["failures"]) == (200, None, 0)
    assert client.delete("/api/cookies/example.org").status_code == 204
    assert client.get("/api/cookies").json() == {"items": []}
    assert client.delete("/api/cookies/example.org").status_code == 404
    assert client.post("/api/cookies/example.org/enable").status_code == 404


@pytest.mark.parametrize(
    ("site", "content"),
    [("example.org", "garbage"), ("example.org", ""), ("other.org", FILE), ("nonsense", FILE)],
)
def test_what_is_no_cookie_is_refused_and_the_old_one_stays(client, site, content):
    """Spec: C9"""
    before = put(client).json()
    assert put(client, site, content).status_code == 422
    assert client.get("/api/cookies").json() == {"items": [before]}


def test_without_a_secret_to_seal_under_the_error_says_what_to_do(store, url, packs, app):
    """Spec: C9"""
    with TestClient(create_app(store, Settings(url=url, packs=packs)), base_url=HERE) as client:
        answer = put(client)
        assert answer.status_code == 422
        assert "HEADGATE_SECRET" in answer.json()["detail"]
        assert "openssl rand -hex 32" in answer.json()["detail"]
        assert client.get("/api/cookies").json() == {"items": []}


def test_cookies_are_for_operators_and_for_their_own_tenant(client, store):
    """Spec: C9, D9"""
    keys = {
        name: store.keys.add(name, ROLES[role], tenant_id=tenant)[1]
        for name, role, tenant in (("sub", "submit", None), ("one", "operator", 1), ("two", "operator", 2))
    }

    def headers(name):
        return {"Authorization": f"Bearer {keys[name]}"}

    assert client.get("/api/cookies", headers=headers("sub")).status_code == 403
    made = client.put("/api/cookies/example.org", json={"content": "a=b"}, headers=headers("one"))
    assert made.json()["tenant_id"] == 1
    assert client.get("/api/cookies", headers=headers("two")).json() == {"items": []}
    assert client.delete("/api/cookies/example.org", headers=headers("two")).status_code == 404
    other = client.put("/api/cookies/example.org", json={"content": "a=b", "tenant_id": 1}, headers=headers("two"))
    assert other.status_code == 403


def failure(cookies, cookie):
    """The traceback of a cookie that cannot be opened, with all that its frames hold."""
    try:
        cookies.content(dataclasses.replace(cookie, site="other.org"))
    except HeadgateError as error:
        return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def test_what_is_in_a_cookie_is_nowhere_to_be_found(client, store, url, caplog):
    """Spec: C9, RELIABILITY T26"""
    caplog.set_level(logging.DEBUG)
    heard = [put(client).text, put(client, "example.org", FILE).text]
    heard += [put(client, "example.org", f"{CANARY} {CANARY}").text, put(client, "other.org", FILE).text]
    heard.append(client.put("/api/cookies/example.org", content=f'{{"content": "{CANARY}').text)
    heard.append(client.put("/api/cookies/example.org", json={"content": [CANARY], "x": CANARY}).text)
    heard.append(put(client, "example.org", CANARY * 20_000).text)
    cookies = Cookies(store.database, Seals([SERVER_SECRET]))
    cookie = cookies.find()[0]
    store.tasks.submit(NewTask("download", json.dumps({"url": "https://example.org"})))
    [execution] = store.claims.take(ClaimRequest(store.workers.register("tester"), 1)).executions
    cookies.count_failure(cookie, "Forbidden", limit=1, task_id=execution.id, exec_id=execution.exec_id)
    heard.append(failure(cookies, cookie))
    store.executions.settle([Outcome(execution, Raised(heard[-1], None))])
    heard += [
        client.get(path).text
        for path in ("/api/cookies", "/api/tasks", "/api/tasks/1/events", "/api/audit", "/metrics", "/api/requests")
    ]
    assert "damaged, or was sealed for another place" in heard[-7]
    assert CANARY not in "".join(heard)
    assert CANARY not in repr(cookie)
    assert CANARY not in caplog.text
    assert CANARY not in dump(url, store.database.dialect)
    assert "cookie_disabled" in "".join(heard)
