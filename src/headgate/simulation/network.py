"""What stands in place of the network: the receiver of all callbacks, and the endpoints that schedules call."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping

from headgate.outward.client import REQUEST_SECONDS, NoReply, Reply
from headgate.simulation.evidence import Arrival, Receipt
from headgate.simulation.process import current_process

URL = "https://receiver.example/told"
LATENCIES = (0.001, 0.005, 0.02, 0.1, 0.5)
WELL, FAILS, HANGS, FORGETS, SLOW, GONE = CONDITIONS = ("well", "fails", "hangs", "forgets", "slow", "gone")
SLOW_SECONDS = 8.0
ENDPOINT_LATENCIES = (0.0, 0.05, 0.3, 1.0, 3.0)


class SimulatedReceiver:
    """Takes every callback that comes, is ill for a while, and writes everything down."""

    def __init__(self, clock: Callable[[], float], rng: random.Random, last_row: Callable[[], int]) -> None:
        self.receipts: list[Receipt] = []
        self._last_row = last_row
        self._clock = clock
        self._rng = rng
        self._condition = WELL
        self._until = 0.0

    def fall_ill(self, how: str, seconds: float) -> None:
        self._condition, self._until = how, self._clock() + seconds

    def heal(self) -> None:
        self._until = 0.0

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """As `Outward` does: an answer, or `NoReply`. A process that is killed or frozen meanwhile gets neither."""
        process = current_process.get()
        await process.thawed()
        await asyncio.sleep(self._rng.choice(LATENCIES))
        how = self._condition if self._clock() < self._until else WELL
        status = {FAILS: 500, GONE: 410, HANGS: None}.get(how, 204)
        self.receipts.append(Receipt(self._last_row(), headers["webhook-id"], body.decode(), status))
        await asyncio.sleep({HANGS: REQUEST_SECONDS, SLOW: SLOW_SECONDS}.get(how, self._rng.choice(LATENCIES)))
        await process.thawed()
        if status is None or how == FORGETS:  # FORGETS: it has taken the request, and the sender gets no answer
            raise NoReply(f"no whole answer within {REQUEST_SECONDS:g} s")
        return Reply(status, {"retry-after": "2"} if status == 500 and self._rng.random() < 0.2 else {}, b"")


class Endpoints:
    """They answer after a while, well or not, or not at all; what arrived is kept."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.arrivals: list[Arrival] = []

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        await current_process.get().thawed()
        await asyncio.sleep(self._rng.choice(ENDPOINT_LATENCIES))
        request, well = json.loads(body), self._rng.random() < 0.8
        self.arrivals.append(Arrival(request["periodic_task_id"], request["tick"], well))
        await asyncio.sleep(self._rng.choice(ENDPOINT_LATENCIES))
        if not well and self._rng.random() < 0.5:
            raise NoReply("no whole answer")
        return Reply(200 if well else 500, {}, b"")
