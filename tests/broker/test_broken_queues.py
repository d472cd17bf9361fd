"""Queues that can be declared and not used."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

import headgate.broker.connection as connection
from headgate.broker.confirms import Published
from headgate.broker.connection import MOST_FAILURES, BrokerAway, Link
from headgate.broker.frames import Delivered
from headgate.broker.topology import TASKS, Message
from headgate.environment import new_uuid7
from tests.broker.proxy import Proxy


@pytest.fixture
def proxy(server, monkeypatch):
    monkeypatch.setattr(connection, "CONFIRM_SECONDS", 0.5)
    made = Proxy(server.url)
    yield made
    made.close()


@asynccontextmanager
async def linked(url):
    link = Link(url, "test")
    try:
        yield link
    finally:
        await link.close()


async def consume(link, queue, receive=print):
    try:
        await link.declare_queue(queue)
        return await link.consume(await link.channel(), queue, receive)
    except BrokerAway:
        await link.close()
        raise


async def fail_to_consume(link, queue):
    for _ in range(MOST_FAILURES):
        with pytest.raises(BrokerAway, match=f"the queue {queue} cannot be consumed: it did not answer in time"):
            await consume(link, queue)


def test_a_queue_that_does_not_answer_is_deleted_and_declared_again_and_works(proxy, caplog):
    """Spec: D1"""
    queue = f"headgate.tasks.default.broken-{new_uuid7()}"
    proxy.break_queue(queue)

    async def mended():
        received: asyncio.Queue[Delivered] = asyncio.Queue()
        async with linked(proxy.url) as link:
            await fail_to_consume(link, queue)
            assert not proxy.has_deleted.is_set(), "it might have been slow"
            await consume(link, queue, received.put_nowait)
            assert await link.publish([Message(TASKS, queue, "after")]) == [Published.CONFIRMED]
            return await asyncio.wait_for(received.get(), 60)

    assert asyncio.run(mended()).message_id == "after"
    assert proxy.has_deleted.is_set()
    assert f"queue {queue} is broken: it is deleted and declared again" in caplog.text


def test_a_queue_that_somebody_else_consumes_is_not_deleted(proxy, server):
    """Spec: D1"""
    queue = f"headgate.tasks.default.mended-{new_uuid7()}"
    proxy.break_queue(queue)

    async def left():
        async with linked(server.url) as other, linked(proxy.url) as link:
            await fail_to_consume(link, queue)
            await consume(other, queue)
            with pytest.raises(BrokerAway):
                await consume(link, queue)
            return len((await other.channel()).consumers)

    assert asyncio.run(left()) == 1
    assert not proxy.has_deleted.is_set()


def test_a_queue_whose_node_was_killed_when_it_was_new_works_again(server, monkeypatch):
    """Spec: D1. RabbitMQ 3.10 refuses whoever consumes it, or never answers."""
    monkeypatch.setattr(connection, "CONFIRM_SECONDS", 1.0)
    queue = f"headgate.tasks.default.new-{new_uuid7()}"

    async def declare():
        async with linked(server.url) as link:
            await consume(link, queue)
            await (await link.channel()).queue_delete(queue)
        async with linked(server.url) as link:
            await consume(link, queue)

    async def use():
        async with linked(server.url) as link:
            for _ in range(MOST_FAILURES):
                with suppress(BrokerAway):
                    await consume(link, queue)
                    break
            else:
                await consume(link, queue)
            return await link.publish([Message(TASKS, queue, "after")])

    asyncio.run(declare())
    server.stop("immediate")
    server.start()
    assert asyncio.run(use()) == [Published.CONFIRMED]
