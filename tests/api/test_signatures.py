"""Signed requests: only exactly what was signed, fresh and for the first time, comes in."""

import hashlib
import hmac
import json
import time
from typing import Any
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from headgate.api.app import ApiApp, create_app
from headgate.core.signing import SignedRequest, sign
from headgate.settings import Settings
from headgate.store.store import Store, open_store
from tests.api.conftest import HERE, Client
from tests.api.test_keys import SECRET
from tests.factories import Clock

HOST = "127.0.0.1"
BODY = json.dumps({"type": "plain", "ext": {"n": 1}}).encode()
SIX_MINUTES = 360


class Signer:
    """A client that signs, written from the documentation alone."""

    def __init__(self, access_key: str, secret_key: str) -> None:
        self.access_key = access_key
        self.secret_key = secret_key

    def header(self, method: str, path: str, query: str = "", body: bytes = b"", **other: str) -> str:
        said = {"timestamp": str(int(time.time())), "nonce": uuid4().hex, "host": HOST} | other
        pairs = sorted((pair for pair in query.split("&") if pair), key=lambda pair: pair.split("=")[0])
        lines = [
            "HEADGATE-HMAC-SHA256", method, path, "&".join(pairs), said["host"], hashlib.sha256(body).hexdigest(),
            said["timestamp"], said["nonce"],
        ]  # fmt: skip
        if "idempotency_key" in said:
            lines.append(said["idempotency_key"])
        signature = hmac.new(self.secret_key.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()
        return (
            f"HEADGATE-HMAC-SHA256 access_key={self.access_key}, timestamp={said['timestamp']}, "
            f"nonce={said['nonce']}, signature={signature}"
        )


@pytest.fixture
def app(store: Store, url: str) -> ApiApp:
    return create_app(store, Settings(url=url, secret=SECRET))


@pytest.fixture
def signer(client: Client) -> Signer:
    made = client.post("/api/keys", json={"name": "signer", "role": "admin"}).json()
    return Signer(made["access_key"], made["secret_key"])


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wrong requests come from one address here."""
    monkeypatch.setattr("headgate.api.door.failures.ALLOWED", 1e9)


def post(client: Client, header: str, path: str = "/api/tasks", body: bytes = BODY, **headers: str) -> int:
    said = {"Authorization": header, "Content-Type": "application/json"} | headers
    return int(client.post(path, content=body, headers=said).status_code)


def test_a_signed_request_comes_in_with_its_body(client, signer, store):
    """Spec: B11"""
    assert post(client, signer.header("POST", "/api/tasks", body=BODY)) == 201
    assert json.loads(store.tasks.get(1).ext) == {"n": 1}
    get = client.get("/api/tasks", headers={"Authorization": signer.header("GET", "/api/tasks")})
    assert get.status_code == 200


def test_an_idempotency_key_is_signed_with_the_rest(client, signer, store):
    """Spec: B11"""
    signed = signer.header("POST", "/api/tasks", body=BODY, idempotency_key="a")
    sent: dict[str, Any] = {"Idempotency-Key": "a"}
    assert post(client, signed) == 401
    assert post(client, signed, **sent | {"Idempotency-Key": "b"}) == 401
    assert post(client, signer.header("POST", "/api/tasks", body=BODY), **sent) == 401
    assert store.tasks.find().items == []
    assert post(client, signed, **sent) == 201


def test_the_signature_is_the_one_in_the_documentation():
    """Spec: B11"""
    request = SignedRequest("POST", "/api/tasks", "wait=5&b=2&a=1&b=1", "Example.org:8000", b'{"type":"hello"}')
    assert sign("5e" * 32, request, 1767225600, "0123456789abcdef") == (
        "ee5cd2dd45104616b33351030e324246a5ac31a4bb269d0560b67acbc69ace86"
    )


def test_the_order_of_names_in_a_query_does_not_matter_and_that_of_values_does(client, signer):
    """Spec: B11"""
    signed = "status=queued&status=paused&limit=5"

    def status(sent: str) -> int:
        header = signer.header("GET", "/api/tasks", signed)
        return int(client.get(f"/api/tasks?{sent}", headers={"Authorization": header}).status_code)

    assert status(signed) == status("limit=5&status=queued&status=paused") == 200
    for changed in (
        "status=paused&status=queued&limit=5", "status=queued&status=paused&limit=4", "status=queued&limit=5",
        "status=queued&status=paused&limit=5&limit=5", "status=queued&status=paused&limit=%35", "",
    ):  # fmt: skip
        assert status(changed) == 401


def test_a_change_of_anything_that_was_signed_is_refused(client, signer, store):
    """Spec: B11"""
    good = signer.header("POST", "/api/tasks", body=BODY)
    stamp = int(good.split("timestamp=")[1].split(",")[0])
    nonce = good.split("nonce=")[1].split(",")[0]
    assert post(client, good, "/api/tasks/bulk") == 401
    assert post(client, good, "/api/tasks/") == 401
    assert post(client, good, "/api/tasks?wait=0") == 401
    assert post(client, good, Host="localhost") == 401
    assert client.put("/api/tasks", content=BODY, headers={"Authorization": good}).status_code == 401
    assert client.request("post", "/api/tasks", content=b"", headers={"Authorization": good}).status_code == 401
    for header in (
        good.replace(str(stamp), str(stamp + 1)), good.replace(str(stamp), str(stamp - 1)),
        good.replace(nonce, nonce[:-1] + ("0" if nonce[-1] != "0" else "1")), good.replace("hg_1", "hg_2"),
        good.replace("access_key=hg_1, ", ""), good + ", nonce=" + nonce, good.replace(", ", " "), good[:-1],
        good + "0", good.replace("SHA256", "SHA1"), good.replace("signature=", "signature=x"),
    ):  # fmt: skip
        assert post(client, header) == 401
    assert store.tasks.find().items == []
    assert post(client, good) == 201


def test_no_bit_of_body_or_signature_can_be_turned(client, signer, store):
    """Spec: B11"""
    good = signer.header("POST", "/api/tasks", body=BODY)
    for bit in range(8 * len(BODY)):
        turned = bytearray(BODY)
        turned[bit // 8] ^= 1 << bit % 8
        assert post(client, good, body=bytes(turned)) == 401
    digest = good[-64:]
    for bit in range(256):
        wrong = f"{int(digest, 16) ^ 1 << bit:064x}"
        assert post(client, good[:-64] + wrong) == 401
    assert store.tasks.find().items == []


def test_a_request_that_is_sent_again_is_refused_by_every_server(client, signer, store, url):
    """Spec: B11"""
    header = signer.header("POST", "/api/tasks", body=BODY)
    assert [post(client, header), post(client, header)] == [201, 401]
    with TestClient(create_app(store, Settings(url=url, secret=SECRET)), base_url=HERE) as other:
        assert post(other, header) == 401
    assert len(store.tasks.find().items) == 1


@pytest.mark.parametrize(("seconds", "status"), [(-SIX_MINUTES, 401), (SIX_MINUTES, 401), (-240, 201), (240, 201)])
def test_a_request_is_good_for_five_minutes_around_its_time(client, signer, seconds, status):
    """Spec: B11"""
    stamp = str(int(time.time()) + seconds)
    assert post(client, signer.header("POST", "/api/tasks", body=BODY, timestamp=stamp)) == status


@pytest.mark.parametrize("nonce", ["short", "x" * 129, "with spaces in it all", "with,comma,in,it"])
def test_a_nonce_is_long_enough_to_be_no_other(client, signer, nonce):
    """Spec: B11"""
    assert post(client, signer.header("POST", "/api/tasks", body=BODY, nonce=nonce)) == 401


def test_a_revoked_key_signs_nothing_any_more(app, client, signer, store):
    """Spec: B11"""
    store.keys.revoke(1)
    app.server.keyring.forget()
    assert post(client, signer.header("POST", "/api/tasks", body=BODY)) == 401


def test_another_servers_secret_makes_other_secret_keys(store, url, signer):
    """Spec: B11"""
    with TestClient(create_app(store, Settings(url=url, secret=SECRET + "!")), base_url=HERE) as other:
        assert post(other, signer.header("POST", "/api/tasks", body=BODY)) == 401


def test_secret_keys_outlive_a_change_of_the_servers_secret_while_it_knows_both(store, url, signer):
    """Spec: B11"""
    both = Settings(url=url, secret=f"a newer secret of the server, {SECRET}")
    with TestClient(create_app(store, both), base_url=HERE) as other:
        assert post(other, signer.header("POST", "/api/tasks", body=BODY)) == 201


def test_without_a_secret_of_its_own_a_server_says_that_signatures_are_off(store, url, signer):
    """Spec: B11"""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as other:
        answer = other.get("/api/tasks", headers={"Authorization": signer.header("GET", "/api/tasks")})
    assert (answer.status_code, answer.json()["detail"]) == (
        401, "signatures are off: the server has no HEADGATE_SECRET",
    )  # fmt: skip


def test_a_signed_body_that_is_too_large_is_not_read_to_its_end(client, signer, store):
    """Spec: B11"""
    body = b" " * (1024 * 1024 + 1)
    assert post(client, signer.header("POST", "/api/tasks", body=body), body=body) == 413


def test_a_nonce_is_kept_until_its_request_is_too_old_and_not_longer(url):
    """Spec: B11"""
    clock = Clock()
    with open_store(url, clock) as store:
        assert store.keys.take_nonce(1, "a" * 16)
        assert not store.keys.take_nonce(1, "a" * 16)
        assert store.keys.take_nonce(2, "a" * 16)
        clock.advance(600)
        assert store.history.forget_outdated(seconds=10**6) == 0
        assert not store.keys.take_nonce(1, "a" * 16)
        clock.advance(61)
        assert store.history.forget_outdated(seconds=10**6, limit=1) == 1
        assert store.history.forget_outdated(seconds=10**6) == 1
