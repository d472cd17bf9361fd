"""What a worker answers to the messages that a channel delivers."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from headgate.broker.channel import Channel


class Acknowledgements:
    """The answers on one channel. Answers due at the same time are sent together, in as few frames as possible.

    On a closed channel they fail: the broker delivers the messages again, and they are stale.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._open: dict[int, None] = {}  # delivery tags without an answer, in their order
        self._acked: list[int] = []
        self._rejected: list[tuple[int, bool]] = []  # and whether it goes back to its queue
        self._sending: asyncio.Task[None] | None = None

    def received(self, tag: int) -> None:
        self._open[tag] = None

    def ack(self, tag: int) -> None:
        """Acknowledge the message."""
        self._acked.append(tag)
        self._answered(tag)

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Send it back to its queue, or to the dead letters."""
        self._rejected.append((tag, requeue))
        self._answered(tag)

    async def sent(self) -> None:
        """Wait until every answer was sent or has failed."""
        if self._sending is not None:
            await self._sending

    def _answered(self, tag: int) -> None:
        self._open.pop(tag, None)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        with suppress(Exception):
            while self._acked or self._rejected:
                rejected, self._rejected = self._rejected, []
                acked, self._acked = self._acked, []
                together, singly = split(acked, next(iter(self._open), None))
                for tag, requeue in rejected:  # first: an acknowledgement of several covers what has no answer yet
                    await self._channel.basic_reject(tag, requeue=requeue)
                if together is not None:
                    await self._channel.basic_ack(together, multiple=True)
                for tag in singly:
                    await self._channel.basic_ack(tag)


def split(acked: Iterable[int], first_open: int | None) -> tuple[int | None, list[int]]:
    """The tag up to which everything may be acknowledged at once, and the tags that are acknowledged one by one."""
    ordered = sorted(acked)
    before = [tag for tag in ordered if first_open is None or tag < first_open]
    return (before[-1] if before else None), ordered[len(before) :]
