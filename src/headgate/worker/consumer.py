"""What the broker delivers to a worker: a second source for its pools, beside claiming from the store."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from headgate.broker.channel import Channel
from headgate.broker.connection import CONFIRM_SECONDS, BrokerAway, Link, OpenLink, reason_of
from headgate.broker.frames import Delivered
from headgate.broker.topology import delivered_task
from headgate.core.errors import Unavailable
from headgate.environment import monotonic
from headgate.pauses import wait
from headgate.settings import MOST_PREFETCH, Settings
from headgate.store.store import Store
from headgate.threads import InThread
from headgate.worker.acknowledgements import Acknowledgements
from headgate.worker.deliveries import Delivery
from headgate.worker.pool import Pool

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
        link: OpenLink = Link,
    ) -> None:
        self.connected = False
        self.fed = False  # by the dispatcher: else the pools claim from the store
        self.counts: Counter[str] = Counter()  # of deliveries
        self._store = store
        self._settings = settings
        self._pools = pools
        self._in_thread = in_thread
        self._on_change = on_change
        self._link = link(settings.broker, "headgate worker", on_closed=self._lost)
        self._channel: Channel | None = None
        self._answers: Acknowledgements | None = None  # on that channel
        self._tags: dict[Pool, dict[str, list[str]]] = defaultdict(dict)  # consumers of each queue, by pool
        self._full: set[Pool] = set()  # that met a message without a free slot, and consume nothing
        self._returning: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()  # the consumers
        self._woken = asyncio.Event()
        self._trouble = ""
        self._check_at = 0.0
        for pool in pools:
            pool.on_room = self._room_made

    async def run(self) -> None:
        """Consume, and reconnect when the connection is lost, until cancelled."""
        try:
            while True:
                self._woken.clear()
                try:
                    await self._look()
                except Exception as error:
                    if not isinstance(error, Unavailable) or isinstance(error, BrokerAway):  # else the store is away
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
            self._channel, self._answers = channel, Acknowledgements(channel)
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
            log.info("consumer: takes tasks from the broker at %s", self._link.place)
            self._on_change()
        self._feed(fed)

    def _feed(self, fed: bool) -> None:
        for pool in self._pools:
            pool.feed_by_broker(fed)
        if fed is not self.fed:
            self.fed = fed
            self._on_change()

    async def _consume(self, channel: Channel, pool: Pool) -> None:
        """Have consumers on every queue of the pool's types, until it is full."""
        assert self._answers is not None
        count = min(self._settings.broker_consumers, pool.slots)
        prefetch = self._settings.broker_prefetch or min(-(-pool.slots // count), MOST_PREFETCH)
        take = partial(self._take, channel, self._answers, pool)
        for queue in await self._in_thread(self._store.dispatch.queues, pool.types):
            async with self._changing:
                if pool in self._full:  # what came from an earlier queue met no slot
                    return
                tags = self._tags[pool]
                if queue not in tags:
                    await self._link.declare_queue(queue)
                    async with asyncio.timeout(CONFIRM_SECONDS):
                        await channel.basic_qos(prefetch)  # of the consumers that follow
                    tags[queue] = [await self._link.consume(channel, queue, take) for _ in range(count)]
                elif any(tag not in channel.consumers for tag in tags[queue]):
                    raise BrokerAway(f"the queue {queue} was deleted")

    async def _check_flow(self) -> None:
        """Reconnect if the broker has messages and does not deliver them, though there is room.

        RabbitMQ 3.10 delivers nothing more from a quorum queue that was deleted and declared again at once, and
        reports no error.
        """
        period = self._settings.broker_resend_seconds
        idle = frozenset(code for pool in self._pools if pool.has_free_slot for code in pool.types)
        if monotonic() >= self._check_at and await self._in_thread(self._store.dispatch.is_stalled, idle, period):
            self._check_at = monotonic() + period
            raise BrokerAway("tasks in the broker do not come")

    def _take(self, channel: Channel, answers: Acknowledgements, pool: Pool, message: Delivered) -> None:
        """Handle a delivered message."""
        tag = message.delivery_tag
        answers.received(tag)
        self.counts["received"] += 1
        if message.redelivered:
            self.counts["redelivered"] += 1
        found = delivered_task(message.message_id, message.task_id)
        if found is None:
            self.counts["undecodable"] += 1
            log.warning("consumer: a message that names no task goes to the dead-letter queue")
            answers.reject(tag, requeue=False)
        elif not pool.offer(Delivery(*found, partial(_settle, answers, tag))):
            self.counts["no slot"] += 1
            returning = asyncio.create_task(self._return(channel, answers, pool, tag))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)

    async def _return(self, channel: Channel, answers: Acknowledgements, pool: Pool, tag: int) -> None:
        """Send a message back once this worker cannot get it again; if the connection is lost, it goes back anyway."""
        try:
            await self._stop_consuming(channel, pool)
            answers.reject(tag, requeue=True)
        except TimeoutError:
            channel.abort()
        except OSError:  # the connection is lost
            return

    async def _stop_consuming(self, channel: Channel, pool: Pool) -> None:
        async with self._changing:
            if pool in self._full:
                return
            self._full.add(pool)
            queues, self._tags[pool] = self._tags[pool], {}
            for tag in [tag for tags in queues.values() for tag in tags if tag in channel.consumers]:
                async with asyncio.timeout(CONFIRM_SECONDS):
                    await channel.basic_cancel(tag)  # its answer means that messages on their way have arrived

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


def _settle(answers: Acknowledgements, tag: int, started: bool) -> None:
    if started:
        answers.ack(tag)
    else:
        answers.reject(tag, requeue=True)
