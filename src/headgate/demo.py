"""Tasks to look at: `headgate up` serves them, `headgate submit demo` sends one of each on its way."""

import asyncio
import math
import time
from typing import Any

import headgate

app = headgate.Headgate()
LANE = "demo-downloads"


@app.task
async def hello(name: str = "world") -> str:
    """A first task."""
    await headgate.context().log(f"saying hello to {name}")
    return f"Hello, {name}!"


@app.task(lane=LANE, timeout_seconds=60)
async def fetch(item: int, seconds: float = 1.0) -> dict[str, int]:
    """Shares a lane: `demo` lets two of it run at once."""
    await asyncio.sleep(seconds)
    return {"item": item, "bytes": 1024 * item}


@app.task(mutex="shelf:{shelf}", timeout_seconds=60)
async def tidy(shelf: int, seconds: float = 1.0) -> None:
    """One at a time for each shelf, in order."""
    await asyncio.sleep(seconds)


@app.task(retry=headgate.exponential(1, factor=2, cap=10, retries=3))
async def flaky(failures: int = 2) -> str:
    """Fails at first, and is tried again, later each time."""
    attempt = headgate.context().attempt
    if attempt <= failures:
        raise ConnectionError(f"attempt {attempt}: no answer")
    return f"attempt {attempt} got through"


@app.task(timeout_seconds=300)
def count(to: int = 20, pause: float = 0.2) -> int:
    """Runs in a thread, reports its progress, and continues after a pause where it stopped."""
    context = headgate.context()
    for number in range(context.restore("counted", 0) + 1, to + 1):
        time.sleep(pause)
        context.progress(done=number, total=to, note="counting")
        context.checkpoint("counted", number)
    return to


@app.task
async def album(tracks: int = 3) -> str:
    """A family: it has ended when its children have."""
    await headgate.context().submit_many([track.call(number) for number in range(1, tracks + 1)])
    return f"{tracks} tracks on their way"


@app.task
async def track(number: int, seconds: float = 0.5) -> int:
    """One of an album's children."""
    await asyncio.sleep(seconds)
    return number


@app.task(isolation="process", memory_megabytes=200, timeout_seconds=120)
def primes(below: int = 200_000) -> int:
    """Keeps a core busy, in a process of its own."""
    return sum(all(number % divisor for divisor in range(2, math.isqrt(number) + 1)) for number in range(2, below))


@app.task(need_manual=True)
async def invoice(number: int) -> None:
    """Fails for good, and waits for a person: `headgate resolve ID --remark …`, or retry, or discard."""
    raise ValueError(f"invoice {number} has no address")


@app.task
async def demo() -> int:
    """One of each, so that there is something to see."""
    await asyncio.to_thread(app.store.lanes.set_capacity, LANE, 2)
    calls: list[Any] = [
        hello.call("you"),
        *(fetch.call(item, seconds=3) for item in range(1, 7)),
        *(tidy.call(shelf=1, seconds=2) for _ in range(3)),
        flaky.call(),
        count.call(),
        album.call(),
        primes.call(),
        invoice.call(4711),
        hello.using(delay_seconds=60, name="a minute later").call("you again"),
    ]
    return len(await app.submit_many(calls))
