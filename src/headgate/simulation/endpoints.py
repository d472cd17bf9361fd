"""The endpoints that simulated schedules call: they answer after a while, well or not, or not at all."""

import asyncio
import json
import random
from collections.abc import Mapping

from headgate.outward.client import NoReply, Reply
from headgate.simulation.evidence import Arrival
from headgate.simulation.process import current_process

WAITS = (0.0, 0.05, 0.3, 1.0, 3.0)  # seconds, there and back


class Endpoints:
    """One for all processes; keeps what arrived."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.arrivals: list[Arrival] = []

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        await current_process.get().thawed()
        await asyncio.sleep(self._rng.choice(WAITS))
        request, well = json.loads(body), self._rng.random() < 0.8
        self.arrivals.append(Arrival(request["periodic_task_id"], request["tick"], well))
        await asyncio.sleep(self._rng.choice(WAITS))
        if not well and self._rng.random() < 0.5:
            raise NoReply("no whole answer")
        return Reply(200 if well else 500, {}, b"")
