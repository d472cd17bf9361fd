"""The broker of the simulation does what RabbitMQ does, wherever it is not told to do worse."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.broker.confirms import Published
from headgate.broker.connection import Link
from headgate.broker.topology import DELIVERY_LIMIT, TASKS, Message
from headgate.environment import new_uuid7
from headgate.simulation.broker import SimulatedBroker
from headgate.simulation.evidence import Ledger
from headgate.simulation.link import SimulatedLink
from headgate.simulation.loop import VirtualLoop
from headgate.simulation.process import Process, current_process

SECONDS = 30.0
NewLink = Callable[[], Link]
Scenario = Callable[[NewLink, str], Awaitable[None]]


class NoDatabase:
    """Nobody here asks a store for anything."""

    dialect = "sqlite"
    one_writer = True


def run_simulated(scenario: Scenario) -> None:
    loop = VirtualLoop(lambda task: None)
    database: Any = NoDatabase()
    process = Process("one", database, Ledger(loop.time), random.Random(1), lambda process: None)
    broker = SimulatedBroker(loop.time, loop.call_later, random.Random(1), Counter(), lambda: 0)

    async def live() -> None:
        current_process.set(process)
        await scenario(lambda: SimulatedLink(broker, "amqp://broker.example", "test"), "queue")

    loop.run_until_complete(live())
    loop.close()


@pytest.fixture(params=["rabbitmq", "simulated"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    if request.param == "simulated":
        return run_simulated
    url = request.getfixturevalue("broker")
    return lambda scenario: asyncio.run(_real(scenario, url))


async def _real(scenario: Scenario, url: str) -> None:
    await scenario(lambda: Link(url, "test"), f"headgate.test.{new_uuid7()}")


class Inbox:
    """Consumes a queue on a link, so many messages at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._came: asyncio.Queue[Any] = asyncio.Queue()

    async def consume(self, queue: str, prefetch: int) -> None:
        self.channel: Any = await self._link.channel()
        await self.channel.basic_qos(prefetch_count=prefetch)
        await self.channel.basic_consume(queue, self._take)

    def _take(self, message: Any) -> None:
        self._came.put_nowait(message)

    async def next(self) -> tuple[str, int, bool]:
        """The id of the next message, its delivery tag, and whether it was delivered before."""
        async with asyncio.timeout(SECONDS):
            message = await self._came.get()
        return message.message_id, message.delivery_tag, bool(message.redelivered)

    async def nothing_more(self, queue: str) -> bool:
        """Whether nothing else has come; whatever was on its way has, once the broker answers."""
        await self.channel.queue_declare(f"{queue}.aside", {"x-expires": 1000})
        await asyncio.sleep(0)
        return self._came.empty()


def to(queue: str, *names: str) -> list[Message]:
    return [Message(TASKS, queue, name, headers={"task_id": 1}, mandatory=True) for name in names]


def test_a_message_without_a_queue_comes_back_and_one_with_a_queue_is_confirmed(run):
    """Spec: X5, D1"""

    async def scenario(new_link: NewLink, queue: str) -> None:
        link = new_link()
        assert await link.publish(to(queue, "a")) == [Published.RETURNED]
        await link.declare_queue(queue)
        assert await link.publish(to(queue, "a", "b")) == [Published.CONFIRMED] * 2
        await link.close()

    run(scenario)


def test_two_that_need_a_channel_at_the_same_time_get_the_same_one(run):
    """Spec: D1. A dispatcher claims while it publishes; after a returned message both find the connection closed."""

    async def scenario(new_link: NewLink, queue: str) -> None:
        link = new_link()
        first, second = await asyncio.gather(link.channel(), link.channel())
        assert first is second
        assert not first.is_closed
        await link.close()

    run(scenario)


def test_a_consumer_gets_no_more_than_it_may_hold_and_the_next_for_each_acknowledged(run):
    """Spec: X5, D2"""

    async def scenario(new_link: NewLink, queue: str) -> None:
        link = new_link()
        await link.declare_queue(queue)
        await link.publish(to(queue, "a", "b", "c", "d"))
        inbox = Inbox(link)
        await inbox.consume(queue, prefetch=2)
        (first, tag, again), (second, _, _) = [await inbox.next() for _ in range(2)]
        assert (first, second, again) == ("a", "b", False)
        assert await inbox.nothing_more(queue)
        await inbox.channel.basic_ack(tag)
        assert (await inbox.next())[0] == "c"
        assert await inbox.nothing_more(queue)
        await link.close()

    run(scenario)


def test_what_was_not_acknowledged_comes_again_to_another_connection(run):
    """Spec: X5, D1"""

    async def scenario(new_link: NewLink, queue: str) -> None:
        link, other = new_link(), new_link()
        await link.declare_queue(queue)
        await link.publish(to(queue, "a", "b"))
        inbox = Inbox(link)
        await inbox.consume(queue, prefetch=2)
        (_, tag, _), _ = [await inbox.next() for _ in range(2)]
        await inbox.channel.basic_ack(tag)
        await inbox.nothing_more(queue)  # the acknowledgement has come
        await link.close()
        assert not link.is_open
        elsewhere = Inbox(other)
        await elsewhere.consume(queue, prefetch=2)
        assert [(await elsewhere.next())[::2]] == [("b", True)]
        assert await elsewhere.nothing_more(queue)
        await other.close()

    run(scenario)


def test_a_message_that_is_sent_back_too_often_comes_no_more(run):
    """Spec: X5, D6"""

    async def scenario(new_link: NewLink, queue: str) -> None:
        link = new_link()
        await link.declare_queue(queue)
        await link.publish(to(queue, "a"))
        inbox = Inbox(link)
        await inbox.consume(queue, prefetch=1)
        for number in range(DELIVERY_LIMIT + 1):
            name, tag, again = await inbox.next()
            assert (name, again) == ("a", number > 0)
            await inbox.channel.basic_reject(tag, requeue=True)
        await link.publish(to(queue, "b"))
        assert (await inbox.next())[0] == "b"
        await link.close()

    run(scenario)
