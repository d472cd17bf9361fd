"""Keys: made, shown once, looked up, ended; and what somebody without a good one is told."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any

import pytest
from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.api.door.failures import ALLOWED, FORGIVEN_PER_SECOND, Failures
from headgate.api.door.keyring import FRESH_SECONDS
from headgate.api.door.safe_headers import SAFE_HEADERS
from headgate.core.keys import SECRET_BYTES, format_key, parse_key
from headgate.environment import Environment, replaced, utc_now
from headgate.settings import Settings
from headgate.store.store import Store
from tests.api.conftest import HERE, Client
from tests.factories import sql

REVOKED_WITHIN = 5.0
SECRET = "what the server keeps to itself"  # noqa: S105


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def read(text: str) -> tuple[int, bytes]:
    found = parse_key(text)
    assert found is not None
    return found


def make(client: Client, said: str | None = None, **fields: object) -> dict[str, Any]:
    answer = client.post(
        "/api/keys", json={"name": "k", "role": "admin"} | fields, headers=bearer(said) if said else {}
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


@pytest.fixture
def admin(client: Client) -> str:
    return str(make(client, name="root")["key"])


@pytest.fixture
def second(store: Store, url: str, admin: str) -> Iterator[Client]:
    """Another server over the same store."""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as opened:
        yield opened


def test_a_key_is_written_so_that_it_can_be_found_and_cannot_be_mistyped():
    """Spec: B11"""
    text = format_key(17, bytes(range(SECRET_BYTES)))
    assert text.startswith("hg_17_000102")
    assert parse_key(text) == (17, bytes(range(SECRET_BYTES)))
    for at in range(len(text)):
        for letter in "0a_":
            wrong = text[:at] + letter + text[at + 1 :]
            assert wrong == text or parse_key(wrong) is None
    assert parse_key(text.upper()) is parse_key(text + "0") is parse_key("") is None


def test_from_the_first_key_on_nobody_comes_in_without_one(client):
    """Spec: B11"""
    assert client.get("/api/tasks").status_code == 200
    key = make(client)["key"]
    assert client.get("/api/tasks").status_code == 401
    assert client.get("/api/tasks", headers=bearer(key)).status_code == 200


def test_a_server_stays_shut_when_its_last_key_has_ended(app, client, admin, store):
    """Spec: B11"""
    store.keys.revoke(1)
    app.server.keyring.forget()
    assert client.get("/api/tasks").status_code == 401
    assert client.get("/api/tasks", headers=bearer(admin)).status_code == 401


def test_whatever_was_wrong_the_answer_is_the_same(client, admin):
    """Spec: B11"""
    ended = make(client, admin)
    assert client.delete(f"/api/keys/{ended['id']}", headers=bearer(admin)).status_code == 204
    _, secret = read(admin)
    given: list[dict[str, Any]] = [
        {}, bearer(""), bearer("hg_1"), bearer(admin[:-1]), bearer(admin.upper()), bearer(format_key(1, bytes(24))),
        bearer(format_key(99, secret)), bearer(ended["key"]), {"Authorization": admin},
        {"Authorization": f"Basic {admin}"}, {"Authorization": "HEADGATE-HMAC-SHA256x y"},
        {"Authorization": b"Bearer \xff"},
    ]  # fmt: skip
    answers = [client.get("/api/tasks", headers=headers) for headers in given]
    answers.append(client.get("/api/tasks", headers=[("Authorization", f"Bearer {admin}")] * 2))
    assert {answer.status_code for answer in answers} == {401}
    told = [answer.json() | {"request_id": ""} for answer in answers]
    assert told == [told[0]] * len(told)
    assert answers[0].headers["WWW-Authenticate"] == "Bearer"


def test_nobody_learns_without_a_key_what_routes_there_are(client, admin):
    """Spec: B11"""
    assert client.get("/api/nothing").status_code == client.delete("/api/tasks").status_code == 401
    assert client.get("/api/nothing", headers=bearer(admin)).status_code == 404


def test_a_key_that_has_expired_is_refused(app, client, admin, url):
    """Spec: B11"""
    soon = (utc_now() + timedelta(hours=1)).isoformat()
    key = make(client, admin, expires_at=soon)
    assert client.get("/api/tasks", headers=bearer(key["key"])).status_code == 200
    sql(url, f"UPDATE headgate_api_key SET expires_at = created_at WHERE id = {key['id']}")
    app.server.keyring.forget()
    assert client.get("/api/tasks", headers=bearer(key["key"])).status_code == 401


def test_a_revoked_key_is_refused_by_every_server_within_seconds(client, second, admin):
    """Spec: B11"""
    key = make(client, admin)
    assert second.get("/api/tasks", headers=bearer(key["key"])).status_code == 200
    began = monotonic()
    assert client.delete(f"/api/keys/{key['id']}", headers=bearer(admin)).status_code == 204
    assert client.get("/api/tasks", headers=bearer(key["key"])).status_code == 401
    while second.get("/api/tasks", headers=bearer(key["key"])).status_code != 401:
        assert monotonic() < began + REVOKED_WITHIN
        sleep(0.02)
    assert FRESH_SECONDS < REVOKED_WITHIN


def test_a_key_and_its_secrets_are_shown_once_and_are_nowhere_else(store, url, caplog):
    """Spec: B11"""
    caplog.set_level(logging.DEBUG)
    settings = Settings(url=url, secret=SECRET)
    with TestClient(create_app(store, settings), base_url=HERE) as client:
        made = make(client)
        listed = client.get("/api/keys", headers=bearer(made["key"]))
        wrong = client.get("/api/tasks", headers=bearer(made["key"] + "0"))
    _, secret = read(made["key"])
    kept = str(sql(url, "SELECT * FROM headgate_api_key")) + str(sql(url, "SELECT * FROM headgate_task_event"))
    for hidden in (secret.hex(), made["secret_key"], settings.secret):
        assert hidden not in kept + listed.text + wrong.text + caplog.text + repr(settings)


def test_a_key_is_listed_with_when_it_was_last_used(client, admin):
    """Spec: B11"""
    key = make(client, admin, name="ci", role="read", tenant_id=7)
    client.get("/api/tasks", headers=bearer(key["key"]))
    end = monotonic() + REVOKED_WITHIN
    while True:
        found = client.get("/api/keys", headers=bearer(admin)).json()["items"][0]
        if found["last_used_at"] is not None:
            break
        assert monotonic() < end
        sleep(0.02)
    shown = {name: found[name] for name in ("id", "name", "role", "tenant_id", "access_key", "revoked_at")}
    assert shown == {
        "id": 2, "name": "ci", "role": "read", "tenant_id": 7, "access_key": "hg_2", "revoked_at": None,
    }  # fmt: skip


def test_keys_are_listed_in_pages(client, admin):
    """Spec: B11"""
    for _ in range(4):
        make(client, admin)
    seen, cursor = [], ""
    while True:
        page = client.get(f"/api/keys?limit=2{cursor}", headers=bearer(admin)).json()
        seen += [key["id"] for key in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [5, 4, 3, 2, 1]


def test_an_admin_of_one_tenant_sees_makes_and_ends_keys_of_that_tenant_alone(client, admin):
    """Spec: B11"""
    theirs = make(client, admin, tenant_id=2)
    mine = make(client, admin, tenant_id=1)["key"]
    assert make(client, mine, role="read")["tenant_id"] == 1
    for tenant_id in (2, 0):
        body = {"name": "k", "role": "read", "tenant_id": tenant_id}
        assert client.post("/api/keys", json=body, headers=bearer(mine)).status_code == 403
    listed = client.get("/api/keys", headers=bearer(mine)).json()["items"]
    assert {key["tenant_id"] for key in listed} == {1}
    foreign, absent = (client.delete(f"/api/keys/{key}", headers=bearer(mine)) for key in (theirs["id"], 99))
    assert foreign.status_code == absent.status_code == 404
    assert foreign.json()["detail"].replace(str(theirs["id"]), "99") == absent.json()["detail"]


@pytest.mark.parametrize("path", ["/api/lanes/default", "/api/task-types/plain"])
def test_what_all_tenants_share_no_tenant_may_change(client, admin, path):
    """Spec: B11"""
    mine = make(client, admin, tenant_id=1)["key"]
    answer = client.put(path, json={}, headers=bearer(mine))
    assert (answer.status_code, answer.json()["detail"]) == (
        403, "all tenants share this: use a key without a tenant",
    )  # fmt: skip
    assert client.get(path.rpartition("/")[0], headers=bearer(mine)).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "king"}, {"role": 5}, {"name": ""}, {"name": "x" * 256}, {"name": "a\0b"}, {"tenant_id": "1"},
        {"expires_at": "2020-01-01T00:00:00Z"}, {"expires_at": "2999-01-01T00:00:00"}, {"secret": "mine"},
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_meant_is_refused_and_none_is_made(client, store, wrong):
    """Spec: B11"""
    assert client.post("/api/keys", json={"name": "k", "role": "read"} | wrong).status_code == 422
    assert store.keys.find() == []


def test_who_made_and_ended_a_key_is_in_the_audit(client, admin, url):
    """Spec: B11, A12"""
    key = make(client, admin, name="ci", role="read")
    for _ in range(2):
        client.delete(f"/api/keys/{key['id']}", headers=bearer(admin))
    acts = sql(url, "SELECT kind, actor FROM headgate_task_event WHERE kind LIKE 'key%' ORDER BY id")
    assert acts == [("key_created", "person"), ("key_created", "key:1 root"), ("key_revoked", "key:1 root")]


def test_many_wrong_keys_from_an_address_are_slowed_down_and_a_good_one_goes_on(client, admin):
    """Spec: B11"""
    make(client, admin)
    statuses = [client.get("/api/tasks", headers=bearer(f"hg_{n}_x")).status_code for n in range(int(ALLOWED) + 5)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    answer = client.get("/api/tasks", headers=bearer(format_key(1, bytes(24))))
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    make(client, admin)


def test_failures_are_forgiven_with_time_and_counted_per_address():
    """Spec: B11"""
    now = 0.0
    with replaced(Environment(lambda: datetime.now(UTC), lambda: now, lambda: 0.5, bytes)):
        failures = Failures()
        for _ in range(int(ALLOWED) + 100):
            failures.add("here")
        assert failures.too_many("here")
        assert not failures.too_many("there")
        now = 2 / FORGIVEN_PER_SECOND
        assert not failures.too_many("here")


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_whether_the_server_lives_can_be_asked_without_a_key(client, admin, path):
    """Spec: B11"""
    assert client.get(path).status_code == 200
    assert client.get(path, headers={"Host": "elsewhere.example"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/tasks", 200), ("GET", "/api/tasks/9", 404), ("GET", "/api/nowhere", 404),
        ("DELETE", "/api/tasks", 405), ("POST", "/api/tasks", 422), ("GET", "/livez", 200), ("GET", "/api/docs", 200),
        ("GET", "/metrics", 200),
    ],
)  # fmt: skip
def test_every_answer_has_the_requests_id_and_the_headers_that_keep_it_safe(client, method, path, status):
    """Spec: B11, D10"""
    body: dict[str, Any] = {"json": {}} if method == "POST" else {}
    answer = client.request(method, path, headers={"X-Request-Id": "mine-1"}, **body)
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (status, "mine-1")
    assert {name.decode() for name, _ in SAFE_HEADERS} <= answer.headers.keys()
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("said", ["", "x" * 129, "a b", "<script>", "a\tb"])
def test_a_request_id_that_cannot_be_shown_is_replaced(client, said):
    """Spec: D10"""
    given = client.get("/api/nowhere", headers={"X-Request-Id": said})
    assert given.headers["X-Request-Id"] == given.json()["request_id"] != said
