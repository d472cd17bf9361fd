"""A process's connection to the simulated broker, in place of a real one."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from headgate.broker.channel import QueueState, Receive
from headgate.broker.confirms import Published
from headgate.broker.connection import CONFIRM_SECONDS, Link
from headgate.broker.frames import Delivered
from headgate.broker.topology import Message
from headgate.simulation.broker import SILENT, Consumer, QueuedMessage, Refused, SimulatedBroker
from headgate.simulation.process import Process, current_process


class SimulatedChannel:
    """A connection with its one channel. A frozen process sends and receives nothing on it."""

    def __init__(self, broker: SimulatedBroker, process: Process, on_closed: Callable[[], None]) -> None:
        self.process = process
        self.is_closed = False
        self.consumers: dict[str, Consumer] = {}
        self.unacknowledged: dict[int, tuple[Consumer, QueuedMessage]] = {}
        self._broker = broker
        self._on_closed = on_closed
        self._prefetch = 0
        self._receivers: dict[str, Receive] = {}
        self._numbers = count(1)
        self._answered: set[int] = set()
        # On a channel everything comes in order, there and back; timers of the same moment do not.
        self._to_process: deque[tuple[str, Delivered]] = deque()
        self._inbox: deque[tuple[str, Delivered]] = deque()
        self._to_broker: deque[Callable[[], None]] = deque()
        self._arrival = self._departure = 0.0

    # what a channel can do

    async def basic_qos(self, prefetch_count: int) -> None:
        await self._reach()
        self._prefetch = prefetch_count
        await self._hear()

    async def queue_declare(self, name: str, arguments: Mapping[str, Any], *, exclusive: bool = False) -> QueueState:
        await self._reach()
        state = QueueState(0, 0) if exclusive else self._broker.declare(name)
        await self._hear()
        return state

    async def queue_delete(self, name: str) -> None:
        await self._reach()
        self._broker.delete(name)
        await self._hear()

    async def queue_bind(self, queue: str, *binding: Any) -> None:
        """Nothing but its own name leads to a queue."""

    async def basic_consume(self, queue: str, receive: Receive) -> str:
        await self._reach()
        try:
            consumer = self._broker.consume(self, queue, self._prefetch)
        except KeyError:
            await self.close()
            raise Refused(f"there is no queue {queue}") from None
        self._receivers[consumer.consumer_tag] = receive
        await self._hear()
        return consumer.consumer_tag

    async def basic_cancel(self, tag: str) -> None:
        await self._reach()
        if (consumer := self.consumers.get(tag)) is not None:
            self._broker.cancel(consumer)
        await asyncio.sleep(max(self._arrival - self._broker.clock(), 0.0))
        await self._hear()

    async def basic_ack(self, tag: int, *, multiple: bool = False) -> None:
        await self._answer(tag, requeue=None, multiple=multiple)

    async def basic_reject(self, tag: int, *, requeue: bool = True) -> None:
        await self._answer(tag, requeue=requeue)

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._broker.disconnect(self)

    async def publish(self, messages: Sequence[Message]) -> list[Published]:
        """Publish in this order, and wait for the confirms."""
        await self._reach()
        results = list(self._broker.publish(self, list(messages)))
        results += [Published.UNCONFIRMED] * (len(messages) - len(results))
        if Published.UNCONFIRMED in results and not self.is_closed:
            await asyncio.sleep(CONFIRM_SECONDS)
        await asyncio.sleep(self._broker.latency)
        await self.process.thawed()
        return [Published.UNCONFIRMED] * len(messages) if self.is_closed else results

    # what happens to it

    def deliver(self, consumer: Consumer, queued: QueuedMessage) -> None:
        """Send a message on its way to the consumer."""
        tag, now = next(self._numbers), self._broker.clock()
        self.unacknowledged[tag] = (consumer, queued)
        self._arrival = max(now + self._broker.latency, self._arrival)
        sent = queued.message
        message = Delivered(tag, queued.returns > 0, sent.message_id, sent.headers.get("task_id"))
        self._to_process.append((consumer.consumer_tag, message))
        self._broker.later(self._arrival - now, self._arrive)

    def _arrive(self) -> None:
        self._inbox.append(self._to_process.popleft())
        if self.process.alive:
            self.process.run(lambda: asyncio.ensure_future(self._read()))

    async def _read(self) -> None:
        await self.process.thawed()
        while self._inbox:
            tag, message = self._inbox.popleft()
            self._receivers[tag](message)

    def closed(self) -> None:
        """The connection is gone; the process hears of it when it can."""

        async def hear() -> None:
            await self.process.thawed()
            self._on_closed()

        self.is_closed = True
        if self.process.alive:
            self.process.run(lambda: asyncio.ensure_future(hear()))

    # on the way

    async def _reach(self) -> None:
        await self.process.thawed()
        await asyncio.sleep(self._broker.latency)
        self._require_open()

    async def _hear(self) -> None:
        await asyncio.sleep(self._broker.latency)
        await self.process.thawed()
        self._require_open()

    async def _answer(self, tag: int, *, requeue: bool | None, multiple: bool = False) -> None:
        """Send an answer to a delivery, or to all up to it; the broker does not confirm it."""
        await self.process.thawed()
        self._require_open()
        tags = [each for each in self.unacknowledged if each <= tag] if multiple else [tag]
        for each in (tag for tag in tags if tag in self.unacknowledged and tag not in self._answered):
            self._answered.add(each)
            if requeue is None:
                self._broker.note("acknowledged", self.unacknowledged[each][1].message)
            self._send(partial(self._broker.settle, self, each, requeue=requeue))

    def _send(self, settle: Callable[[], None]) -> None:
        now = self._broker.clock()
        self._departure = max(now + self._broker.latency, self._departure)
        self._to_broker.append(settle)
        self._broker.later(self._departure - now, lambda: self._to_broker.popleft()())

    def _require_open(self) -> None:
        if self.is_closed:
            raise Refused("the connection was lost")


class SimulatedLink(Link):
    """The real link, except that it opens a connection to the simulated broker."""

    def __init__(
        self, broker: SimulatedBroker, url: str, name: str, on_closed: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(url, name, on_closed)
        self._broker = broker
        self._process = current_process.get()

    async def _open(self, url: str) -> Any:
        await self._process.thawed()
        await asyncio.sleep(self._broker.latency)
        channel = SimulatedChannel(self._broker, self._process, self._on_closed)
        self._broker.connect(channel)
        try:
            await self._greeted(channel)
        except BaseException:
            await channel.close()
            raise
        return channel

    async def _greeted(self, channel: SimulatedChannel) -> None:
        if self._broker.is_ill(SILENT):
            await asyncio.sleep(CONFIRM_SECONDS)
            raise TimeoutError
        await asyncio.sleep(self._broker.latency)
        await self._process.thawed()
        if channel.is_closed:
            raise Refused("the connection was lost")

    async def publish(self, messages: Sequence[Message]) -> list[Published]:
        channel: Any = await self.channel()
        results: list[Published] = await channel.publish(messages)
        return results

    async def dead_letters(self) -> int:
        """Not counted: the broker records what is published there."""
        await self.channel()
        return 0
