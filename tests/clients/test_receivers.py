"""The reference receivers, each in its own language, told by a real sender: they take what is signed, and only that."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from headgate.core.callbacks import CallbackKind
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.duties import Callbacks
from headgate.environment import utc_now
from headgate.outward.callback import destination, sealed_callback
from headgate.outward.client import OutwardClient
from headgate.outward.sealing import Seals
from headgate.settings import Settings
from headgate.store.store import open_store
from headgate.threads import inline
from tests.api.serving import PATIENCE, ROOT
from tests.factories import running, settle

CLIENTS = ROOT / "clients"
SECRET = "what the server keeps to itself"  # noqa: S105
SETTINGS = Settings(secret=SECRET, callback_allow="127.0.0.0/8")
AK = "us"
PLAIN, STANDARD = "a secret of 24 characters".replace(" ", "-"), "whsec_" + base64.b64encode(b"x" * 32).decode()
EVERY_RECEIVER = pytest.mark.parametrize("language", ["python", "javascript"])


@contextmanager
def receiver(language, sk):
    """A receiver in a process of its own: its port, and what it prints."""
    program = {"python": [sys.executable, CLIENTS / "receiver.py"], "javascript": ["node", CLIENTS / "receiver.mjs"]}
    process = subprocess.Popen(
        [*map(str, program[language]), "0"], env=os.environ | {"AK": AK, "SK": sk}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["port"], process.stdout
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
        process.stdout.close()


def signed_type(port, sk, code="told", query=""):
    where = f"http://127.0.0.1:{port}/told/{{}}{query}"
    callback = {
        "success": {"url": where.format("good"), "method": "PUT"}, "error": {"url": where.format("bad")},
        "security": {"type": "aksk", "ak": AK, "sk": sk},
    }  # fmt: skip
    return TaskType(code, callback=sealed_callback(callback, code, Seals([SECRET])))


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/store.db") as opened:
        opened.migrate()
        yield opened


async def deliver(store):
    duty = Callbacks(store, SETTINGS, inline)
    async with asyncio.timeout(PATIENCE):
        while await duty.turn() or duty._sending:
            if duty._sending:
                await asyncio.wait(list(duty._sending))
        await duty.stop()


@EVERY_RECEIVER
@pytest.mark.parametrize("sk", [PLAIN, STANDARD], ids=["plain", "standard"])
def test_a_reference_receiver_verifies_both_signatures_and_takes_each_callback_once(language, sk, store):
    """Spec: B6, X6, RELIABILITY T24"""
    with receiver(language, sk) as (port, printed):
        store.types.put(signed_type(port, sk, query="?b=2&a=1&a=0"))
        good, bad = running(store, "told", ext='{"n": 1.5, "words": "ü 中文"}'), running(store, "told")
        settle(store, good, Returned('{"done": true}'))
        settle(store, bad, Raised("no luck"))
        asyncio.run(deliver(store))
        store.deliveries.redeliver(good.id)
        asyncio.run(deliver(store))
        lines = sorted((json.loads(printed.readline()) for _ in range(2)), key=lambda line: line["path"])
        third = running(store, "told")
        settle(store, third, Returned("3"))
        asyncio.run(deliver(store))
        assert json.loads(printed.readline())["told"] == {"ext": {}, "result": 3}  # the repetition printed nothing
    assert lines == [
        {"path": "/told/bad?b=2&a=1&a=0", "told": {"task_id": bad.id, "error_info": "no luck", "ext": {}}},
        {"path": "/told/good?b=2&a=1&a=0", "told": {"ext": {"n": 1.5, "words": "ü 中文"}, "result": {"done": True}}},
    ]
    assert store.tasks.get(good.id).status is State.SUCCEEDED
    assert [each.status for each in store.deliveries.of_task(good.id)[0].tries] == [204, 204]


@EVERY_RECEIVER
def test_a_reference_receiver_refuses_whatever_was_changed(language):
    """Spec: B6, RELIABILITY T24"""

    async def story(port):
        place = destination(signed_type(port, PLAIN), CallbackKind.ERROR)
        other = destination(signed_type(port, PLAIN[::-1]), CallbackKind.ERROR)
        assert place is not None
        assert other is not None
        now = int(utc_now().timestamp())
        body, outward = b'{"task_id":1,"error_info":"x","ext":{}}', OutwardClient("127.0.0.0/8")

        async def answer(headers, body=body, url=place.url, method="POST"):
            return (await outward.send(method, url, body, headers)).status

        def signed(where=place, at=now, body=body):
            return where.headers(Seals([SECRET]), "msg_1", at, "0123456789abcdef", body)

        right = signed()
        wrong = {
            "nothing": {}, "another secret": signed(other), "too old": signed(at=now - 400),
            "too new": signed(at=now + 400), "another body": signed(body=body + b" "),
            "another id": right | {"webhook-id": "msg_2"},
            "another time": right | {"webhook-timestamp": str(now - 1)},
            "no standard signature": {k: v for k, v in right.items() if k != "webhook-signature"},
            "no AK/SK signature": {k: v for k, v in right.items() if k != "authorization"},
            "another key": right | {"authorization": right["authorization"].replace("access_key=us", "access_key=we")},
            "another nonce": right | {"authorization": right["authorization"].replace("nonce=0", "nonce=1")},
        }  # fmt: skip
        assert {name: await answer(headers) for name, headers in wrong.items()} == dict.fromkeys(wrong, 401)
        assert await answer(right, url=place.url + "?x=1") == 401
        assert await answer(right, method="PUT") == 401
        several = right | {"webhook-signature": f"v1,AAAA {right['webhook-signature']}"}
        assert await answer(several) == 204

    with receiver(language, PLAIN) as (port, _):
        asyncio.run(story(port))


@pytest.mark.parametrize("name", ["receiver.py", "receiver.mjs"])
def test_a_reference_receiver_is_short_enough_to_read(name):
    """Spec: X6"""
    assert len((CLIENTS / name).read_text().splitlines()) < 100
