"""Under mypy --strict right calls pass, and wrong ones are found where they are made."""

import re
from pathlib import Path

from mypy import api

import headgate

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio
import sqlite3
from dataclasses import dataclass
from typing import assert_type

import headgate

app = headgate.Headgate()


@dataclass
class Report:
    pages: int


@app.task(lane="wide", mutex="page:{page}", uses=["disk"], retry=headgate.exponential(60, cap=300, retries=3))
async def scan(page: int, words: list[str] | None = None) -> Report:
    context = headgate.context()
    await context.progress(done=1, total=page)
    child = await context.submit(count.call(page))
    assert_type(child, headgate.Task[int])
    children = await context.submit_many([count.call(page)])
    assert_type(children, list[headgate.Task[int]])
    await context.checkpoint("half", {"page": page})
    return Report(page)


@app.task
def count(page: int) -> int:
    headgate.context().progress(note="counting")
    if page < 0:
        raise headgate.Retry(delay=3)
    if page == 0:
        raise headgate.Fatal("no such page")
    return page


@app.task(callback={"success": {"url": "https://example.org", "method": "PUT"}, "security": {"type": "none"}})
def told() -> None: ...


@app.task(retry=headgate.sequence([10, 60], retries=5), isolation="process")
def later(page: int = 1) -> dict[str, int] | headgate.Snooze:
    return headgate.Snooze(60) if page else {"page": page}


@app.periodic("*/5 * * * *", timezone="Asia/Shanghai", arguments={"page": 1})
@app.task
async def above(page: int) -> Report:
    return Report(page)


@app.task(lane="wide")
@app.periodic("0 3 * * *", missed="once", overlap="queue", log="trigger_log", code="nightly")
def below(page: int = 1) -> int:
    return page


nightly = app.periodic("0 4 * * *", code="another")(count.using(priority=9))


async def right(connection: sqlite3.Connection) -> None:
    task = await scan.submit(3, words=["a"])
    assert_type(task, headgate.Task[Report])
    ended = await task.wait(timeout=30)
    assert_type(ended, headgate.Ended[Report])
    assert_type(ended.result, Report)
    assert_type(ended.status, headgate.State)
    assert_type(count.submit_sync(page=3).wait_sync().result, int)
    assert_type(count(3), int)
    assert_type(await scan(3), Report)
    assert_type(scan.call(3), headgate.Call[Report])
    assert_type(scan.using(priority=2, delay_seconds=60).submit_sync(3), headgate.Task[Report])
    assert_type(app.submit_in(connection, count.call(3)), headgate.Task[int])
    assert_type(await app.submit_in_async(connection, scan.call(3)), headgate.Task[Report])
    assert_type(await app.submit_many([count.call(1), count.call(2)]), list[headgate.Task[int]])
    later.submit_sync()
    assert_type(scan.get(3), headgate.Task[Report])
    assert_type((await scan.get(3).wait()).result, Report)
    (await app.get(3).record()).status
    calls: list[headgate.Call[object]] = [scan.call(3), count.call(3)]
    await app.submit_many(calls)
    one: headgate.Call[Report | int] = count.call(3)
    assert_type((await app.submit(one)).created, bool)
    assert_type(await above.submit(3), headgate.Task[Report])
    assert_type(await above(3), Report)
    assert_type(below.submit_sync(3), headgate.Task[int])
    assert_type(nightly.submit_sync(3), headgate.Task[int])
    try:
        ended.result
    except headgate.TaskFailed as error:
        print(error.ended.error)


async def wrong() -> None:
    await scan.submit("three")  # error: arg-type
    await scan.submit()  # error: call-arg
    await above.submit("three")  # error: arg-type
    below.submit_sync("three")  # error: arg-type
    app.periodic()  # error: call-arg
    app.periodic("* * * * *", zone="UTC")  # error: call-arg
    await scan.submit(3, word=["a"])  # error: call-arg
    await scan.submit(3, words=[4])  # error: list-item
    await scan.submit(3, priority=2)  # error: call-arg
    count.submit_sync(None)  # error: arg-type
    scan.call()  # error: call-arg
    scan.using(colour="red")  # error: call-arg
    scan.using(priority="high")  # error: arg-type
    scan.using(unique="always")  # error: arg-type
    app.periodic("* * * * *", missed="never")  # error: arg-type
    scan.using(3)  # error: arg-type call-arg
    scan.using(priority=2).submit_sync("three")  # error: arg-type
    pages: str = count.submit_sync(3).wait_sync().result  # error: assignment
    (await (await scan.submit(3)).wait()).result.words  # error: attr-defined
    count.submit_sync(3).result  # error: attr-defined
    app.submit_in(None, count)  # error: arg-type
    app.submit_sync(count(3))  # error: arg-type
    numbers: list[headgate.Task[str]] = app.submit_many_sync([count.call(1)])  # error: list-item
    count.result = 3  # error: attr-defined
    task: headgate.Task[str] = count.submit_sync(3)  # error: assignment


@app.task(prioritty=1)  # error: call-overload untyped-decorator
def misspelt() -> None: ...


@app.task(retry=3)  # error: call-overload untyped-decorator
def odd() -> None: ...


@app.task(isolation="fiber")  # error: call-overload untyped-decorator
def fibred() -> None: ...


@app.task(unknown_errors="ignore")  # error: call-overload untyped-decorator
def careless() -> None: ...


@app.task(mutex=3)  # error: call-overload untyped-decorator
def locked() -> None: ...


@app.task(callback={"success": {"method": "POST"}})  # error: call-overload untyped-decorator
def nowhere() -> None: ...


@app.task(callback={"failure": {"url": "https://example.org"}})  # error: call-overload untyped-decorator
def misnamed() -> None: ...


@app.task
def loud() -> None:
    headgate.context().log("there", level="warning")
    headgate.context().log("there", level="loud")  # error: arg-type


asyncio.run(wrong())
"""


def test_right_calls_pass_and_wrong_ones_are_found_where_they_are_made(tmp_path, pytestconfig):
    """Spec: D3. One run for all of it: reading Headgate takes mypy longer than the rest."""
    (tmp_path / "program.py").write_text(PROGRAM)
    output, trouble, _ = api.run(
        [
            *("--strict", "--no-error-summary", "--hide-error-context", "--python-version=3.11"),
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={pytestconfig.cache.mkdir('mypy')}",
            str(tmp_path / "program.py"),
        ]
    )
    assert trouble == ""
    lines = PROGRAM.splitlines()
    wrong = sorted((line, code) for line in lines for code in line.partition("# error: ")[2].split())
    found = re.findall(r"program\.py:(\d+): error: .*\[([\w-]+)\]", output)
    assert sorted((lines[int(number) - 1], code) for number, code in found) == wrong, output


def test_the_package_says_that_it_is_typed():
    """Spec: D3"""
    assert (Path(headgate.__file__).parent / "py.typed").exists()
