"""Other programs at the broker: they publish, take and count messages."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage


def at_broker(url: str, act: Callable[[AbstractChannel], Any]) -> Any:
    """What comes of some calls on a channel of one's own."""

    async def run() -> Any:
        connection = await aiormq.connect(url)
        try:
            return await act(await connection.channel())
        finally:
            await connection.close()

    return asyncio.run(run())


def publish(url: str, exchange: str, routing_key: str, *, body: bytes = b"", **properties: Any) -> None:
    said = aiormq.spec.Basic.Properties(**properties)
    at_broker(
        url, lambda channel: channel.basic_publish(body, exchange=exchange, routing_key=routing_key, properties=said)
    )


def take_all(url: str, queue: str) -> list[DeliveredMessage]:
    """Take every message out of a queue."""

    async def take(channel: AbstractChannel) -> list[DeliveredMessage]:
        found = []
        while (message := await channel.basic_get(queue, no_ack=True)).delivery_tag:
            found.append(message)
        return found

    return list(at_broker(url, take))


def headers(message: DeliveredMessage) -> dict[str, Any]:
    return dict(message.header.properties.headers or {})


def depth(url: str, queue: str) -> int:
    """How many messages wait in a queue."""
    return int(at_broker(url, lambda channel: channel.queue_declare(queue, passive=True)).message_count)


class Subscriber:
    """A program that follows events, and leaves out what it has had before."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.messages: list[DeliveredMessage] = []
        self.doubles = 0
        self._seen: set[str] = set()

    async def take(self, message: DeliveredMessage) -> None:
        message_id = str(message.header.properties.message_id)
        if message_id in self._seen:
            self.doubles += 1
            return
        self._seen.add(message_id)
        self.messages.append(message)
        self.events.append(json.loads(message.body))

    def kinds(self, task_id: int) -> list[str]:
        return [event["kind"] for event in self.events if event["task_id"] == task_id]


@contextmanager
def subscribed(url: str, *keys: str) -> Iterator[Subscriber]:
    """A subscriber to these routing keys of headgate.events meanwhile."""
    subscriber, ready, over = Subscriber(), threading.Event(), threading.Event()

    async def listen() -> None:
        connection = await aiormq.connect(url)
        channel = await connection.channel()
        await channel.exchange_declare("headgate.events", exchange_type="topic", durable=True)
        queue = (await channel.queue_declare(exclusive=True)).queue
        assert queue is not None
        for key in keys:
            await channel.queue_bind(queue, "headgate.events", key)
        await channel.basic_consume(queue, subscriber.take, no_ack=True)
        ready.set()
        await asyncio.to_thread(over.wait)
        await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(listen()), name="subscriber")
    thread.start()
    assert ready.wait(30)
    try:
        yield subscriber
    finally:
        over.set()
        thread.join(30)
