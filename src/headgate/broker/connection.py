"""The connection to RabbitMQ: made when it is needed, thrown away when anything is wrong with it."""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headgate.broker.topology import DEAD, DEAD_QUEUE, EXCHANGES, TASK_QUEUE, TASKS, Message
from headgate.core.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from aiormq.channel import Channel
    from aiormq.connection import Connection

CONNECT_SECONDS = 10.0
CONFIRM_SECONDS = 5.0  # for whatever is asked of the broker
CLOSE_SECONDS = 2.0
HEARTBEAT_SECONDS = 10
PROBE = "headgate probe"


class BrokerAway(Unavailable):
    """The broker does not answer, or does not do what it is asked."""


@contextmanager
def lost_is_away() -> Iterator[None]:
    """`BrokerAway` where the client says that a connection was lost by cancelling what waits for it."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # that was somebody of ours
            raise
        raise BrokerAway("the connection to the broker was lost") from None


class Published(StrEnum):
    """What became of a message."""

    CONFIRMED = "confirmed"
    RETURNED = "returned"  # no queue takes it
    REFUSED = "refused"  # the queue is full
    UNCONFIRMED = "unconfirmed"  # nobody knows: it may arrive, or not


class Link:
    """A connection with one channel, on which everything that is published is confirmed.

    Ask for the `channel` each time: a closed one is replaced. After any error `close` it; whatever was delivered and
    not acknowledged comes again. `on_closed` is called when an open channel has closed, whoever closed it.
    """

    def __init__(self, url: str, name: str, on_closed: Callable[[], None] = lambda: None) -> None:
        self._url = url
        self._name = name
        self._on_closed = on_closed
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._queues: set[str] = set()  # declared by way of this channel

    @property
    def is_open(self) -> bool:
        return self._channel is not None and not self._channel.is_closed

    async def channel(self) -> "Channel":
        """An open channel; `BrokerAway` if there is none to be had."""
        if self._channel is None or self._channel.is_closed:
            await self.close()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    with lost_is_away():
                        self._channel = await self._open()
            except Exception as error:
                await self.close()
                if isinstance(error, Invalid):
                    raise
                raise BrokerAway(f"the broker at {place_of(self._url)} cannot be used: {reason_of(error)}") from None
        return self._channel

    async def _open(self) -> "Channel":
        client = _client()
        self._connection = client.Connection(
            _with_heartbeat(self._url), client_properties={"connection_name": self._name}
        )
        await self._connection.connect()
        channel: Any = await self._connection.channel(on_return_raises=True)
        for exchange, kind in EXCHANGES.items():
            await channel.exchange_declare(exchange, exchange_type=kind, durable=True)
        await channel.queue_declare(DEAD, durable=True, arguments=dict(DEAD_QUEUE))
        await channel.queue_bind(DEAD, DEAD)
        # A broker that is short of memory or disk takes connections, and confirms nothing after the first message.
        for _ in range(2):
            await channel.basic_publish(b"", exchange=TASKS, routing_key=PROBE, timeout=CONFIRM_SECONDS)
        channel.closing.add_done_callback(lambda _: self._on_closed())
        opened: Channel = channel
        return opened

    async def declare_queue(self, name: str) -> None:
        """Have a queue for tasks; asked again, nothing happens until the connection is a new one."""
        channel = await self.channel()
        if name in self._queues:
            return
        async with asyncio.timeout(CONFIRM_SECONDS):
            with lost_is_away():
                await channel.queue_declare(name, durable=True, arguments=dict(TASK_QUEUE))
                await channel.queue_bind(name, TASKS, name)
        self._queues.add(name)

    async def publish(self, messages: Sequence[Message]) -> list[Published]:
        """Publish in this order; what became of each."""
        channel = await self.channel()
        return await asyncio.gather(*(_publish(channel, message) for message in messages))

    async def close(self) -> None:
        """Throw the connection away."""
        connection, self._connection, self._channel = self._connection, None, None
        self._queues.clear()
        if connection is not None:
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    with lost_is_away():
                        await connection.close()


async def _publish(channel: "Channel", message: Message) -> Published:
    client = _client()
    properties = client.spec.Basic.Properties(
        delivery_mode=2,
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        headers=dict(message.headers),
        content_type="application/json" if message.body else None,
        app_id="headgate",
    )
    try:
        with lost_is_away():
            await channel.basic_publish(
            message.body, exchange=message.exchange, routing_key=message.routing_key, properties=properties,
            mandatory=message.mandatory, timeout=CONFIRM_SECONDS, wait=False,
        )  # fmt: skip
    except client.exceptions.PublishError:
        return Published.RETURNED
    except client.exceptions.DeliveryError:
        return Published.REFUSED
    except Exception:
        return Published.UNCONFIRMED
    return Published.CONFIRMED


async def probe_broker(url: str) -> str:
    """Connect once and publish something that goes nowhere; the broker's name and version."""
    link = Link(url, "headgate doctor")
    try:
        await link.channel()
        assert link._connection is not None
        properties: dict[str, Any] = link._connection.server_properties
        return f"{properties.get('product', 'AMQP')} {properties.get('version', '')}".strip()
    finally:
        await link.close()


def place_of(url: str) -> str:
    """Where a broker is, for people: without user and password."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (5671 if parts.scheme == 'amqps' else 5672)}"


def _client() -> Any:
    """The AMQP client, loaded by those who use it."""
    try:
        client = importlib.import_module("aiormq")
    except ImportError:
        raise Invalid("a broker needs the extra rabbitmq: pip install 'headgate[rabbitmq]'") from None
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # what goes wrong is told here, once, without the URL
    return client


def _with_heartbeat(url: str) -> Any:
    found = importlib.import_module("yarl").URL(url)
    return found if "heartbeat" in found.query else found.update_query(heartbeat=HEARTBEAT_SECONDS)


def reason_of(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    text = " ".join(str(error).split())
    return type(error).__name__ if not text or text.startswith("<") else text
