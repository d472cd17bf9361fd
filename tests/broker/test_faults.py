"""A load under faults of the broker, one after the other: nothing is lost, and each task ends once."""

import os
import random
import threading
from collections import Counter
from typing import Any

import pytest

from tests.broker.conftest import doing
from tests.broker.listening import at_broker, publish, subscribed
from tests.broker.test_scenarios import by_broker, ended, kinds
from tests.worker.conftest import until, working

FAULTS = int(os.environ.get("HEADGATE_STORY_BROKER_FAULTS", "4"))
EACH = 60  # tasks before each fault
QUEUE = "headgate.tasks.default.endure"
TERMINAL = {"completed", "failed", "dead_lettered", "cancelled"}


def kill(server, app, tasks):
    server.stop("immediate")
    server.start()


def cut(server, app, tasks):
    server.control("close_all_connections", "a fault")


def alarm(server, app, tasks):
    server.control("set_vm_memory_high_watermark", "0.0001")
    server.control("set_vm_memory_high_watermark", "0.4")


def purge(server, app, tasks):
    at_broker(server.url, lambda channel: channel.queue_purge(QUEUE))


def repeat_and_shuffle(server, app, tasks):
    seen = [(event.task_id, event.exec_id) for task in tasks[-50:] for event in app.store.events.of(task.id)]
    random.Random(3).shuffle(seen)
    for task_id, exec_id in seen[:20]:
        if exec_id is not None:
            publish(server.url, "headgate.tasks", QUEUE, message_id=exec_id, headers={"task_id": task_id})


ALL_FAULTS = (cut, purge, repeat_and_shuffle, kill, alarm)


@pytest.mark.parametrize("resend", [1.0])
def test_a_load_under_faults_of_the_broker_loses_nothing_and_ends_nothing_twice(app, server, settings):
    """Spec: D1, D2, D6"""
    runs: Counter[int] = Counter()
    lock = threading.Lock()

    @app.task
    async def endure(number: int) -> None:
        with lock:
            runs[number] += 1

    tasks: list[Any] = []
    with doing(settings), working(app, concurrency=5, name="one"), working(app, concurrency=3, name="two"):
        until(lambda: by_broker(app))
        for round_number in range(FAULTS):
            first = len(tasks)
            tasks += [endure.submit_sync(number=first + number) for number in range(EACH)]
            ALL_FAULTS[round_number % len(ALL_FAULTS)](server, app, tasks)
        until(lambda: ended(app, *tasks), 120)
        until(lambda: by_broker(app), 60)
        with subscribed(server.url, "task.#") as subscriber:
            last = endure.submit_sync(number=len(tasks))
            until(lambda: ended(app, last))
            until(lambda: subscriber.kinds(last.id) == kinds(app, last.id), 60)
    assert runs == Counter(range(len(tasks) + 1))
    for task in tasks:
        assert [kind for kind in kinds(app, task.id) if kind in TERMINAL] == ["completed"]
