"""Headgate's tasks, as a program would declare them; workers import this module and nothing else of ours."""

import asyncio
import os
import time

import headgate
from bench.peers.starts import started, write_line

app = headgate.Headgate()
FOREVER = 3600.0


@app.task
async def noop() -> None:
    pass


@app.task
async def probe(sent: float) -> None:
    started(sent)


@app.task(lane="press")
async def page(seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.task
async def hold() -> None:
    """Leave who started it when; end only the second time."""
    context = headgate.context()
    write_line(f"{context.task_id} {context.attempt} {os.getpid()} {time.monotonic()}")
    if context.attempt == 1:
        await asyncio.sleep(FOREVER)
