"""The reference subscriber: a process of its own that keeps each event once, whatever comes twice or is cut short."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from headgate.broker.connection import probe_broker
from headgate.broker.topology import event_message
from lab.node import CLIENTS
from tests.api.serving import PATIENCE
from tests.broker.conftest import doing
from tests.broker.listening import publish
from tests.worker.conftest import until, working

PROGRAM = str(CLIENTS / "subscriber.py")
NOWHERE = "amqp://guest:secret-word@127.0.0.1:1/"


@pytest.fixture
def url(sqlite_file, tmp_path):
    """One database is enough: what is tested is at the other end of the broker."""
    (tmp_path / "store.db").write_bytes(sqlite_file.read_bytes())
    return f"sqlite:///{tmp_path}/store.db"


class Subscriber:
    """The process, and what it has said."""

    def __init__(self, database, broker):
        self.heard: list[dict[str, object]] = []
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, database, "billing", "task.completed.#"],
            env=os.environ | {"BROKER": broker},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.append(json.loads(line))

    def times_connected(self):
        return sum("following" in line for line in self.heard)


@contextmanager
def subscribing(database, broker):
    subscriber = Subscriber(database, broker)
    try:
        until(subscriber.times_connected)
        yield subscriber
    finally:
        subscriber.process.kill()
        subscriber.process.communicate(timeout=PATIENCE)


def counted(database):
    """How many completed events it has acted upon, and how many ids it keeps."""
    with sqlite3.connect(database) as opened:
        both = "SELECT (SELECT coalesce(sum(count), 0) FROM ended), (SELECT count(*) FROM seen)"  # at one moment
        [[acted, kept]] = opened.execute(both).fetchall()
    opened.close()
    assert acted == kept
    return acted


def test_a_subscriber_acts_upon_each_event_once_whatever_comes_twice_or_is_cut_short(app, server, settings, tmp_path):
    """Spec: D6"""
    database = str(tmp_path / "events.db")

    @app.task
    async def order(number: int) -> None: ...

    def again(task_id):
        [event] = [event for event in app.store.events.of(task_id) if event.kind == "completed"]
        message = event_message(event, "order")
        publish(server.url, message.exchange, message.routing_key, body=message.body, message_id=message.message_id)

    with doing(settings), working(app, concurrency=8):
        with subscribing(database, server.url) as first:
            tasks = [order.submit_sync(number=number).id for number in range(30)]
            until(lambda: counted(database) == 30)
            for task_id in tasks[:5]:
                again(task_id)
            until(lambda: sum(line.get("new") is False for line in first.heard) >= 5)
            tasks += [order.submit_sync(number=number).id for number in range(30, 90)]
            until(lambda: counted(database) > 35)
        assert first.process.returncode == -9
        tasks.append(order.submit_sync(number=90).id)  # its queue keeps this one meanwhile
        with subscribing(database, server.url) as second:
            until(lambda: counted(database) == 91)
            connected = second.times_connected()
            server.control("close_all_connections", "a test")
            until(lambda: second.times_connected() > connected)
            tasks.append(order.submit_sync(number=91).id)
            until(lambda: counted(database) == 92)
            publish(server.url, "headgate.events", "task.completed.order", body=b"no event")
            again(tasks[-1])
            until(lambda: second.heard[-1].get("new") is False)
    assert counted(database) == len(tasks)


def test_a_subscriber_that_was_away_for_long_still_knows_what_it_handled_last(server, tmp_path):
    """Spec: D6. It died between its commit and the acknowledgement: the message waits for it, however long."""
    database, body = str(tmp_path / "events.db"), json.dumps({"id": 7, "kind": "completed", "type": "order"}).encode()
    asyncio.run(probe_broker(server.url))  # which makes the exchange
    with subscribing(database, server.url):
        publish(server.url, "headgate.events", "task.completed.order", body=body)
        until(lambda: counted(database) == 1)
    with sqlite3.connect(database) as opened:
        opened.execute("UPDATE seen SET at = datetime('now', '-30 days')")
        opened.execute("INSERT INTO seen VALUES (6, datetime('now', '-60 days'))")
    opened.close()
    with subscribing(database, server.url) as later:
        publish(server.url, "headgate.events", "task.completed.order", body=body)
        until(lambda: later.heard[-1].get("new") is False)
    assert counted(database) == 1


@pytest.mark.parametrize("words", [[], ["events.db", "billing"], ["events.db", "billing", "task.#"]])
def test_a_subscriber_that_was_not_told_enough_says_how_it_is_started(words, tmp_path):
    environment = os.environ | {"BROKER": NOWHERE if len(words) < 3 else ""}
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: BROKER=amqp://… python subscriber.py DATABASE QUEUE KEY…\n"
    assert not (tmp_path / "events.db").exists()
