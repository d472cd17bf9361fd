"""Callbacks share the connections to their receiver, and leave none open."""

import asyncio

from tests.duties.test_callbacks import SETTINGS, over, sender, succeed, tell
from tests.outward.receiver import SOON, Receiver, connections, receiving


class Patient(Receiver):
    """Takes one request after the other on each connection, until its client has had enough."""

    def __init__(self) -> None:
        super().__init__()
        self._left = asyncio.Semaphore(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await super().serve(reader, writer)
        finally:
            self._left.release()

    async def is_left(self, count: int) -> None:
        """Until so many connections have ended."""
        async with asyncio.timeout(SOON):
            for _ in range(count):
                await self._left.acquire()


def test_callbacks_share_the_connections_to_their_receiver_and_leave_none_open(store):
    """Spec: A11, B6"""

    async def story():
        receiver, duty = Patient(), sender(store)
        async with receiving(receiver):
            tell(store, "told", receiver)
            with connections() as made:
                succeed(store, "told", 12)
                await over(duty)
                opened = made.count(("127.0.0.1", receiver.port))
            assert len(receiver.got) == len({got.headers["webhook-id"] for got in receiver.got}) == 12
            assert opened <= SETTINGS.callback_concurrency
            await duty.stop()
            await receiver.is_left(opened)

    asyncio.run(story())
