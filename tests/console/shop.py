"""The tasks that the console's tests look at."""

MODULE = '''
import asyncio
import pathlib

import headgate

app = headgate.Headgate()


async def released(name):
    while not pathlib.Path(name).exists():
        await asyncio.sleep(0.02)


@app.task
async def greet(name: str = "you") -> str:
    await headgate.context().log(f"greeting {name}")
    return f"Hello, {name}!"


@app.task(lane="narrow", timeout_seconds=600)
async def held(name: str) -> str:
    """Runs until a file of this name is there."""
    await headgate.context().progress(done=1, total=4, note="waiting for the file")
    await headgate.context().log(f"waiting for {name}")
    await released(name)
    return name


@app.task(timeout_seconds=600)
async def press(name: str) -> None:
    """Holds the printer until it is let go."""
    async with headgate.context().hold("printer"):
        await released(name)


@app.task(timeout_seconds=600)
async def teller(name: str) -> None:
    """Writes a line, and another when it is let go."""
    context = headgate.context()
    await context.log("first line")
    await released(f"{name}-1")
    await context.progress(done=2, total=4)
    await context.log("second line", level="warning")
    await released(f"{name}-2")


@app.task(mutex="shelf:{shelf}", timeout_seconds=600)
async def tidy(shelf: int, name: str) -> None:
    await released(name)


@app.task(need_manual=True)
async def invoice(number: int) -> None:
    raise ValueError(f"invoice {number} has no address")


@app.task
async def unknown() -> None:
    raise headgate.Fatal("nobody knows it")


@app.task
async def parent(children: int = 3) -> None:
    await headgate.context().submit_many([greet.call(f"child {n}") for n in range(children)])


@app.task
async def clan(name: str) -> None:
    await headgate.context().submit(held.call(name))


@app.task
def crunch() -> int:
    return sum(number * number for number in range(500_000))
'''
