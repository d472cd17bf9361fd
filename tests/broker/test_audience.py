"""Which events are published: those that somebody listens to, from the moment a queue is bound."""

from functools import partial

import pytest

import headgate.duties.relay as relay
from headgate.broker.audience import Audience
from headgate.broker.connection import Link
from headgate.broker.topology import EVENTS, event_message
from headgate.core.events import AuditEvent, Heading
from headgate.duties import Relay
from tests.broker.conftest import doing
from tests.broker.listening import subscribed
from tests.broker.test_scenarios import ended, kinds
from tests.worker.conftest import until, working


def page(*events):
    """Events of type mail, numbered as they stand: the task and the kind of each."""
    return [Heading(number, task_id, 0, kind, "mail") for number, (task_id, kind) in enumerate(events, 1)]


def ids(events):
    return [event.id for event in events]


def test_the_first_event_of_each_topic_asks_and_comes_behind_what_its_task_had_before():
    """Spec: D6. Events of a task come in order: what asks must not overtake any of them."""
    audience = Audience()
    events = page((1, "started"), (2, "started"), (2, "progress"), (2, "started"), (2, "failed"), (3, "failed"))
    assert ids(audience.questions(events)) == [1, 2, 3, 4, 5]
    audience.learn(events[:1], returned=set())
    audience.learn(events[2:3], returned={3})
    assert ids(audience.wanted(events)) == [1, 2, 4]
    assert ids(audience.questions(page((7, "started"), (8, "started")))) == [], "somebody listens"
    assert ids(audience.questions(page((7, "progress"), (8, "progress")))) == [1], "somebody may listen by now"
    audience.learn(events[:1], returned={1})
    assert audience.wanted(events) == []


def test_kinds_types_and_tenants_are_asked_for_separately():
    """Spec: D6"""
    events = [
        Heading(1, 1, 0, "failed", "mail"), Heading(2, 2, 0, "failed", "scan"), Heading(3, 3, 5, "failed", "mail"),
        Heading(4, 4, 5, "failed", "mail"),
    ]  # fmt: skip
    assert ids(Audience().questions(events)) == [1, 2, 3]


class RecordingLink(Link):
    """Keeps what was published on the exchange of events."""

    sent: list[str]

    async def publish(self, messages):
        self.sent += [each.routing_key for each in messages if each.exchange == EVENTS]
        return await super().publish(messages)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_whoever_binds_a_queue_gets_everything_that_happens_afterwards(app, broker, settings):
    """Spec: D6"""

    @app.task
    def noted() -> None:
        pass

    def run(number):
        tasks = [noted.submit_sync() for _ in range(number)]
        until(lambda: ended(app, *tasks))
        return tasks

    def relayed():
        return all(each.waiting_since is None for each in app.store.subscriptions.all())

    sent: list[str] = []
    RecordingLink.sent = sent
    with working(app), doing(settings, [partial(Relay, link=RecordingLink)]):  # type: ignore[list-item]
        until(lambda: any(each.name == "headgate:relay" for each in app.store.subscriptions.all()))
        run(40)
        until(relayed)
        assert 0 < len(sent) < 3 * 40, "nobody listens, and only some events ask"
        with subscribed(broker, "task.completed.#") as some:
            tasks = run(20)
            until(lambda: all(some.kinds(task.id) == ["completed"] for task in tasks))
            with subscribed(broker, "task.#") as everything:
                tasks = run(20)
                until(lambda: all(everything.kinds(task.id) == kinds(app, task.id) for task in tasks))
                until(lambda: all(some.kinds(task.id) == ["completed"] for task in tasks))
        run(5)
        until(relayed)
        sent.clear()
        run(40)
        until(relayed)
        assert 0 < len(sent) < 3 * 40, "nobody listens any more"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_event_that_cannot_be_encoded_holds_up_none_of_the_others(app, broker, settings, monkeypatch):
    """Spec: D6"""

    @app.task
    def noted() -> None:
        pass

    def refuse(event: AuditEvent, *rest, **more):
        if event.kind == "started":
            raise OverflowError("too large")
        return event_message(event, *rest, **more)

    monkeypatch.setattr(relay, "event_message", refuse)
    with subscribed(broker, "task.#") as subscriber, working(app), doing(settings, [Relay]):
        until(lambda: any(each.name == "headgate:relay" for each in app.store.subscriptions.all()))
        task = noted.submit_sync()
        until(lambda: ended(app, task))
        until(lambda: subscriber.kinds(task.id) == ["submitted", "completed"])
