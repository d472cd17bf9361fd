"""Tasks in processes of their own that wait for one another."""

import asyncio

import headgate

app = headgate.Headgate("sqlite://")


@app.task(isolation="process")
def child(number: int) -> int:
    return number


@app.task(isolation="process")
def parent() -> int:
    return headgate.context().submit(child.call(7)).result().wait_sync(50).result


@app.task(isolation="process")
async def patient() -> int:
    children = [await headgate.context().submit(child.call(number)) for number in range(3)]
    return sum(ended.result for ended in await asyncio.gather(*(each.wait(50) for each in children)))
