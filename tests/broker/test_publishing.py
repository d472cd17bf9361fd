"""Messages on the wire: what is sent together arrives whole, and each is answered for itself."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from pamqp import frame

import headgate.broker.connection as connection
from headgate.broker.confirms import Batch, Published
from headgate.broker.connection import Link
from headgate.broker.frames import encode
from headgate.broker.topology import TASKS, Message
from headgate.environment import new_uuid7
from tests.broker.listening import headers, take_all


def message(queue, **said):
    return Message(TASKS, queue, str(new_uuid7()), **said)


def decoded(channel: int, wire: bytes) -> list[Any]:
    """The frames of a channel, as another program reads them."""
    frames = []
    while wire:
        size, number, found = frame.unmarshal(wire)
        assert number == channel
        frames.append(found)
        wire = wire[size:]
    return frames


def test_a_message_is_encoded_as_amqp_has_it():
    """Spec: D1"""
    said = {"task_id": 1 << 40, "user": "Zoë", "lane": "", "nobody": None, "below": -1}
    sent = Message("an.exchange", "a.key", "an-id", "a-correlation", said, b"x" * 25, mandatory=True)
    method, header, *pieces = decoded(7, encode(7, sent, 10))
    assert (method.exchange, method.routing_key, method.mandatory) == ("an.exchange", "a.key", True)
    properties = header.properties
    assert (properties.message_id, properties.correlation_id, properties.app_id) == (
        "an-id",
        "a-correlation",
        "headgate",
    )
    assert (properties.headers, properties.delivery_mode, header.body_size) == (said, 2, 25)
    assert (properties.content_type, [len(piece.value) for piece in pieces]) == ("application/json", [10, 10, 5])


def test_a_correlation_id_that_amqp_cannot_take_holds_nothing_up():
    """Spec: D1. It may have 255 characters of four bytes each; the event's body has it, and so has the store."""
    for correlation_id, found in (("é" * 127, "é" * 127), ("é" * 128, None)):
        _, header = decoded(1, encode(1, Message(TASKS, "x", "id", correlation_id), 10))
        assert header.properties.correlation_id == found


def test_of_messages_sent_together_each_is_answered_for_itself(broker):
    """Spec: D1"""
    queue = f"headgate.tasks.default.batch-{new_uuid7()}"

    async def publish():
        link = Link(broker, "test")
        try:
            await link.declare_queue(queue)
            return await link.publish(
                [
                    message(queue, headers={"number": 1}, mandatory=True),
                    message("headgate.tasks.no.such", mandatory=True),
                    message(queue, headers={"number": 2}, body=b"y" * 300_000, mandatory=True),
                    message("headgate.tasks.no.such"),
                ]
            )
        finally:
            await link.close()

    assert asyncio.run(publish()) == [
        Published.CONFIRMED,
        Published.RETURNED,
        Published.CONFIRMED,
        Published.CONFIRMED,
    ]
    found = take_all(broker, queue)
    assert [(headers(each)["number"], len(each.body)) for each in found] == [(1, 0), (2, 300_000)]


def test_what_a_closed_channel_cannot_confirm_is_unconfirmed(broker):
    """Spec: D1"""

    async def publish():
        link = Link(broker, "test")
        try:
            channel = await link.channel()
            publishing = asyncio.create_task(link.publish([Message("headgate.no-such-exchange", "x", "id")] * 3))
            assert await publishing == [Published.UNCONFIRMED] * 3
            assert channel.is_closed
            return await link.publish([message("headgate.tasks.no.such")])
        finally:
            await link.close()

    assert asyncio.run(publish()) == [Published.CONFIRMED], "on a new channel"


@pytest.mark.parametrize(
    ("times", "found"),
    [([0.1, 0.4], [Published.CONFIRMED] * 2), ([0.1, 9.0], [Published.CONFIRMED, Published.UNCONFIRMED])],
)
def test_a_slow_broker_is_waited_for_while_it_confirms_some_of_many(monkeypatch, times, found):
    """Spec: D1. A large batch that is confirmed bit by bit is no reason to give the broker up."""
    monkeypatch.setattr(connection, "CONFIRM_SECONDS", 0.3)
    link = Link("amqp://broker.example", "test")

    async def publish() -> list[Published]:
        loop, batch = asyncio.get_running_loop(), Batch(1, [message("a"), message("b")])
        for number, seconds in enumerate(times, 1):
            loop.call_later(seconds, partial(batch.answer, number, Published.CONFIRMED, multiple=False))

        async def channel() -> Any:
            return SimpleNamespace(publish=lambda messages: batch)

        monkeypatch.setattr(link, "channel", channel)
        return await link.publish([message("a"), message("b")])

    assert asyncio.run(publish()) == found
