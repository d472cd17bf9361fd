"""The connection to RabbitMQ: made when it is needed, thrown away when anything is wrong with it."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from headgate.broker.address import parse, place_of
from headgate.broker.channel import Channel, Disconnected, Receive, open_channel
from headgate.broker.confirms import Batch, Published
from headgate.broker.topology import DEAD, DEAD_QUEUE, EXCHANGES, MENDING, TASK_QUEUE, TASKS, Message
from headgate.core.errors import Unavailable
from headgate.settings import broker_urls

CONNECT_SECONDS = 10.0  # for all nodes together
CONFIRM_SECONDS = 5.0  # for whatever is asked of the broker
MOST_WAITS = 3  # for confirms, each as long as that, while some of them come
MOST_FAILURES = 3  # of one queue in a row, then it is broken
MEND_SECONDS = 30.0  # to delete a queue without a leader, RabbitMQ first waits for one
PROBE = "headgate probe"
log = logging.getLogger("headgate.broker")


class BrokerAway(Unavailable):
    """The broker does not answer, or does not do what it is asked."""


class Link:
    """A connection with one channel, on which everything that is published is confirmed.

    Of several nodes, it tries each in turn until one can be used, and stays with that one.
    Use `channel` each time: a closed one is replaced. After any error `close` it; the broker redelivers whatever was
    not acknowledged. `on_closed` is called when an open channel has closed, on either side.

    A queue that several times in a row cannot be consumed, on connections that work, is broken for good: in RabbitMQ
    3.10 a crash of its node soon after it was declared is enough. It is deleted and declared again. Its messages are
    sent again from the store.
    """

    def __init__(self, broker: str, name: str, on_closed: Callable[[], None] = lambda: None) -> None:
        self._urls = deque(broker_urls(broker))  # first the one in use, or to be tried next
        self._name = name
        self._on_closed = on_closed
        self._channel: Channel | None = None
        self._queues: set[str] = set()  # declared by way of this channel
        self._failures: Counter[str] = Counter()  # of each queue since it worked last, on whatever connection
        self._connecting = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._channel is not None and not self._channel.is_closed

    @property
    def place(self) -> str:
        """Where the node in use is, for people."""
        return place_of(self._urls[0])

    async def channel(self) -> Channel:
        """An open channel; `BrokerAway` if none can be opened."""
        async with self._connecting:  # a second caller must not close the channel that is being opened
            if self._channel is None or self._channel.is_closed:
                await self.close()
                self._channel = await self._connect()
            return self._channel

    async def _connect(self) -> Channel:
        """A channel at the first node that can be used, each tried once."""
        reasons = []
        for _ in range(len(self._urls)):
            try:
                async with asyncio.timeout(CONNECT_SECONDS / len(self._urls)):
                    return await self._open(self._urls[0])
            except Exception as error:
                reasons.append(f"the broker at {self.place} cannot be used: {reason_of(error)}")
                self._urls.rotate(-1)
        raise BrokerAway("; ".join(reasons))

    async def _open(self, url: str) -> Channel:
        channel = await open_channel(parse(url), self._name)
        try:
            for exchange, kind in EXCHANGES.items():
                await channel.exchange_declare(exchange, kind)
            await _declare_dead(channel)
            # A broker that is short of memory or disk takes connections, and confirms nothing after the first message.
            async with asyncio.timeout(CONFIRM_SECONDS):
                for _ in range(2):
                    await channel.publish([Message(TASKS, PROBE, PROBE)]).over.wait()
        except BaseException:
            await channel.close()
            raise
        if channel.is_closed:
            raise Disconnected("the connection to the broker was lost")
        channel.on_closed = self._on_closed
        return channel

    async def declare_queue(self, name: str) -> None:
        """Declare a queue for tasks, once per connection."""
        channel = await self.channel()
        if name in self._queues:
            return
        async with asyncio.timeout(CONFIRM_SECONDS):
            await channel.queue_declare(name, TASK_QUEUE)
            await channel.queue_bind(name, TASKS, name)
        self._queues.add(name)

    async def consume(self, channel: Channel, queue: str, receive: Receive) -> str:
        """Consume a queue on that channel; returns the consumer's tag, or raises `BrokerAway`."""
        try:
            if self._failures[queue] >= MOST_FAILURES:
                await self._mend(channel, queue)
            async with asyncio.timeout(CONFIRM_SECONDS):
                tag = await channel.basic_consume(queue, receive)
                if self._failures[queue] >= MOST_FAILURES:
                    await channel.queue_delete(MENDING)
        except (TimeoutError, Disconnected) as error:
            self._failures[queue] += 1
            raise BrokerAway(f"the queue {queue} cannot be consumed: {reason_of(error)}") from None
        del self._failures[queue]
        return tag

    async def _mend(self, channel: Channel, queue: str) -> None:
        """Delete a queue that nobody can consume, and declare it again.

        One process does, which it is until it consumes or its connection is lost: the others would delete the new one.
        """
        async with asyncio.timeout(MEND_SECONDS):
            await channel.queue_declare(MENDING, {}, exclusive=True)
            if (await channel.queue_declare(queue, TASK_QUEUE)).consumers:
                return  # another process has mended it
            log.warning("broker: queue %s is broken: it is deleted and declared again", queue)
            await channel.queue_delete(queue)
            await channel.queue_declare(queue, TASK_QUEUE)
            await channel.queue_bind(queue, TASKS, queue)

    async def publish(self, messages: Sequence[Message]) -> list[Published]:
        """Publish in this order; returns what became of each message."""
        channel = await self.channel()
        if not messages:
            return []
        try:
            batch = channel.publish(messages)
        except Disconnected:
            return [Published.UNCONFIRMED] * len(messages)
        await _answered(batch)
        return batch.results()

    async def dead_letters(self) -> int:
        """How many messages wait in the dead-letter queue, which is declared again if somebody deleted it."""
        channel = await self.channel()
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                return await _declare_dead(channel)
        except Exception as error:
            raise BrokerAway(f"the broker refused: {reason_of(error)}") from error

    async def close(self) -> None:
        """Throw the connection away."""
        channel, self._channel = self._channel, None
        self._queues.clear()
        if channel is not None:
            await channel.close()


async def _answered(batch: Batch) -> None:
    """Wait for the confirms, and longer while some of them come: a slow broker confirms some of many in that time."""
    for _ in range(MOST_WAITS):
        before = batch.missing
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_SECONDS):
                await batch.over.wait()
                return
        if batch.missing == before:
            return


async def _declare_dead(channel: Channel) -> int:
    state = await channel.queue_declare(DEAD, DEAD_QUEUE)
    await channel.queue_bind(DEAD, DEAD)
    return state.messages


async def probe_broker(url: str) -> str:
    """Connect once and publish something that goes nowhere; the broker's name and version."""
    link = Link(url, "headgate doctor")
    try:
        properties = (await link.channel()).server_properties
        return f"{properties.get('product', 'AMQP')} {properties.get('version', '')}".strip()
    finally:
        await link.close()


OpenLink = Callable[..., Link]  # as `Link` is made: url, name, on_closed


def reason_of(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    text = " ".join(str(error).split())
    return type(error).__name__ if not text or text.startswith("<") else text
