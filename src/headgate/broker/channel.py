"""A connection to RabbitMQ with its one channel: a small client of our own, since a general one costs several times as
much for each message."""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple, cast

from headgate.broker import wire
from headgate.broker.address import Address
from headgate.broker.confirms import Batch, Published
from headgate.broker.frames import Delivered, body_size, encode, read_delivery, read_ids
from headgate.broker.topology import Message

OURS = 1  # the number of the channel; what concerns the connection goes by 0
CLOSE_SECONDS = 2.0
MOST_FRAME = 1 << 17  # bytes, unless the broker names another limit
MOST_SILENCES = 4  # half heartbeats without a sign of the broker, then it is lost
_GOODBYE = wire.number(2, 200) + wire.short("") + wire.number(4, 0)
_HEARTBEAT = wire.frame(wire.HEARTBEAT, 0, b"")
_PROPERTIES = {
    "product": "headgate",
    "capabilities": {
        "authentication_failure_close": True, "basic.nack": True, "consumer_cancel_notify": True,
        "publisher_confirms": True,
    },
}  # fmt: skip

Receive = Callable[[Delivered], object]  # called for each message, as it is read


class QueueState(NamedTuple):
    """What a queue has when it is declared."""

    messages: int
    consumers: int


class Disconnected(ConnectionError):
    """The connection is lost, or was closed by either side; it says why."""


