"""How deliveries are answered: together where that is possible, and never one that has no answer yet."""

import asyncio

import pytest

from headgate.broker.connection import Link
from headgate.broker.topology import TASKS, Message
from headgate.environment import new_uuid7
from headgate.worker.acknowledgements import Acknowledgements, split
from tests.broker.listening import headers, take_all

MANY = 12


@pytest.mark.parametrize(
    ("acked", "first_open", "together", "singly"),
    [
        ([1, 2, 3], None, 3, []),
        ([3, 1], 2, 1, [3]),
        ([5, 7], 4, None, [5, 7]),
        ([], 4, None, []),
    ],
)
def test_what_lies_before_the_first_open_delivery_is_acknowledged_at_once(acked, first_open, together, singly):
    """Spec: D2"""
    assert split(acked, first_open) == (together, singly)


def test_an_answer_to_several_deliveries_leaves_those_that_have_none(broker):
    """Spec: D2"""
    queue = f"headgate.tasks.default.answers-{new_uuid7()}"

    async def consume():
        link = Link(broker, "test")
        try:
            await link.declare_queue(queue)
            await link.publish([Message(TASKS, queue, str(n), headers={"number": n}) for n in range(1, MANY + 1)])
            channel = await link.channel()
            came: asyncio.Queue[int] = asyncio.Queue()
            answers = Acknowledgements(channel)

            def take(message):
                answers.received(message.delivery_tag)
                came.put_nowait(message.delivery_tag)

            consumer = await channel.basic_consume(queue, take)
            tags = [await came.get() for _ in range(MANY)]
            await channel.basic_cancel(consumer)
            for tag in tags:
                if tag == 3:
                    answers.reject(tag, requeue=True)
                elif tag not in (6, 9):
                    answers.ack(tag)
            await answers.sent()
            answers.ack(6)
            await answers.sent()
            assert not channel.is_closed, "nothing was answered twice"
        finally:
            await link.close()

    asyncio.run(consume())
    assert sorted(headers(message)["number"] for message in take_all(broker, queue)) == [3, 9]
