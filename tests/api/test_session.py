"""Signed in at the console: a key is changed for a cookie that is good for the console's own pages, for a while."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.api.door.gatekeeper import Gatekeeper
from headgate.api.door.sessions import COOKIE, digest_in
from headgate.api.live.waiting import still_authorized
from headgate.core.keys import Role
from headgate.settings import Settings
from headgate.store.store import Store
from tests.api.conftest import HERE, Client
from tests.factories import sql, submit

HOST = HERE.removeprefix("http://")
OURS = {"X-Headgate-Console": "1", "Origin": HERE, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def key(store: Store) -> str:
    return store.keys.add("ann", Role.OPERATOR)[1]


def signed_in(client: Client, key: str, **headers: str) -> str:
    answer = client.post("/api/session", headers={"Authorization": f"Bearer {key}"} | headers)
    assert answer.status_code == 201, answer.text
    client.cookies.clear()
    return str(answer.headers["Set-Cookie"].partition(";")[0])


@pytest.fixture
def cookie(client: Client, key: str) -> str:
    return signed_in(client, key)


def test_a_key_is_changed_for_a_cookie_that_no_script_and_no_other_site_sees(client, key):
    """Spec: X7"""
    answer = client.post("/api/session", headers={"Authorization": f"Bearer {key}"})
    said = answer.headers["Set-Cookie"]
    assert said.startswith("__Host-")
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} <= {part.strip() for part in said.split(";")}
    assert "Domain" not in said
    assert key not in said
    assert answer.json()["role"] == "operator"


def test_a_session_sees_and_does_what_its_key_may(client, cookie, store):
    """Spec: X7"""
    task = submit(store, "plain")
    who = client.get("/api/session", headers={"Cookie": cookie}).json()
    assert (who["name"], who["role"], who["open"], who["tenant_id"]) == ("key:1 ann", "operator", False, None)
    assert client.get("/api/tasks", headers={"Cookie": cookie}).status_code == 200
    ended = client.post(f"/api/tasks/{task.id}/cancel", headers={"Cookie": cookie} | OURS)
    assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")
    assert store.events.of(task.id)[-1].actor == "key:1 ann"
    assert client.get("/api/keys", headers={"Cookie": cookie}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": HERE},
        {"X-Headgate-Console": "1"},
        OURS | {"Origin": "http://elsewhere.example"},
        OURS | {"Origin": "null"},
        OURS | {"Sec-Fetch-Site": "cross-site"},
        OURS | {"Sec-Fetch-Site": "same-site"},
        {"Origin": HERE, "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_page_of_another_site_changes_nothing_in_the_name_of_who_is_signed_in(client, cookie, store, headers):
    """Spec: X7"""
    task = submit(store, "plain")
    for path in (f"/api/tasks/{task.id}/cancel", "/api/queue/pause", "/api/tasks"):
        answer = client.post(path, headers={"Cookie": cookie} | headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:headgate:problem:forbidden")
    assert client.delete("/api/session", headers={"Cookie": cookie} | headers).status_code == 403
    assert store.tasks.get(task.id).status == "queued"
    assert not store.pauses.active()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_reads_nothing_in_the_name_of_who_is_signed_in(client, cookie, site):
    """Spec: X7"""
    assert client.get("/api/tasks", headers={"Cookie": cookie, "Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.parametrize("said", ["", "x", "00", "zz" * 24, "0" * 48, "0" * 47, "a\x01b", '"'])
def test_a_cookie_that_is_no_session_is_nobody(client, key, said):
    """Spec: X7"""
    answer = client.get("/api/tasks", headers={"Cookie": f"{COOKIE}={said}"})
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:headgate:problem:unauthorized")


def test_a_cookie_of_backslashes_takes_no_time(client, key):
    """Spec: X7"""
    quoted = client.get("/api/tasks", headers={"Cookie": f'{COOKIE}="' + "\\" * 30_000 + '"'})
    assert quoted.status_code == 401


def test_the_session_is_found_among_other_cookies(client, cookie):
    """Spec: X7"""
    for said in (f"a=1; {cookie}", f"{cookie}; b=2", f"a=1;{cookie};b=2"):
        assert client.get("/api/tasks", headers={"Cookie": said}).status_code == 200
    assert client.get("/api/tasks", headers={"Cookie": f"not{cookie}"}).status_code == 401


def test_a_session_makes_no_other_session(client, cookie):
    """Spec: X7"""
    again = client.post("/api/session", headers={"Cookie": cookie} | OURS)
    assert (again.status_code, "with a key" in again.json()["detail"]) == (409, True)


def test_whoever_guesses_sessions_is_soon_not_looked_up_any_more(client, cookie, store, monkeypatch):
    """Spec: X7"""
    assert client.get("/api/tasks", headers={"Cookie": cookie}).status_code == 200
    asked, get = [], store.sessions.get

    def look_up(digest: str, idle: float) -> Any:
        asked.append(digest)
        return get(digest, idle)

    monkeypatch.setattr(store.sessions, "get", look_up)
    answers = [client.get("/api/tasks", headers={"Cookie": f"{COOKIE}={number:048x}"}) for number in range(120)]
    assert {answer.status_code for answer in answers} == {401, 429}
    assert len(asked) < 110
    assert client.get("/api/tasks", headers={"Cookie": cookie}).status_code == 200


def test_whoever_signs_out_is_out_at_once_and_the_browser_forgets(client, cookie):
    """Spec: X7"""
    answer = client.delete("/api/session", headers={"Cookie": cookie} | OURS)
    assert answer.status_code == 204
    assert answer.headers["Set-Cookie"].startswith(f"{COOKIE}=; Path=/; Max-Age=0;")
    assert client.get("/api/tasks", headers={"Cookie": cookie}).status_code == 401


def test_a_session_ends_with_its_key(client, cookie, store, app):
    """Spec: X7"""
    store.keys.revoke(1)
    app.server.keyring.forget()
    assert client.get("/api/tasks", headers={"Cookie": cookie}).status_code == 401


def test_signing_in_again_gives_another_session_and_ends_the_first(client, key, cookie):
    """Spec: X7"""
    second = signed_in(client, key, Cookie=cookie)
    assert second != cookie
    assert client.get("/api/tasks", headers={"Cookie": second}).status_code == 200
    assert client.get("/api/tasks", headers={"Cookie": cookie}).status_code == 401


def test_a_session_is_good_at_every_server_and_after_a_restart(client, cookie, store, url):
    """Spec: X7, C12"""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as another:
        assert another.get("/api/tasks", headers={"Cookie": cookie}).status_code == 200


@pytest.fixture
def brief(store: Store, url: str, key: str) -> Iterator[Client]:
    """A server whose sessions last no time at all."""
    settings = Settings(url=url, session_idle_seconds=1e-6)
    with TestClient(create_app(store, settings), base_url=HERE) as opened:
        yield opened


def test_a_session_that_was_not_used_for_too_long_is_over(brief, key):
    """Spec: X7"""
    cookie = signed_in(brief, key)
    assert brief.get("/api/tasks", headers={"Cookie": cookie}).status_code == 401


def test_wrong_keys_at_the_sign_in_are_counted_like_any_others(client, key):
    """Spec: X7"""
    wrong = {"Authorization": "Bearer hg_1_" + "0" * 56}
    answers = [client.post("/api/session", headers=wrong) for _ in range(25)]
    assert answers[0].status_code == 401
    assert answers[-1].status_code == 429
    assert all("Set-Cookie" not in answer.headers for answer in answers)


def test_a_server_without_keys_has_nothing_to_sign_in_with(client):
    """Spec: X7"""
    assert client.get("/api/session").json() == {
        "name": "person", "role": "admin", "tenant_id": None, "open": True, "expires_at": None, "pages": [],
    }  # fmt: skip
    assert client.post("/api/session").status_code == 409
    assert client.delete("/api/session").status_code == 204


def test_an_agents_key_opens_no_session(client, store):
    """Spec: X7"""
    text = store.keys.add("agent", Role.AGENT)[1]
    assert client.post("/api/session", headers={"Authorization": f"Bearer {text}"}).status_code == 403


def test_who_signed_out_no_longer_hears_what_happens(store, url, key):
    """Spec: X7"""

    async def story() -> None:
        app = create_app(store, Settings(url=url))
        server = app.server
        session, cookie = await server.sessions.begin(store.keys.get(1), "ann", None)
        headers = {b"cookie": cookie.partition(";")[0].encode(), b"host": HOST.encode()}
        scope = {"method": "GET", "path": "/api/events", "state": {"client": "127.0.0.1"}}
        who = await Gatekeeper(app, server)._session_holder(scope, headers, set(), False)
        assert who is not None
        assert await still_authorized(server, who)
        await server.sessions.end(session.digest, "ann")
        assert not await still_authorized(server, who)
        await server.close()

    asyncio.run(story())


def test_the_token_is_nowhere_in_the_store(client, cookie, url):
    """Spec: X7"""
    token = cookie.partition("=")[2]
    assert token not in str(sql(url, "SELECT * FROM headgate_session"))
    assert str(digest_in(cookie.encode())) in str(sql(url, "SELECT * FROM headgate_session"))
