"""Tasks in processes of their own that hold a resource for a part of their run."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import headgate

app = headgate.Headgate("sqlite://")


@app.task(isolation="process")
def plain(number: int) -> int:
    with headgate.context().hold("disc"):
        return number


@app.task(isolation="process")
async def aware() -> None:
    """Reports progress once its event loop has gone on for a while beside the wait."""
    context = headgate.context()

    async def tick() -> None:
        for _ in range(10):
            await asyncio.sleep(0.01)
        await context.progress(done=10)

    ticking = asyncio.create_task(tick())
    async with context.hold("disc"):
        await ticking


@app.task(isolation="process")
def dies() -> None:
    with headgate.context().hold("disc"):
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(isolation="process")
def leaves(file: str) -> None:
    """Dies, and leaves a process behind that has a session of its own."""
    with headgate.context().hold("disc"):
        left = subprocess.Popen(["sleep", "60"], start_new_session=True)
        Path(file).write_text(str(left.pid))
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(isolation="process")
def late() -> str:
    try:
        with headgate.context().hold("disc", timeout_seconds=0.2):
            return "held"
    except TimeoutError as error:
        return str(error)


@app.task(isolation="process")
def twice() -> str:
    with headgate.context().hold("disc"):
        try:
            with headgate.context().hold("disc"):
                return "held"
        except headgate.HeadgateError as error:
            return error.code


@app.task(isolation="process", retry=headgate.fixed(0.01, retries=1))
def opposite(file: str) -> None:
    with headgate.context().hold("tape"):
        while not Path(file).exists():
            time.sleep(0.01)
        with headgate.context().hold("disc"):
            pass


@app.task(isolation="process", retry=headgate.never)
def leaving(file: str) -> None:
    with headgate.context().hold("disc"):
        pass
    while not Path(file).exists():
        time.sleep(0.01)
