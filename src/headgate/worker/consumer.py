"""What the broker delivers to a worker: a second source for its pools, beside claiming from the store."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.broker.connection import CONFIRM_SECONDS, BrokerAway, Link, lost_is_away, place_of, reason_of
from headgate.broker.topology import delivered_task
from headgate.environment import monotonic
from headgate.pauses import wait
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.threads import InThread
from headgate.worker.pool import Delivery, Pool

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage
    from aiormq.channel import Channel

LONGEST_PAUSE = 1.0
log = logging.getLogger("headgate.broker")


class BrokerConsumer:
    """Consumes the queues of a worker's pools, and tells the pools whether the broker feeds them.

    It does while it is connected and a dispatcher is alive; else the pools claim from the store. A message that meets
    no free slot goes back to its queue, for another worker, once this one has stopped consuming for that pool; it
    begins again when a slot is free. `on_change` is called when the connection was made or lost.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        pools: Sequence[Pool],
        in_thread: InThread,
        on_change: Callable[[], None],
    ) -> None:
        self.connected = False
        self.fed = False  # by the dispatcher: else the pools claim from the store
        self.counts: Counter[str] = Counter()  # of deliveries
        self._store = store
        self._settings = settings
        self._pools = pools
        self._in_thread = in_thread
        self._on_change = on_change
        self._link = Link(settings.broker, "headgate worker", on_closed=self._lost)
        self._channel: Channel | None = None
        self._tags: dict[Pool, dict[str, list[str]]] = defaultdict(dict)  # consumers of each queue, by pool
        self._full: set[Pool] = set()  # that met a message without a free slot, and consume nothing
        self._cancelling = asyncio.Lock()
        self._settling: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._trouble = ""
        self._check_at = 0.0
        for pool in pools:
            pool.on_room = self._room_made

    async def run(self) -> None:
        """Consume, and connect again and again, until cancelled."""
        try:
            while True:
                self._woken.clear()
                try:
                    with lost_is_away():
                        await self._look()
                except Exception as error:
                    self._tell(error)
                    await self._link.close()
                    self._lost()
                await wait(self._woken, min(self._settings.poll_seconds, LONGEST_PAUSE))
        finally:
            self._lost()
            await self._link.close()  # what is not acknowledged goes to others

    async def _look(self) -> None:
        channel = await self._link.channel()
        if channel is not self._channel:
            await channel.basic_qos(prefetch_count=self._settings.broker_prefetch, timeout=CONFIRM_SECONDS)
            self._channel = channel
            self._tags.clear()
            self._full.clear()
        for pool in self._pools:
            if pool.has_free_slot:
                self._full.discard(pool)
            if pool not in self._full:
                await self._consume(channel, pool)
        await self._check_flow()
        fed = await self._in_thread(self._store.dispatch.is_live)
        if not self.connected:
            self.connected, self._trouble = True, ""
            log.info("consumer: takes tasks from the broker at %s", place_of(self._settings.broker))
            self._on_change()
        self._feed(fed)

    def _feed(self, fed: bool) -> None:
        for pool in self._pools:
            pool.feed_by_broker(fed)
        if fed is not self.fed:
            self.fed = fed
            self._on_change()

    async def _consume(self, channel: "Channel", pool: Pool) -> None:
        """Have consumers on every queue of the pool's types."""
        count, tags = min(self._settings.broker_consumers, pool.slots), self._tags[pool]
        for queue in await self._in_thread(self._store.dispatch.queues, pool.types):
            if queue not in tags:
                await self._link.declare_queue(queue)
                async with asyncio.timeout(CONFIRM_SECONDS):
                    made = [
                        await channel.basic_consume(queue, partial(self._take, channel, pool)) for _ in range(count)
                    ]
                tags[queue] = [str(each.consumer_tag) for each in made]
            elif any(tag not in channel.consumers for tag in tags[queue]):
                raise BrokerAway(f"the queue {queue} was deleted")

    async def _check_flow(self) -> None:
        """Connect anew if what is in the broker does not come, though there is room for it.

        RabbitMQ 3.10 hands a channel nothing more of a quorum queue that was deleted and at once declared again, and
        does not say so.
        """
        period = self._settings.broker_resend_seconds
        idle = frozenset(code for pool in self._pools if pool.has_free_slot for code in pool.types)
        if monotonic() >= self._check_at and await self._in_thread(self._store.dispatch.is_stalled, idle, period):
            self._check_at = monotonic() + period
            raise BrokerAway("tasks in the broker do not come")

    async def _take(self, channel: "Channel", pool: Pool, message: "DeliveredMessage") -> None:
        """A message has come."""
        properties, tag = message.header.properties, message.delivery_tag
        assert tag is not None
        self.counts["received"] += 1
        self.counts["redelivered"] += bool(message.redelivered)
        settle = partial(self._settle, channel, tag)
        found = delivered_task(properties.message_id, properties.headers)
        if found is None:
            self.counts["undecodable"] += 1
            log.warning("consumer: a message that names no task goes to the dead-letter queue")
            self._soon(channel.basic_reject(tag, requeue=False))
        elif not pool.offer(Delivery(*found, settle)):
            self.counts["no slot"] += 1
            await self._stop_consuming(channel, pool)
            settle(False)

    async def _stop_consuming(self, channel: "Channel", pool: Pool) -> None:
        async with self._cancelling:
            if pool in self._full:
                return
            self._full.add(pool)
            queues, self._tags[pool] = self._tags[pool], {}
            for tag in [tag for tags in queues.values() for tag in tags if tag in channel.consumers]:
                await channel.basic_cancel(
                    tag, timeout=CONFIRM_SECONDS
                )  # waits for the answer: what was on its way has come by then

    def _settle(self, channel: "Channel", tag: int, started: bool) -> None:
        """Acknowledge, or send back. On a channel that has closed it fails: the message comes again, and is stale."""
        self._soon(channel.basic_ack(tag) if started else channel.basic_nack(tag, requeue=True))

    def _soon(self, sending: Coroutine[Any, Any, None]) -> None:
        async def send() -> None:
            with suppress(Exception):
                await sending

        task = asyncio.create_task(send())
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    def _room_made(self) -> None:
        if self._full:
            self._woken.set()

    def _lost(self) -> None:
        """The connection is gone: claim from the store."""
        if self.connected:
            self._woken.set()
            self.connected = False
            self._feed(False)
            self._on_change()

    def _tell(self, error: Exception) -> None:
        if (reason := reason_of(error)) != self._trouble:
            log.warning("consumer: %s; tasks are claimed from the store meanwhile", reason)
            self._trouble = reason
