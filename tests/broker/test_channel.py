"""Our own client of RabbitMQ: what it reads is what another program wrote, however the bytes are cut."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp import body as bodies
from pamqp import commands, frame, header, heartbeat

from headgate.broker.address import parse
from headgate.broker.channel import Channel, Disconnected, open_channel
from headgate.broker.confirms import Batch, Published
from headgate.broker.frames import Delivered, read_ids
from headgate.broker.topology import TASKS, Message
from headgate.broker.wire import find_value, read_table, table

SAID: dict[str, Any] = {
    "small": -3, "big": 1 << 40, "flag": True, "nothing": None, "text": "Zoë", "part": 0.5,
    "bytes": bytearray(b"\x00\xff"), "time": datetime(2026, 11, 18, tzinfo=UTC), "list": [1, "two", {"three": 3}],
    "inner": {"a": 1, "b": {}},
}  # fmt: skip


def delivery(consumer: str, tag: int, body: bytes = b"", **said: Any) -> bytes:
    """A message as a broker sends it."""
    deliver = commands.Basic.Deliver(consumer, tag, tag % 2 == 0, "headgate.tasks", "a.key")
    properties = header.ContentHeader(0, len(body), commands.Basic.Properties(**said))
    wire = frame.marshal(deliver, 1) + frame.marshal(properties, 1)
    return wire + (frame.marshal(bodies.ContentBody(body), 1) if body else b"")


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_messages_are_read_however_the_bytes_are_cut(size):
    """Spec: D2. The last two are for others: one that names no task, one with a body that nobody reads."""
    everything: dict[str, Any] = {
        "content_type": "text/plain", "content_encoding": "identity", "delivery_mode": 2, "priority": 3,
        "correlation_id": "order-1", "reply_to": "me", "expiration": "1000", "app_id": "other",
    }  # fmt: skip
    wire = delivery("c", 1, message_id="first", headers={"task_id": 7})
    wire += frame.marshal(heartbeat.Heartbeat(), 0)
    wire += delivery("c", 2, message_id="second", headers=SAID | {"task_id": 1 << 40}, **everything)
    wire += delivery("c", 3, b"x" * 500)
    wire += delivery("unknown", 4, message_id="nobody")
    wire += delivery("c", 5, message_id="last", headers={"task_id": "7"})
    came: list[Delivered] = []

    async def read() -> None:
        channel = Channel()
        channel.consumers["c"] = came.append
        for start in range(0, len(wire), size):
            channel.data_received(wire[start : start + size])

    asyncio.run(read())
    assert came == [
        (1, False, "first", 7), (2, True, "second", 1 << 40), (3, False, None, None), (5, False, "last", "7"),
    ]  # fmt: skip


def test_a_message_whose_headers_are_broken_names_no_task():
    """Spec: D2. It goes to the dead letters like any other that names none, and the connection stays."""
    whole = delivery("c", 1, message_id="id", headers={"task_id": 7})
    broken = whole.replace(b"\x07task_id", b"\xf7task_id")
    came: list[Delivered] = []

    async def read() -> None:
        channel = Channel()
        channel.consumers["c"] = came.append
        channel.data_received(broken + whole)

    asyncio.run(read())
    assert came == [(1, False, None, None), (1, False, "id", 7)]


def test_tables_are_read_as_they_were_written():
    """Spec: D1"""
    ours = {"number": -1, "text": "é", "nothing": None, "flag": False, "inner": {"deep": 1 << 40}}
    assert read_table(table(ours)[4:]) == ours
    wire = header.ContentHeader(0, 0, commands.Basic.Properties(headers=SAID, message_id="id")).marshal()
    found = read_table(wire[18:][: int.from_bytes(wire[14:18])])
    assert {name: found[name] for name in ("small", "big", "flag", "nothing", "text", "inner")} == {
        name: SAID[name] for name in ("small", "big", "flag", "nothing", "text", "inner")
    }
    assert find_value(wire[18:][: int.from_bytes(wire[14:18])], "missing") is None
    assert read_ids(wire) == ("id", None)


def test_each_message_of_a_batch_has_the_answer_that_the_broker_gave_for_it():
    """Spec: D1"""
    messages = [Message(TASKS, "key", str(number)) for number in range(6)]
    batch = Batch(10, messages)
    batch.answer(9, Published.CONFIRMED, multiple=True)  # of an earlier batch
    batch.answer(12, Published.REFUSED, multiple=False)
    batch.returned("3")
    batch.answer(13, Published.CONFIRMED, multiple=True)
    batch.answer(99, Published.CONFIRMED, multiple=False)
    assert batch.missing == 2
    assert not batch.over.is_set()
    ended = [
        Published.CONFIRMED, Published.CONFIRMED, Published.REFUSED, Published.RETURNED, Published.UNCONFIRMED,
        Published.UNCONFIRMED,
    ]  # fmt: skip
    assert batch.results() == ended
    batch.answer(20, Published.CONFIRMED, multiple=True)
    assert batch.over.is_set()


def test_a_broker_that_refuses_says_why(broker):
    """Spec: D13"""
    with pytest.raises(Disconnected, match="ACCESS_REFUSED"):
        asyncio.run(open_channel(parse(broker.replace("guest:guest", "guest:wrong")), "test"))
    with pytest.raises(Disconnected, match="NOT_ALLOWED"):
        asyncio.run(open_channel(parse(broker.removesuffix("//") + "/no-such"), "test"))


def test_a_broker_that_shows_no_sign_of_life_is_lost(broker):
    """Spec: D13. It answers each heartbeat in its own time, which is longer than this."""

    async def listen() -> None:
        channel = await open_channel(parse(broker), "test")
        lost = asyncio.Event()
        channel.on_closed = lost.set
        channel._beat_on(0.01)
        async with asyncio.timeout(30):
            await lost.wait()
        with pytest.raises(Disconnected):
            await channel.queue_declare("headgate.tasks.none", {})
        await channel.close()

    asyncio.run(listen())


@pytest.mark.parametrize(
    "bytes_", [b"\x01\x00\x00\xff\xff\xff\xff.", b"\x01\x00\x00\x00\x00\x00\x01x!"], ids=["too large", "no end"]
)
def test_what_is_not_amqp_ends_the_connection_at_once(bytes_):
    """Spec: D1"""

    async def connect():
        left = asyncio.Event()

        async def greet(reader, writer):
            await reader.read(8)
            writer.write(bytes_)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            left.set()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            try:
                await open_channel(parse(f"amqp://127.0.0.1:{port}/"), "test")
            finally:
                await left.wait()

    with pytest.raises(Disconnected, match="what is not AMQP"):
        asyncio.run(connect())


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("amqp://broker", ("broker", 5672, "guest", "guest", "/", 10)),
        ("amqp://a%40b:p%2Fw@broker:1//", ("broker", 1, "a@b", "p/w", "/", 10)),
        ("amqps://u:p@[::1]/shop%2Fmail?heartbeat=30", ("::1", 5671, "u", "p", "shop/mail", 30)),
    ],
)
def test_a_url_says_where_and_as_whom(url, found):
    """Spec: D1"""
    address = parse(url)
    assert (address.host, address.port, address.user, address.password, address.vhost, address.heartbeat) == found
    assert (address.tls is not None) == url.startswith("amqps")
    assert "p/w" not in repr(address)
