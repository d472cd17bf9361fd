"""A tenant that uses all of its share is told so, and takes nothing of anybody else's; on real sockets."""

import itertools
import sqlite3
import time
from contextlib import ExitStack, closing

import pytest

from headgate.api.door.principal import Principal
from headgate.api.door.shares import TASKS_A_TOKEN, Shares, ShareUsedUp
from headgate.api.server import THREADS
from headgate.core.keys import Role
from headgate.core.task import TaskType
from headgate.settings import Settings
from headgate.store.reading.lists import Filter
from headgate.store.store import open_store
from lab.headgate_server import headgate_server
from lab.raw_http import raw_client

RATE, BURST, TENANTS_BURST = 5, 60, 80
TURNS, POLLS, STREAMS = 4, 3, 2
KEY_SHARE = f"rate={RATE}/{BURST},requests={THREADS + 8},threads={TURNS},polls={POLLS},streams={STREAMS}"
TENANT_SHARE = f"rate={RATE}/{TENANTS_BURST},polls={POLLS + 1},streams={STREAMS + 1}"
tenants = itertools.count(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def store(folder):
    with open_store(f"sqlite:///{folder}/headgate.db") as store:
        store.migrate()
        store.types.put(TaskType("plain"))
        yield store


@pytest.fixture(scope="module")
def operator(store):
    return store.keys.add("operator", Role.OPERATOR)[1]


@pytest.fixture(scope="module")
def server(folder, operator):
    with headgate_server(folder, key_share=KEY_SHARE, tenant_share=TENANT_SHARE) as running:
        yield running


@pytest.fixture
def tenant():
    """One that nobody else has used anything of."""
    return next(tenants)


@pytest.fixture
def connect(server):
    with ExitStack() as stack:
        yield lambda: stack.enter_context(raw_client(server.address))


@pytest.fixture
def client(connect, store, tenant):
    """A client with a key of the tenant; `role` and `tenant_id` make it another's."""

    class Client:
        def __init__(self, role=Role.SUBMIT, tenant_id=tenant, key=None):
            self.key = key or store.keys.add("of a test", role, tenant_id=tenant_id)[1]
            self.raw = connect()

        def beside(self):
            """Another connection with the same key."""
            return Client(key=self.key)

        def send(self, method, path, body=b""):
            about = {"Authorization": f"Bearer {self.key}", "Content_Length": str(len(body))}
            self.raw.send(self.raw.head(method, path, Content_Type="application/json", **about) + body)
            return self.raw

        def ask(self, method, path, body=None):
            return self.raw.ask(method, path, body, Authorization=f"Bearer {self.key}")

    return Client


def answered(client):
    """How many requests are answered before one is refused, and the refusal."""
    for count in range(3 * TENANTS_BURST):
        answer = client.ask("GET", "/api/session")
        if answer.status == 429:
            return count, answer
        assert answer.status == 200
    raise AssertionError("none was refused")


def test_a_key_that_asks_too_often_is_told_when_to_come_back_and_its_neighbour_is_served(
    client, server, operator, connect
):
    """Spec: X12"""
    first, second, neighbour = client(), client(), client(tenant_id=next(tenants))
    count, refusal = answered(first)
    assert count >= BURST
    assert (refusal.headers["content-type"], refusal.json["code"]) == ("application/problem+json", "too-many-requests")
    assert refusal.headers["retry-after"] == "1"
    assert "key" in refusal.json["detail"]
    count, refusal = answered(second)
    assert count < BURST
    assert "tenant" in refusal.json["detail"]
    assert neighbour.ask("GET", "/api/session").status == 200
    assert f"key={first.key.split('_')[1]} method=GET path=/api/session" in server.logged("refused: status=429")
    metrics = connect().ask("GET", "/metrics", Authorization=f"Bearer {operator}").body.decode()
    assert 'headgate_share_refusals_total{what="rate",whose="key"} 1.0' in metrics


def test_a_bulk_submit_costs_what_so_many_requests_do_and_its_neighbour_is_served(client):
    """Spec: X12"""
    own, neighbour, thousand = client(), client(tenant_id=next(tenants)), {"tasks": [{"type": "plain"}] * 1000}
    began, made = time.monotonic(), []
    while (answer := own.ask("POST", "/api/tasks/bulk", thousand)).status == 201:
        made += answer.json["tasks"]
    assert 0 < len(made) / TASKS_A_TOKEN <= BURST + RATE * (time.monotonic() - began)
    assert (answer.status, answer.json["detail"]) == (429, "too many tasks a second with this key")
    assert 1 <= int(answer.headers["retry-after"]) <= 1000 // TASKS_A_TOKEN // RATE
    assert own.ask("GET", "/api/tasks?limit=1").json["items"][0]["id"] == made[-1]["id"]
    assert neighbour.ask("POST", "/api/tasks/bulk", thousand).status == 201


def test_a_bulk_submit_that_costs_more_than_a_full_bucket_is_taken_once_and_paid_for_later():
    """Spec: X12"""
    shares = Shares(Settings(key_share=f"rate={1 / 3600}/3", tenant_share="none"), 100)
    own = shares.accounts(Principal("a key", 1, Role.SUBMIT, key_id=1))
    shares.take_token(own)
    shares.take_tokens_of_bulk(own, 4 * TASKS_A_TOKEN)
    with pytest.raises(ShareUsedUp, match="requests a second"):
        shares.take_token(own)
    with pytest.raises(ShareUsedUp, match="tasks a second"):
        shares.take_tokens_of_bulk(own, 4 * TASKS_A_TOKEN)
    shares.take_tokens_of_bulk(own, TASKS_A_TOKEN)  # which the request's own token pays for


def status(client, path):
    """That of a request, on a connection that is closed then."""
    beside = client.beside()
    found = beside.send("GET", path).answer_head()[0]
    beside.raw.close()
    return found


def test_requests_that_wait_have_a_share_of_their_own_and_it_is_free_when_they_hang_up(client, store, tenant):
    """Spec: X12"""
    own, neighbour = client(), client(tenant_id=next(tenants))
    task = own.ask("POST", "/api/tasks", {"type": "plain"}).json["id"]
    theirs = neighbour.ask("POST", "/api/tasks", {"type": "plain"}).json["id"]
    clients = [own.beside() for _ in range(POLLS)]
    for each in clients:
        each.send("POST", "/api/tasks?wait=60", b'{"type": "plain"}')
    while len(store.tasks.find(Filter(tenant_id=tenant)).items) <= POLLS:  # they wait when their tasks are there
        time.sleep(0.02)
    shortly = f"/api/tasks/{task}/log?wait=0.1"
    assert status(own, shortly) == 429
    before = own.ask("GET", "/api/tasks").json["items"]
    answer = own.ask("POST", "/api/tasks?wait=1", {"type": "plain"})
    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert own.ask("GET", "/api/tasks").json["items"] == before
    assert status(neighbour, f"/api/tasks/{theirs}/log?wait=0.1") == 200
    clients[0].raw.close()
    while status(own, shortly) == 429:
        pass


def test_streams_have_a_share_and_it_is_free_when_they_hang_up(client):
    """Spec: X12"""
    own, second, neighbour = client(), client(), client(tenant_id=next(tenants))
    streams = [own.beside() for _ in range(STREAMS)]
    for each in streams:
        assert each.send("GET", "/api/events").answer_head()[0] == 200
    assert own.ask("GET", "/api/events").status == 429
    assert second.send("GET", "/api/events").answer_head()[0] == 200
    assert second.beside().ask("GET", "/api/events").status == 429
    assert neighbour.send("GET", "/api/events").answer_head()[0] == 200
    streams[0].raw.close()
    second.raw.close()
    while status(own, "/api/events") == 429:
        pass


def test_a_tenant_whose_requests_are_stuck_in_the_store_leaves_threads_to_others(client, server, store, folder):
    """Spec: X12"""
    agent, neighbour = client(Role.AGENT), client(tenant_id=next(tenants))
    assert neighbour.ask("GET", "/api/tasks").status == 200
    with closing(sqlite3.connect(folder / "headgate.db", isolation_level=None)) as rival:
        rival.execute("BEGIN IMMEDIATE")
        stuck = [agent.beside() for _ in range(THREADS + 8)]
        for number, each in enumerate(stuck):
            each.send("POST", f"/api/agents/stuck{number}/claim", b"{}")
        while agent.ask("GET", "/api/session").status != 429:  # they may still be on their way
            time.sleep(0.1)
        for _ in range(5):
            assert neighbour.ask("GET", "/api/tasks").status == 200
        gone, there = stuck[:THREADS], stuck[THREADS:]
        connected = server.connections()
        for each in gone:
            each.raw.close()
        while server.connections() > connected - len(gone):
            time.sleep(0.02)
        rival.execute("ROLLBACK")
    assert [each.raw.answer().status for each in there] == [200] * len(there)
    begun = [worker.name for worker in store.workers.all() if worker.name.startswith("stuck")]
    assert len(there) <= len(begun) <= len(there) + TURNS  # nothing was begun for those who hung up


def test_a_server_without_keys_gives_everybody_all_of_it(tmp_path):
    """Spec: X12"""
    least = "rate=0.1/1,requests=1,threads=1,polls=1,streams=1"
    with headgate_server(tmp_path, key_share=least, tenant_share=least) as running, ExitStack() as stack:
        clients = [stack.enter_context(raw_client(running.address)) for _ in range(3)]
        for client in clients:
            client.send(client.head("GET", "/api/events"))
            assert client.answer_head()[0] == 200
            assert stack.enter_context(raw_client(running.address)).ask("GET", "/api/tasks").status == 200


def test_an_agent_that_hangs_up_while_it_waits_takes_no_task_along(client, store, tenant):
    """Spec: B2, X12"""
    gone, other, submitter = client(Role.AGENT), client(Role.AGENT), client()
    gone.send("POST", "/api/agents/gone/claim", b'{"wait_seconds": 60}')
    while not any(worker.name == "gone" for worker in store.workers.all()):
        time.sleep(0.02)
    gone.raw.close()
    task = submitter.ask("POST", "/api/tasks", {"type": "plain"}).json["id"]
    [claimed] = other.ask("POST", "/api/agents/other/claim", {"wait_seconds": 60}).json["tasks"]
    assert (claimed["id"], store.tasks.get(task).error_count) == (task, 0)
