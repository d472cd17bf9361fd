"""Somebody who is told how tasks ended: takes what comes, is ill for a while, and writes everything down."""

import asyncio
import random
from collections.abc import Callable, Mapping

from headgate.outward.client import SECONDS, Reply, Unsent
from headgate.simulation.evidence import Receipt
from headgate.simulation.process import here

URL = "https://receiver.example/told"
LATENCIES = (0.001, 0.005, 0.02, 0.1, 0.5)
WELL, FAILS, HANGS, FORGETS, SLOW, GONE = ILLS = ("well", "fails", "hangs", "forgets", "slow", "gone")
SLOW_SECONDS = 8.0


class Receiver:
    """What every simulated process sends its callbacks to, in place of the network."""

    def __init__(self, clock: Callable[[], float], chance: random.Random, last_row: Callable[[], int]) -> None:
        self.receipts: list[Receipt] = []
        self._last_row = last_row
        self._clock = clock
        self._chance = chance
        self._ill = WELL
        self._until = 0.0

    def fall_ill(self, how: str, seconds: float) -> None:
        self._ill, self._until = how, self._clock() + seconds

    def heal(self) -> None:
        self._until = 0.0

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """As `Outward` would: an answer, or `Unsent`. Whoever is killed or frozen meanwhile hears neither."""
        process = here.get()
        await process.thawed()
        await asyncio.sleep(self._chance.choice(LATENCIES))
        how = self._ill if self._clock() < self._until else WELL
        status = {FAILS: 500, GONE: 410, HANGS: None}.get(how, 204)
        self.receipts.append(Receipt(self._last_row(), headers["webhook-id"], body.decode(), status))
        await asyncio.sleep({HANGS: SECONDS, SLOW: SLOW_SECONDS}.get(how, self._chance.choice(LATENCIES)))
        await process.thawed()
        if status is None or how == FORGETS:  # of the latter it has taken what was sent, and nobody hears of it
            raise Unsent(f"no whole answer within {SECONDS:g} s")
        return Reply(status, {"retry-after": "2"} if status == 500 and self._chance.random() < 0.2 else {}, b"")
