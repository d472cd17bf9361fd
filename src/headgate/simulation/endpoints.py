"""Whoever schedules call, in a simulation: answers after a while, well or not, or not at all; keeps what arrived."""

import asyncio
import json
import random
from collections.abc import Mapping

from headgate.outward.client import Reply, Unsent
from headgate.simulation.evidence import Arrival
from headgate.simulation.process import here

WAITS = (0.0, 0.05, 0.3, 1.0, 3.0)  # seconds, there and back


class Endpoints:
    """One for all processes."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.arrivals: list[Arrival] = []

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        await here.get().thawed()
        await asyncio.sleep(self._chance.choice(WAITS))
        said, well = json.loads(body), self._chance.random() < 0.8
        self.arrivals.append(Arrival(said["periodic_task_id"], said["tick"], well))
        await asyncio.sleep(self._chance.choice(WAITS))
        if not well and self._chance.random() < 0.5:
            raise Unsent("no whole answer")
        return Reply(200 if well else 500, {}, b"")
