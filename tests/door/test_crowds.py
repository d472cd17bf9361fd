"""Many connections at once, and bodies under signatures that nobody has verified, leave the server answering."""

import resource
import selectors
import time
from contextlib import ExitStack
from itertools import cycle

import pytest

from headgate.api.door.connections import RESERVED_FILES, SPARE
from headgate.api.door.unverified_bodies import MOST_BYTES_OF_ONE
from headgate.core.keys import Role, secret_key
from headgate.core.signing import SignedRequest, authorization
from headgate.environment import new_uuid7
from headgate.store.store import open_store
from lab.headgate_server import PATIENCE, headgate_server
from lab.raw_http import raw_client

MIB = 1024 * 1024
FILES = 300
SECRET = "what the server keeps to itself"  # noqa: S105 of a test
ATTACKER = "127.0.0.2"
NEIGHBOUR = "127.0.0.3"
SILENT = 500
AT_ONCE = 50
SIGNED = 40


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def made(folder):
    """A key, and its text."""
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        return store.keys.add("ops", Role.ADMIN)


@pytest.fixture(scope="module")
def key(made):
    return made[1]


@pytest.fixture(scope="module")
def keys(folder, key):
    """Keys of several tenants: one tenant alone may not have so many streams."""
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        return [key, *(store.keys.add(f"of {tenant}", Role.READ, tenant_id=tenant)[1] for tenant in (1, 2))]


@pytest.fixture(scope="module")
def server(folder, key):
    """A server that others can reach, with fewer files than there are clients."""
    with headgate_server(folder, few_files, host="0.0.0.0", secret=SECRET) as running:
        running.address = running.address.replace("0.0.0.0", "127.0.0.1")
        yield running


@pytest.fixture
def crowd(server):
    with ExitStack() as stack:
        yield lambda source, count: [stack.enter_context(raw_client(server.address, source)) for _ in range(count)]


def asks(server, key, source):
    with raw_client(server.address, source) as client:
        return client.ask("GET", "/api/tasks", Authorization=f"Bearer {key}").status


def test_more_silent_connections_than_files_leave_everybody_answered(server, key, crowd):
    """Spec: X12"""
    for _ in range(SILENT // AT_ONCE):
        crowd(ATTACKER, AT_ONCE)
        assert asks(server, key, NEIGHBOUR) == 200
    assert asks(server, key, ATTACKER) == 200
    server.logged(f"connections: at the limit: address={ATTACKER}")


def test_an_address_that_holds_its_share_is_told_so_and_learns_still_whether_the_server_lives(server, key, keys, crowd):
    """Spec: X12"""
    share = (FILES - RESERVED_FILES) // 2
    for client, own in zip(crowd(ATTACKER, share), cycle(keys), strict=False):
        client.send(client.head("GET", "/api/events", Authorization=f"Bearer {own}"))
        assert client.answer_head()[0] == 200
    with raw_client(server.address, ATTACKER) as client:
        answer = client.ask("GET", "/api/tasks", Authorization=f"Bearer {key}")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert client.ended()
    with raw_client(server.address, ATTACKER) as client:
        assert client.ask("GET", "/livez").status == 200
    for _ in range(3):
        crowd(ATTACKER, 1)
        assert asks(server, key, ATTACKER) == 503
    crowd(ATTACKER, 4 * SPARE)
    assert asks(server, key, NEIGHBOUR) == 200


def signature(key, client, body):
    """The Authorization header of POST /api/tasks with this body."""
    request = SignedRequest("POST", "/api/tasks", "", client.host, body)
    return authorization(f"hg_{key.id}", secret_key(SECRET, key.id, key.digest), request, int(time.time()), new_uuid7())


def test_half_sent_bodies_under_signatures_share_what_memory_they_have(server, made, key, crowd):
    """Spec: X12"""
    before = server.memory()
    clients = crowd(ATTACKER, SIGNED)
    for client in clients:
        of_another = signature(made[0], client, b"another body")
        client.send(client.head("POST", "/api/tasks", Content_Length=str(MIB), Authorization=of_another))
        client.send(b"x" * (MIB - 1))
    refused = 0
    with selectors.DefaultSelector() as waiting:
        for client in clients:
            waiting.register(client.socket, selectors.EVENT_READ, client)
        while refused < SIGNED - MOST_BYTES_OF_ONE // MIB:
            for ready, _ in waiting.select(PATIENCE):
                waiting.unregister(ready.fileobj)
                assert ready.data.answer().status == 503
                refused += 1
    assert server.memory() - before < 32 * MIB
    assert asks(server, key, ATTACKER) == 200
    with raw_client(server.address, NEIGHBOUR) as client:
        answer = client.ask("POST", "/api/tasks", {}, Authorization=signature(made[0], client, b"{}"))
        assert (answer.status, "type" in answer.json["detail"]) == (422, True)
