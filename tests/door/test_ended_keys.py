"""A key that ends while its requests wait: they end too, within seconds, and are handed nothing."""

import time
from contextlib import ExitStack
from datetime import timedelta

import pytest

from headgate.core.keys import Role
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.environment import utc_now
from headgate.store.store import open_store
from lab.headgate_server import headgate_server
from lab.raw_http import raw_client

LONG = 250  # seconds that they would wait
MOST_SECONDS = 60  # on a busy machine; the promise is 5


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return f"sqlite:///{tmp_path}/headgate.db"


@pytest.fixture
def store(url):
    """One that the server reaches from another process."""
    with open_store(url) as store:
        store.migrate()
        store.types.put(TaskType("plain"))
        store.types.put(TaskType("other"))
        yield store


@pytest.fixture
def connect(store, url, tmp_path):
    with headgate_server(tmp_path, url=url) as server, ExitStack() as stack:
        yield lambda: stack.enter_context(raw_client(server.address))


def send(client, key, method, path, body=b""):
    about = {"Authorization": f"Bearer {key}", "Content_Type": "application/json", "Content_Length": str(len(body))}
    client.send(client.head(method, path, **about) + body)
    return client


def test_whoever_waits_with_a_key_that_is_revoked_elsewhere_or_expires_hears_so_and_is_handed_nothing(store, connect):
    """Spec: X12"""
    revoked, key = store.keys.add("revoked", Role.ADMIN)
    agent, agents_key = store.keys.add("agent", Role.AGENT)
    expires_at = utc_now() + timedelta(seconds=4)
    brief_key = store.keys.add("brief", Role.ADMIN, expires_at=expires_at)[1]
    task = store.tasks.submit(NewTask("plain"))
    clients = [
        send(connect(), key, "GET", f"/api/tasks/{task.id}/log?wait={LONG}"),
        send(connect(), key, "POST", f"/api/tasks?wait={LONG}", b'{"type": "plain"}'),
        send(connect(), agents_key, "POST", "/api/agents/a/claim", b'{"wait_seconds": 60, "types": ["other"]}'),
        send(connect(), brief_key, "GET", f"/api/tasks/{task.id}/log?wait={LONG}"),
    ]
    stream = send(connect(), key, "GET", "/api/events")
    assert stream.answer_head()[0] == 200
    while not (store.workers.all() and len(store.tasks.find().items) == 2):  # they wait by now
        time.sleep(0.05)
    began = time.monotonic()
    store.keys.revoke(revoked.id)
    store.keys.revoke(agent.id)
    answers = [client.answer() for client in clients]
    assert [answer.status for answer in answers] == [401] * len(clients)
    assert all(b"no longer good" in answer.body for answer in answers)
    assert stream.ended() or stream._unread.endswith(b"0\r\n\r\n")
    assert b'"reason":"unauthorized"' in stream._unread
    assert time.monotonic() - began < MOST_SECONDS
    late = store.tasks.submit(NewTask("other"))
    assert store.tasks.get(late.id).status is State.QUEUED
