"""What became of messages that were published together."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum

from headgate.broker.topology import Message


class Published(StrEnum):
    """What became of a message."""

    CONFIRMED = "confirmed"
    RETURNED = "returned"  # no queue takes it
    REFUSED = "refused"  # the queue is full
    UNCONFIRMED = "unconfirmed"  # unknown: it may arrive, or not


class Batch:
    """Messages that were published one after the other, and the broker's answers. `over` is set when no more will come.

    The broker counts the messages of a channel; its answers name a message by that number, or all up to it.
    """

    def __init__(self, first: int, messages: Sequence[Message]) -> None:
        self.missing = len(messages)
        self.over = asyncio.Event()
        self._first = self._lowest = first  # all below the lowest have their answer
        self._messages = messages
        self._answers: list[Published | None] = [None] * len(messages)
        self._returned: set[str] = set()

    def answer(self, number: int, result: Published, *, multiple: bool) -> None:
        """Take down an answer; one to other messages changes nothing."""
        last = min(number, self._first + len(self._answers) - 1)
        for each in range(self._lowest if multiple else max(number, self._first), last + 1):
            if self._answers[each - self._first] is None:
                self._answers[each - self._first] = result
                self.missing -= 1
        if multiple:
            self._lowest = max(self._lowest, last + 1)
        if not self.missing:
            self.over.set()

    def returned(self, message_id: str) -> None:
        """The broker sent a message back; it confirms it all the same, afterwards."""
        self._returned.add(message_id)

    def results(self) -> list[Published]:
        """What became of each message; the order is theirs."""
        return [
            Published.RETURNED if message.message_id in self._returned and answer else answer or Published.UNCONFIRMED
            for message, answer in zip(self._messages, self._answers, strict=True)
        ]
