"""Handlers of each isolation that report their progress faster than it is written down."""

import asyncio
import time
from pathlib import Path

import headgate

app = headgate.Headgate("sqlite://")


def chat(gate: str | None) -> None:
    for done in range(1, 4):
        headgate.context().progress(done, 3, data={"files": ["a", "b"][:done]})
    if gate is None:
        raise headgate.Fatal("it is enough")
    wait_for(gate)


def wait_for(gate: str) -> None:
    while not Path(gate).exists():
        time.sleep(0.01)


@app.task
def in_a_thread(gate: str | None) -> None:
    chat(gate)


@app.task(isolation="process")
def in_a_process(gate: str | None) -> None:
    chat(gate)


@app.task
async def on_the_loop(gate: str | None) -> None:
    for done in range(1, 4):
        await headgate.context().progress(done, 3, data={"files": ["a", "b"][:done]})
    if gate is None:
        raise headgate.Fatal("it is enough")
    await asyncio.to_thread(wait_for, gate)
