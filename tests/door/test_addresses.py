"""Whose request it is, behind a proxy and in the log; and that wrong keys lock nobody out."""

import pytest

from headgate.api.door.address import TrustedProxies, network_of
from headgate.api.door.failures import ALLOWED
from headgate.core.errors import Invalid
from headgate.core.keys import SECRET_BYTES, Role, format_key
from headgate.store.store import open_store
from lab.headgate_server import headgate_server
from lab.raw_http import raw_client

PROXY = "127.0.0.2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def keys(folder):
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        return [store.keys.add(f"key {number}", Role.ADMIN)[1] for number in range(2)]


@pytest.fixture(scope="module")
def server(folder, keys):
    with headgate_server(folder, trusted_proxies=f"{PROXY}/32, 10.0.0.0/8") as running:
        yield running


def asked(server, key, forwarded="", source=PROXY):
    with raw_client(server.address, source) as client:
        headers = {"X_Forwarded_For": forwarded} if forwarded else {}
        return client.ask("GET", "/api/tasks", Authorization=f"Bearer {key}", **headers).status


def test_wrong_keys_behind_a_proxy_slow_down_their_own_client_and_no_good_key_of_it(server, keys):
    """Spec: B11, X12"""
    wrong = [format_key(number + 1, bytes(SECRET_BYTES)) for number in range(int(ALLOWED) + 5)]
    assert [asked(server, key, "203.0.113.5") for key in wrong][-1] == 429
    assert asked(server, wrong[0], "203.0.113.6") == 401
    assert asked(server, wrong[0], "203.0.113.6, 203.0.113.5") == 429
    assert asked(server, wrong[0], "203.0.113.6, 203.0.113.5, 10.1.2.3") == 429
    assert [asked(server, key, "203.0.113.5") for key in keys] == [200, 200]
    assert asked(server, wrong[0], "203.0.113.5", source="127.0.0.3") == 401
    line = server.logged("refused: status=401 address=203.0.113.5")
    assert "key=1 method=GET path=/api/tasks" in line
    assert sum("refused: status=401 address=203.0.113.5" in line for line in server.log) == 1
    assert not any(key in line for key in wrong for line in server.log)


def test_the_audit_names_the_client_behind_the_proxy(server, keys):
    """Spec: A12"""
    with raw_client(server.address, PROXY) as client:
        about = {"Authorization": f"Bearer {keys[0]}", "X_Forwarded_For": "::ffff:203.0.113.9"}
        client.ask("PUT", "/api/lanes/x", {"capacity": 3}, **about)
        [act] = client.ask("GET", "/api/audit?kind=capacity_changed", **about).json["items"]
    assert (act["actor"], act["address"]) == ("key:1 key 0", "203.0.113.9")


@pytest.mark.parametrize(
    ("said", "client"),
    [
        ("", "10.0.0.1"), ("198.51.100.7", "198.51.100.7"), ("198.51.100.7:4711", "198.51.100.7"),
        ("[2001:db8::1]:80", "2001:db8::1"), ("203.0.113.1, 198.51.100.7 ,10.9.9.9", "198.51.100.7"),
        ("10.1.1.1,10.2.2.2", "10.1.1.1"), ("198.51.100.7, unknown", "10.0.0.1"), ("::ffff:10.1.1.1", "10.1.1.1"),
    ],
)  # fmt: skip
def test_the_client_is_the_nearest_address_that_is_no_proxy_of_ours(said, client):
    """Spec: X12"""
    headers = [(b"x-forwarded-for", said.encode())] if said else []
    assert TrustedProxies("10.0.0.0/8").client("::ffff:10.0.0.1", headers) == client
    assert TrustedProxies("").client("10.0.0.1", headers) == "10.0.0.1"


def test_a_network_that_is_none_is_said_at_the_start():
    with pytest.raises(Invalid, match="trusted_proxies: here is not a network"):
        TrustedProxies("10.0.0.0/8, here")


def test_an_address_has_one_spelling_and_one_count():
    """Spec: X12"""
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("2001:db8:0:1::1") == network_of("2001:db8:0:1:ffff::2") != network_of("2001:db8:0:2::1")
