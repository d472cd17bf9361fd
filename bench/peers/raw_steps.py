"""What one delivery by a broker cannot do without, in seconds: a commit, and a publish that is confirmed."""

import asyncio
import time
from collections.abc import Callable

from bench.place import connect_postgres
from headgate.broker.confirms import Published
from headgate.broker.connection import Link
from headgate.broker.topology import TASKS, Message

QUEUE = "headgate.tasks.bench.raw"


def commits(url: str, count: int) -> list[float]:
    """Of one row each, one after the other."""
    with connect_postgres(url) as server:
        server.execute("CREATE TABLE raw (id bigserial PRIMARY KEY, type text)")
        return [_timed(lambda: server.execute("INSERT INTO raw (type) VALUES ('x')")) for _ in range(count)]


def _timed(step: Callable[[], object]) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def publishes(url: str, count: int) -> list[float]:
    """Of one message each to a quorum queue, one after the other."""
    return asyncio.run(_publishes(url, count))


async def _publishes(url: str, count: int) -> list[float]:
    link, found = Link(url, "headgate bench"), []
    try:
        await link.declare_queue(QUEUE)
        for number in range(count):
            begun = time.perf_counter()
            [outcome] = await link.publish([Message(TASKS, QUEUE, str(number), mandatory=True)])
            assert outcome is Published.CONFIRMED
            found.append(time.perf_counter() - begun)
    finally:
        await link.close()
    return found
