"""A canary for the secret of a callback: it sings nowhere but in the signature of what is sent."""

import asyncio
import logging

from starlette.testclient import TestClient

from headgate.api.app import create_app
from headgate.core.machine import Raised, Returned
from headgate.duties import Callbacks
from headgate.settings import Settings
from headgate.threads import inline
from tests.api.conftest import HERE
from tests.factories import running, settle, sql
from tests.outward.receiver import Receiver, receiving

CANARY = "canary-of-the-callbacks-4711"
SECRETS = ("the newest secret there is", "an older secret that was")
READ = (
    "/api/task-types", "/api/task-types/told", "/api/tasks", "/api/tasks/1", "/api/tasks/1/events", "/api/tasks/1/log",
    "/api/tasks/1/callbacks", "/api/tasks/2/callbacks", "/api/callbacks", "/api/queue/stats", "/api/stats", "/metrics",
    "/api/openapi.json", "/readyz",
)  # fmt: skip


def dump(url, dialect):
    """Every row there is."""
    names = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    }
    return repr([sql(url, f'SELECT * FROM "{name}"') for (name,) in sql(url, names[dialect])])


def test_the_secret_of_a_callback_is_nowhere_to_be_found(store, url, caplog):
    """Spec: B6, RELIABILITY T26"""
    caplog.set_level(logging.DEBUG)
    heard: list[str] = []

    def put(client, **security):
        callback = {
            "success": {"url": receiver.url}, "error": {"url": receiver.url},
            "security": {"type": "aksk", "ak": "us", **security},
        }  # fmt: skip
        answer = client.put("/api/task-types/told", json={"config": {"callback": callback}})
        heard.append(answer.text)
        return answer.status_code

    async def deliver(secret):
        duty = Callbacks(store, Settings(secret=secret, callback_allow="127.0.0.0/8"), inline)
        while await duty.turn() or duty._sending:
            if duty._sending:
                await asyncio.wait(list(duty._sending))

    async def story():
        settings = Settings(url=url, secret=SECRETS[1], callback_allow="127.0.0.0/8")
        async with receiving(receiver):
            with TestClient(create_app(store, settings), base_url=HERE) as client:
                assert put(client, sk=CANARY) == 200
                assert put(client) == 200
                assert put(client, sk=CANARY, ak="a b") == 422
                assert put(client, sk=CANARY[:20]) == 422
                for event in (Returned(), Raised("no")):
                    settle(store, running(store, "told"), event)
                await deliver("none of the secrets that count")
                for sent in store.deliveries.of_task(1) + store.deliveries.of_task(2):
                    store.deliveries.redeliver(sent.task_id)
                await deliver(",".join(SECRETS))
                heard.extend(client.get(path).text for path in READ)

    receiver = Receiver(500)
    asyncio.run(story())
    assert len(receiver.got) == 2
    everywhere = [
        dump(url, store.database.dialect),
        caplog.text,
        repr(store.types.by_code()),
        *heard,
        repr(receiver.got),
    ]
    assert all(len(text) > 10 for text in everywhere[:3])
    assert [text for text in everywhere if "canary" in text or any(secret in text for secret in SECRETS)] == []