class Channel(asyncio.Protocol):
    """Calls wait for their answers; whatever the broker closes, channel or connection, closes both.

    What is written goes out in this order. Everything published is confirmed or returned. `consumers` has those that
    the broker has not cancelled.
    """

    def __init__(self) -> None:
        self.consumers: dict[str, Receive] = {}
        self.server_properties: dict[str, Any] = {}
        self.is_closed = False
        self._gone = asyncio.Event()  # the socket is closed
        self.on_closed: Callable[[], None] = lambda: None
        self._transport: asyncio.Transport
        self._unread = b""
        self._asked: deque[tuple[int, asyncio.Future[bytes]]] = deque()  # the broker answers in order
        self._batches: deque[Batch] = deque()
        self._published = 0
        self._tags = count(1)
        self._most_frame = MOST_FRAME
        self._arriving: Callable[[bytes], None] = _ignore  # takes the header of what comes in
        self._header = b""
        self._body_left = 0
        self._silences = 0
        self._beat: asyncio.TimerHandle | None = None

    # from here on what one asks of it

    async def open(self, address: Address, name: str) -> None:
        """Shake hands, as whom the address says."""
        offer = await self._ask(wire.GREETING, wire.START)
        self.server_properties = wire.read_table(wire.read_long(offer, 6)[0])
        mechanism, answer = "PLAIN", f"\0{address.user}\0{address.password}"
        if address.external:
            mechanism, answer = "EXTERNAL", ""
        said = (wire.table({**_PROPERTIES, "connection_name": name}), wire.short(mechanism), wire.long(answer.encode()))
        limits = await self._call(wire.START_OK, wire.TUNE, *said, wire.short("en_US"), channel=0)
        self._most_frame = int.from_bytes(limits[6:10]) or MOST_FRAME
        agreed = (limits[4:6], wire.number(4, self._most_frame), wire.number(2, address.heartbeat))
        self._send(wire.TUNE_OK, *agreed, channel=0)
        await self._call(wire.OPEN, wire.OPEN_OK, wire.short(address.vhost), b"\x00\x00", channel=0)
        await self._call(wire.CHANNEL_OPEN, wire.CHANNEL_OPEN_OK, b"\x00")
        await self._call(wire.SELECT, wire.SELECT_OK, b"\x00")
        if address.heartbeat:
            self._beat_on(address.heartbeat / 2)

    async def exchange_declare(self, exchange: str, kind: str) -> None:
        """Declare a durable exchange."""
        name = (wire.number(2, 0), wire.short(exchange), wire.short(kind))
        await self._call(wire.EXCHANGE_DECLARE, wire.EXCHANGE_DECLARE_OK, *name, b"\x02", wire.table({}))

    async def queue_declare(self, queue: str, arguments: Mapping[str, Any], *, exclusive: bool = False) -> QueueState:
        """Declare a durable queue, or one for this connection alone; returns what it has."""
        flags = b"\x04" if exclusive else b"\x02"
        name = (wire.number(2, 0), wire.short(queue))
        answer = await self._call(wire.QUEUE_DECLARE, wire.QUEUE_DECLARE_OK, *name, flags, wire.table(arguments))
        _, at = wire.read_short(answer, 4)
        return QueueState(int.from_bytes(answer[at : at + 4]), int.from_bytes(answer[at + 4 : at + 8]))

    async def queue_delete(self, queue: str) -> None:
        """Delete a queue and what is in it."""
        name = (wire.number(2, 0), wire.short(queue))
        await self._call(wire.QUEUE_DELETE, wire.QUEUE_DELETE_OK, *name, b"\x00")

    async def queue_bind(self, queue: str, exchange: str, key: str = "") -> None:
        names = (wire.number(2, 0), wire.short(queue), wire.short(exchange), wire.short(key))
        await self._call(wire.QUEUE_BIND, wire.QUEUE_BIND_OK, *names, b"\x00", wire.table({}))

    async def basic_qos(self, prefetch_count: int) -> None:
        """Have no consumer hold more than that many messages without an answer."""
        await self._call(wire.QOS, wire.QOS_OK, wire.number(4, 0), wire.number(2, prefetch_count), b"\x00")

    async def basic_consume(self, queue: str, receive: Receive) -> str:
        """Consume a queue; returns the tag to cancel it by."""
        tag = f"headgate-{next(self._tags)}"
        self.consumers[tag] = receive  # messages may come before the answer
        names = (wire.number(2, 0), wire.short(queue), wire.short(tag))
        await self._call(wire.CONSUME, wire.CONSUME_OK, *names, b"\x00", wire.table({}))
        return tag

    async def basic_cancel(self, tag: str) -> None:
        """Stop consuming; messages that were on their way have come by then."""
        await self._call(wire.CANCEL, wire.CANCEL_OK, wire.short(tag), b"\x00")
        self.consumers.pop(tag, None)

    async def basic_ack(self, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge a message, or all up to it; nothing answers."""
        self._send(wire.ACK, wire.number(8, tag), wire.number(1, multiple))

    async def basic_reject(self, tag: int, *, requeue: bool) -> None:
        """Send a message back to its queue, or to the dead letters; nothing answers."""
        self._send(wire.REJECT, wire.number(8, tag), wire.number(1, requeue))

    def publish(self, messages: Sequence[Message]) -> Batch:
        """Send messages in one write; the broker's answers come to the batch."""
        self._require_open()
        encoded = b"".join([encode(OURS, message, self._most_frame - wire.OVERHEAD) for message in messages])
        batch = Batch(self._published + 1, messages)
        self._published += len(messages)
        self._batches.append(batch)
        self._transport.write(encoded)
        return batch

    async def close(self) -> None:
        """Say goodbye, and hang up whether or not the broker answers."""
        try:
            if not self.is_closed:
                while self._asked and self._asked[0][1].done():  # given up: nothing behind it would be heard
                    self._asked.popleft()
                with suppress(Exception):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._call(wire.CLOSE, wire.CLOSE_OK, _GOODBYE, channel=0)
        finally:
            self.abort()
        await self._gone.wait()

    def abort(self) -> None:
        """Hang up without a word."""
        self._end("it was closed")
        self._transport.abort()  # even if it ended before: a goodbye that nobody reads would hold it open

    async def _call(self, method: int, answer: int, *parts: bytes, channel: int = OURS) -> bytes:
        return await self._ask(wire.frame(wire.METHOD, channel, wire.call(method, *parts)), answer)

    def _ask(self, question: bytes, answer: int) -> asyncio.Future[bytes]:
        self._require_open()
        asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.append((answer, asked))
        self._transport.write(question)
        return asked

    def _send(self, method: int, *parts: bytes, channel: int = OURS) -> None:
        self._require_open()
        self._transport.write(wire.frame(wire.METHOD, channel, wire.call(method, *parts)))

    def _require_open(self) -> None:
        if self.is_closed:
            raise Disconnected("the connection to the broker was lost")

    # from here on what comes in

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set()
        self._end("the connection to the broker was lost")

    def data_received(self, data: bytes) -> None:
        self._silences = 0
        if self._unread:
            data = self._unread + data
        at, size = 0, len(data)
        while size - at >= wire.OVERHEAD:
            kind, _, length = wire.FRAME.unpack_from(data, at)
            begin, at = at + wire.FRAME.size, at + length + wire.OVERHEAD
            if length + wire.OVERHEAD > self._most_frame or (at <= size and data[at - 1] != wire.END[0]):
                self._end("the broker sent what is not AMQP")
                return
            if at > size:
                at = begin - wire.FRAME.size
                break
            payload = data[begin : at - 1]
            if kind == wire.METHOD:
                self._take_method(payload)
            elif kind == wire.HEADER:
                self._header, self._body_left = payload, body_size(payload)
                if not self._body_left:
                    self._arriving(payload)
            elif kind == wire.BODY:  # which is not read
                self._body_left -= length
                if not self._body_left:
                    self._arriving(self._header)
        self._unread = data[at:]

    def _take_method(self, payload: bytes) -> None:
        method = int.from_bytes(payload[:4])
        if method == wire.DELIVER:
            self._arriving = self._delivery(*read_delivery(payload))
        elif method in (wire.ACK, wire.NACK):
            result = Published.CONFIRMED if method == wire.ACK else Published.REFUSED
            self._confirm(int.from_bytes(payload[4:12]), result, multiple=bool(payload[12] & 1))
        elif method == wire.RETURN:
            self._arriving = self._returned
        elif method == wire.CANCEL:  # the queue is gone
            self.consumers.pop(wire.read_short(payload, 4)[0], None)
        elif method == wire.CHANNEL_FLOW:
            self._send(wire.CHANNEL_FLOW_OK, payload[4:5])
        elif method in (wire.CLOSE, wire.CHANNEL_CLOSE):
            is_all = method == wire.CLOSE
            self._send(wire.CLOSE_OK if is_all else wire.CHANNEL_CLOSE_OK, channel=0 if is_all else OURS)
            self._end(wire.read_short(payload, 6)[0], flush=True)
        elif self._asked and self._asked[0][0] == method:
            _, asked = self._asked.popleft()
            if not asked.done():
                asked.set_result(payload)

    def _delivery(self, consumer_tag: str, tag: int, redelivered: bool) -> Callable[[bytes], None]:
        receive = self.consumers.get(consumer_tag)

        def arrive(header: bytes) -> None:
            try:
                message_id, task_id = read_ids(header)
            except (LookupError, ValueError, RecursionError, struct.error):
                message_id = task_id = None
            if receive is not None:
                receive(Delivered(tag, redelivered, message_id, task_id))

        return arrive

    def _returned(self, header: bytes) -> None:
        message_id, _ = read_ids(header)
        for batch in self._batches:
            batch.returned(message_id or "")

    def _confirm(self, number: int, result: Published, *, multiple: bool) -> None:
        for batch in self._batches:
            batch.answer(number, result, multiple=multiple)
        while self._batches and not self._batches[0].missing:
            self._batches.popleft()

    def _beat_on(self, seconds: float) -> None:
        """Show a sign of life, and look for one. Ticks are counted, not seconds: a loop that was blocked has not read
        what the broker sent meanwhile."""
        self._silences += 1
        if self._silences > MOST_SILENCES:
            self._end("the broker shows no sign of life")
            return
        self._transport.write(_HEARTBEAT)
        self._beat = asyncio.get_running_loop().call_later(seconds, self._beat_on, seconds)

    def _end(self, reason: str, *, flush: bool = False) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._beat is not None:
            self._beat.cancel()
        for _, asked in self._asked:
            if not asked.done():
                asked.set_exception(Disconnected(reason))
        for batch in self._batches:
            batch.over.set()
        self._asked.clear()
        self._batches.clear()
        if flush:
            self._transport.close()
        else:
            self._transport.abort()
        self.on_closed()


async def open_channel(address: Address, name: str) -> Channel:
    """Connect; `Disconnected` with the broker's reason if it refuses."""
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(Channel, address.host, address.port, ssl=address.tls)
    try:
        await channel.open(address, name)
    except BaseException:
        channel.abort()
        raise
    return channel


def _ignore(header: bytes) -> None:
    pass
