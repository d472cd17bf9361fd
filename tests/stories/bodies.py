"""The tasks of the stories. Each writes down what it does, and obeys when it is told to stop, unless it is stubborn."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.app import Headgate
from headgate.core.retry import fixed
from headgate.settings import Settings
from headgate.worker.context import context
from tests.stories.ledger import Ledger

app = Headgate()
RETRIES = fixed(0.02, retries=3)
LOOK_SECONDS = 0.005
PORTION = 5_000  # as many as one call takes


class NoLuck(Exception):
    """What a task is told to fail with."""


def bound_to(url: str) -> Headgate:
    """The app, on a store."""
    app.close()
    app._settings = Settings(url=url)
    return app


def note(what: str) -> None:
    Ledger.of_this_process().write(what, context().task_id, context().exec_id, context().attempt)


@contextmanager
def on_record(fails: bool = False) -> Iterator[None]:
    """Start, effect, end; or `error`; or `stopped`, however late."""
    note("start")
    try:
        yield
        if fails and context().attempt == 1:
            raise NoLuck
        note("effect")
        note("end")
    except NoLuck:
        note("error")
        raise
    except BaseException:
        note("stopped")
        raise


@app.task(retry=RETRIES)
async def step(seconds: float, fails: bool = False) -> None:
    with on_record(fails):
        await asyncio.sleep(seconds)


@app.task(retry=RETRIES)
def step_in_a_thread(seconds: float, fails: bool = False) -> None:
    with on_record(fails):
        time.sleep(seconds)


@app.task(retry=RETRIES, isolation="process")
def step_in_a_process(seconds: float, fails: bool = False) -> None:
    with on_record(fails):
        time.sleep(seconds)


@app.task(retry=RETRIES)
async def share(times: int) -> None:
    """Holds the press again and again, for a moment each."""
    note("start")
    for _ in range(times):
        async with context().hold("press"):
            note("in")
            await asyncio.sleep(0.002)
            note("out")


@app.task(uses=["press"], retry=RETRIES)
def print_all() -> None:
    """Uses the press from its start to its end."""
    note("start")
    note("in")
    time.sleep(0.002)
    note("out")


@app.task(retry=RETRIES)
async def keep() -> None:
    """Holds the press until its process is killed; its second execution has learned from that."""
    note("start")
    async with context().hold("press"):
        note("in")
        if context().attempt == 1:
            await asyncio.Event().wait()
        note("out")


@app.task
async def chick(fails: bool) -> None:
    """A short child; some fail for good."""
    with on_record():
        if fails:
            raise NoLuck
        await asyncio.sleep(0)


@app.task
async def brood(children: int, one_in: int) -> None:
    """So many children, of which one in so many fails."""
    with on_record():
        for first in range(0, children, PORTION):
            calls = [chick.call(number % one_in == 0) for number in range(first, min(first + PORTION, children))]
            await context().submit_many(calls)


@app.task
async def poison() -> None:
    """Takes its worker with it."""
    note("start")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(isolation="process", memory_megabytes=100_000)
def devour() -> int:
    """Takes more memory than there is."""
    return len(bytearray(b"x") * 1_000_000_000)


@app.task
async def linger(gate: str) -> int:
    """Goes on until there is a file at `gate`, or it is told to stop; then it does its work and reports it anyway."""
    note("start")
    with suppress(asyncio.CancelledError):
        while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240  nobody signals it
            await asyncio.sleep(LOOK_SECONDS)
    with last_report():
        await context().checkpoint("pid", os.getpid())
        await context().progress(1, 1)
    return os.getpid()


@app.task
def linger_in_a_thread(gate: str) -> int:
    return _linger(gate)


@app.task(isolation="process")
def linger_in_a_process(gate: str) -> int:
    return _linger(gate)


def _linger(gate: str) -> int:
    note("start")
    with suppress(BaseException):
        while not Path(gate).exists():
            time.sleep(LOOK_SECONDS)
    with last_report():
        context().checkpoint("pid", os.getpid())
        context().progress(1, 1)
    return os.getpid()


@contextmanager
def last_report() -> Iterator[None]:
    """An effect, and whether the report of it was accepted."""
    note("effect")
    try:
        yield
    except BaseException:
        note("refused")
        raise
    note("accepted")
