"""Handlers that do not end when they are told to, and others beside them. A lock tells whether one still lives."""

import asyncio
import fcntl
import os
import signal
import subprocess
import time

from headgate.app import Headgate
from headgate.worker.context import context
from tests.stories.ledger import Ledger

app = Headgate()
FOREVER = 600
MUTEX, LANE = "alone", "narrow"


def note(what: str) -> None:
    Ledger.of_this_process().write(what, context().task_id, context().exec_id, context().attempt)


def hold(lock: str) -> int:
    """Lock a file until this process is dead and every program that inherits it; it is `overlap` if somebody has it."""
    file = os.open(lock, os.O_RDWR | os.O_CREAT)
    os.set_inheritable(file, True)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap")
    note("start")
    return file


@app.task(timeout_seconds=1, mutex=MUTEX, lane=LANE)
def sleep_in_c(lock: str) -> None:
    hold(lock)
    time.sleep(FOREVER)


@app.task(timeout_seconds=1, mutex=MUTEX, lane=LANE)
def wait_for_a_program(lock: str) -> None:
    file = hold(lock)
    subprocess.run(["sleep", str(FOREVER)], pass_fds=[file], start_new_session=True, check=False)


@app.task(timeout_seconds=1, mutex=MUTEX, lane=LANE)
async def swallow_the_cancel(lock: str) -> None:
    hold(lock)
    while True:
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            continue


@app.task(timeout_seconds=1, mutex=MUTEX, lane=LANE)
async def block_the_loop(lock: str) -> None:
    hold(lock)
    time.sleep(FOREVER)  # noqa: ASYNC251


@app.task(mutex=MUTEX, lane=LANE)
def next_in_line(lock: str) -> None:
    os.close(hold(lock))


@app.task(timeout_seconds=60)
async def bystander(seconds: float) -> None:
    note("beside")
    await asyncio.sleep(seconds)


@app.task(timeout_seconds=60)
def bystander_in_a_thread(seconds: float) -> None:
    note("beside")
    time.sleep(seconds)


@app.task(timeout_seconds=60)
async def vanish(gate: str) -> None:
    """Ends its process without a word, once there is a file at `gate`."""
    note("start")
    while not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240  nobody signals it
        await asyncio.sleep(0.01)
    os._exit(3)


@app.task(timeout_seconds=60)
async def segfault(gate: str) -> None:
    note("start")
    while not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task(timeout_seconds=60)
def vanish_in_a_thread(gate: str) -> None:
    note("start")
    while not os.path.exists(gate):
        time.sleep(0.01)
    os._exit(3)


@app.task
def stay(lock: str) -> None:
    """Without a deadline that comes soon."""
    hold(lock)
    time.sleep(FOREVER)


@app.task(mutex=MUTEX, lane=LANE)
async def stay_once(lock: str) -> int:
    """The first attempt does not end; nor do the two below."""
    file = hold(lock)
    if context().attempt == 1:
        await asyncio.sleep(FOREVER)
    os.close(file)
    note("end")
    return context().attempt


@app.task(mutex=MUTEX, lane=LANE)
def stay_once_in_a_thread(lock: str) -> int:
    return _stay_once(lock)


@app.task(mutex=MUTEX, lane=LANE, isolation="process")
def stay_once_in_a_process(lock: str) -> int:
    return _stay_once(lock)


def _stay_once(lock: str) -> int:
    file = hold(lock)
    if context().attempt == 1:
        time.sleep(FOREVER)
    os.close(file)
    note("end")
    return context().attempt
