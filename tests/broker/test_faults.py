"""A load under faults of the broker, one after the other: nothing is lost, and each task ends once.

Four faults and 240 tasks in the suite; HEADGATE_STORY_BROKER_FAULTS=20 has 5,000 tasks, as `make crash` does.
"""

import os
import random
from collections import Counter

import pytest

from headgate.duties import Dispatcher, Relay
from tests.broker.conftest import doing
from tests.broker.listening import at_broker, publish, subscribed
from tests.broker.load import QUEUE, Load
from tests.broker.proxy import Proxy
from tests.broker.test_scenarios import by_broker, ended, kinds
from tests.worker.conftest import until, working

FAULTS = int(os.environ.get("HEADGATE_STORY_BROKER_FAULTS", "4"))
EACH = 250 if FAULTS > 4 else 60  # tasks, at least, that run from one fault to the next


class Story:
    """What the faults are done to."""

    def __init__(self, app, server, proxy):
        self.app, self.server, self.proxy = app, server, proxy
        self.load = Load(app)


def cut_in_mid_confirm(story):
    """The dispatcher's connection ends when the broker has a message and the dispatcher has not heard so."""
    story.proxy.cut_before_confirm(QUEUE)
    until(lambda: story.load.submit() and story.proxy.has_cut.is_set(), 60)


def repeat_and_shuffle(story):
    tasks = story.load.tasks[-50:]
    seen = [(event.task_id, event.exec_id) for task in tasks for event in story.app.store.events.of(task.id)]
    random.Random(3).shuffle(seen)
    for task_id, exec_id in seen[:20]:
        if exec_id is not None:
            publish(story.server.url, "headgate.tasks", QUEUE, message_id=exec_id, headers={"task_id": task_id})


def kill(story):
    story.server.stop("immediate")
    story.server.start()


def delete_queue(story):
    at_broker(story.server.url, lambda channel: channel.queue_delete(QUEUE))


def raise_memory_alarm(story):
    """Nothing is confirmed after the first message or two."""
    story.server.control("set_vm_memory_high_watermark", "0.0001")
    try:
        until(lambda: story.load.submit() and not story.app.store.dispatch.is_live(), 60)
    finally:
        story.server.control("set_vm_memory_high_watermark", "0.4")


def restart(story):
    story.server.stop()
    story.server.start()


def cut_all(story):
    story.server.control("close_all_connections", "a fault")


def lose_messages(story):
    at_broker(story.server.url, lambda channel: channel.queue_purge(QUEUE))


ALL_FAULTS = (
    cut_in_mid_confirm, repeat_and_shuffle, kill, delete_queue, raise_memory_alarm, restart, cut_all, lose_messages,
)  # fmt: skip


@pytest.fixture
def proxy(server):
    made = Proxy(server.url)
    yield made
    made.close()


@pytest.mark.parametrize("resend", [1.0])
def test_a_load_under_faults_of_the_broker_loses_nothing_and_ends_nothing_twice(app, server, proxy, settings):
    """Spec: D1, D2, D6"""
    story, done, delivered = Story(app, server, proxy), Counter[str](), Counter[str]()
    load = story.load
    duties = doing(settings, [Dispatcher, Relay], broker=proxy.url)
    one, two = working(app, concurrency=5, name="one"), working(app, concurrency=3, name="two")
    with duties as [dispatcher, _], one as first, two as second:
        assert isinstance(dispatcher, Dispatcher)
        until(lambda: by_broker(app))
        with load.submitting():
            for number in range(FAULTS):
                load.await_runs((number + 1) * EACH)
                fault = ALL_FAULTS[number % len(ALL_FAULTS)]
                fault(story)
                done[fault.__name__] += 1
                load.await_broker(120)
        load.assert_each_ends_once()
        with subscribed(server.url, "task.#") as subscriber:
            last = load.submit()
            until(lambda: ended(app, last))
            until(lambda: subscriber.kinds(last.id) == kinds(app, last.id), 60)
        for worker in (first, second):
            delivered.update(worker.deliveries)
    print(f"{len(load.tasks)} tasks; {done}; published {dispatcher.counts}; delivered {delivered}")
