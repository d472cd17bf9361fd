"""What a system under test can be asked to do. Runs in that system's own environment, and needs nothing but uvloop."""

import argparse
import asyncio
import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any

import uvloop

from bench.peers.starts import read_lines

BATCH = 1000
WARM = 10
PAUSE = (0.02, 0.04)
WATCH_SECONDS = 0.05
WATCH_SHARE = 20  # of the time passes between looks: watching should cost the watched next to nothing
LONGEST_WATCH = 0.5
LONGEST = 60.0


class Driver(ABC):
    """One system: a task that does nothing, a probe that tells when it starts, and what one does with them."""

    packages: tuple[str, ...]  # whose versions the table tells
    settings: str  # what was chosen for it, besides its defaults
    keeps: str  # what is known of a task once it has ended
    bulk = True  # it has a call that submits many at once

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    async def prepare(self) -> None:
        """Set up an empty database."""

    @abstractmethod
    async def open(self) -> None:
        """Be ready to submit."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def submit(self) -> None:
        """Submit one task that does nothing; it is safe when this returns."""

    async def submit_many(self, count: int) -> None:
        """The same for many, in one call."""
        raise NotImplementedError

    @abstractmethod
    async def probe(self, sent: float) -> None:
        """Submit a task that calls `started(sent)`."""

    @abstractmethod
    def counter(self) -> Callable[[], int]:
        """A call that asks, from outside, how many tasks have not ended."""

    @abstractmethod
    def work(self) -> None:
        """Be one worker process, until somebody ends it."""

    def work_beside(self) -> None:
        """Be the process that works for all workers; for who has one."""
        raise NotImplementedError

    def await_workers(self, count: int) -> None:
        """Return when so many workers take tasks in the way that is to be measured; by default, it makes no odds."""
        return

    async def fill(self, count: int) -> None:
        """Submit many tasks, in whatever way is quick."""
        if self.bulk:
            for start in range(0, count, BATCH):
                await self.submit_many(min(BATCH, count - start))
        else:
            for _ in range(count):
                await self.submit()


def describe(driver_class: type[Driver]) -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in driver_class.packages)
    return f"{versions}; {driver_class.settings}; keeps {driver_class.keeps}"


async def rate(seconds: float, step: Callable[[], Awaitable[None]], each: int = 1) -> float:
    """Take steps until the time is up; what they did in a second."""
    await step()  # connect and prepare before it counts
    done, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < seconds:
        await step()
        done += each
    return done / passed


async def latencies(driver: Driver, count: int) -> list[float]:
    """Seconds from submit to start, of single tasks on a system that does nothing else."""
    earlier = len(read_lines())
    for number in range(count):
        await driver.probe(time.monotonic())
        await asyncio.sleep(random.uniform(*PAUSE))
        end = time.monotonic() + LONGEST
        while len(read_lines()) <= earlier + number:
            if time.monotonic() > end:
                raise TimeoutError(f"a probe did not start within {LONGEST:g} s")
            await asyncio.sleep(0.005)
    return [float(line) for line in read_lines()[earlier:]]


def watch(driver: Driver, workers: int) -> None:
    """Say when how many tasks were left, over and over until none is."""
    driver.await_workers(workers)
    still, count = -1, driver.counter()
    while still != 0:
        begun = time.monotonic()
        still = count()
        took = time.monotonic() - begun
        print(begun + took / 2, still, flush=True)
        time.sleep(min(max(WATCH_SECONDS, took * WATCH_SHARE), LONGEST_WATCH))


async def _submit(driver: Driver, command: str, number: float) -> Any:
    if command == "prepare":
        return await driver.prepare()
    await driver.open()
    try:
        match command:
            case "fill":
                return await driver.fill(int(number))
            case "submit":
                return await rate(number, driver.submit)
            case "bulk":
                return await rate(number, lambda: driver.submit_many(BATCH), BATCH) if driver.bulk else None
            case "latency":
                driver.await_workers(1)
                return (await latencies(driver, WARM + int(number)))[WARM:]
            case "delays":
                return await latencies(driver, int(number))
    finally:
        await driver.close()


def drive(driver_class: type[Driver]) -> None:
    """Do what the command line says, and print the answer as JSON."""
    parser = argparse.ArgumentParser()
    commands = ["describe", "prepare", "fill", "submit", "bulk", "latency", "delays", "watch", "work", "beside"]
    parser.add_argument("command", choices=commands)
    parser.add_argument("url", nargs="?", default="")
    parser.add_argument("number", type=float, nargs="?", default=0.0)
    options = parser.parse_args()
    if options.command == "describe":
        print(json.dumps(describe(driver_class)))
    elif options.command == "watch":
        watch(driver_class(options.url), int(options.number))
    elif options.command == "work":
        driver_class(options.url).work()
    elif options.command == "beside":
        driver_class(options.url).work_beside()
    else:
        print(json.dumps(uvloop.run(_submit(driver_class(options.url), options.command, options.number))))
