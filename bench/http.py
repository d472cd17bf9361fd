"""`python -m bench.http`: one server process, beside the store's own rates and a bare echo on the same server."""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.__main__ import places
from bench.figure import FULL, QUICK, Scale
from bench.measurement import EXT, TYPE
from bench.percentile import percentile
from bench.place import Place
from bench.raw import timed
from bench.submit import CALLERS, at_once
from bench.table import NAMES, grid
from headgate.core.machine import Returned
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from lab.server import die_with_parent

HEADS = ("over HTTP", "SQLite", "PostgreSQL", "target", "")
CLAIM_SIZE = 100  # tasks that an agent is given at a time
BATCH = 1000
MORE_THAN_ENOUGH = 30_000  # tasks a second, so that nobody runs out of them
POLLS, STREAMS = 1000, 200
ROOT = Path(__file__).parents[1]


class Connection:
    """One keep-alive connection: the least client that there can be."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        return self

    def close(self) -> None:
        self._writer.close()

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write((head + "Content-Type: application/json\r\n\r\n").encode() + body)

    async def head(self) -> tuple[int, int]:
        """The status, and the length of what follows."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        mark = lower.find(b"content-length: ")
        return int(head[9:12]), int(lower[mark + 16 :].split(b"\r\n", 1)[0]) if mark >= 0 else 0

    async def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        self.send(method, path, body)
        status, length = await self.head()
        answer = await self._reader.readexactly(length)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return answer


@contextmanager
def server(url: str) -> Iterator[tuple[int, psutil.Process]]:
    """`headgate serve` in a process of its own; its port."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.echo", url], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors,
            preexec_fn=die_with_parent(signal.SIGKILL), env=os.environ | {"HEADGATE_URL": url},
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                errors.seek(0)
                raise RuntimeError(errors.read().decode()[-2000:])
            yield int(line), psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


async def _rate(port: int, seconds: float, connections: int, step: Callable[[Connection], Awaitable[int]]) -> float:
    """What so many connections do in a second, each one request at a time."""
    opened = [await Connection(port).open() for _ in range(connections)]
    end = time.perf_counter() + seconds

    async def run(connection: Connection) -> int:
        done = 0
        while time.perf_counter() < end:
            done += await step(connection)
        return done

    begun = time.perf_counter()
    total = sum(await asyncio.gather(*(run(connection) for connection in opened)))
    passed = time.perf_counter() - begun
    for connection in opened:
        connection.close()
    return total / passed


_ONE = json.dumps({"type": TYPE, "ext": json.loads(EXT)}).encode()
_MANY = json.dumps({"tasks": [json.loads(_ONE)] * BATCH}).encode()


async def _submit(connection: Connection) -> int:
    await connection.ask("POST", "/api/tasks", _ONE)
    return 1


async def _echo(connection: Connection) -> int:
    await connection.ask("POST", "/bench/echo", _ONE)
    return 1


async def _bulk(connection: Connection) -> int:
    await connection.ask("POST", "/api/tasks/bulk", _MANY)
    return BATCH


class _Task(msgspec.Struct):
    id: int
    exec_id: str


class _Tasks(msgspec.Struct):
    tasks: list[_Task]


_TASKS = msgspec.json.Decoder(_Tasks)


async def _claim_and_report(connection: Connection) -> int:
    """Claim a hundred and report them."""
    claim = msgspec.json.encode({"limit": CLAIM_SIZE})
    tasks = _TASKS.decode(await connection.ask("POST", "/api/agents/bench/claim", claim)).tasks
    reports = [{"id": task.id, "exec_id": task.exec_id, "status": "Success"} for task in tasks]
    if reports:
        body = msgspec.json.encode({"reports": reports})
        await connection.ask("POST", "/api/agents/bench/report", body)
    return len(tasks)


def _claim_and_settle(store: Store, worker_id: int) -> int:
    claimed = store.claims.take(ClaimRequest(worker_id, CLAIM_SIZE)).executions
    store.executions.settle([Outcome(execution, Returned()) for execution in claimed])
    return len(claimed)


def _fill(url: str, count: int) -> None:
    with open_store(url) as store:
        for _ in range(0, count, BATCH):
            store.tasks.submit_many([NewTask(TYPE, ext=EXT)] * BATCH)


class Bench:
    """The figures of one store."""

    def __init__(self, place: Place, scale: Scale) -> None:
        self._place = place
        self._scale = scale
        self._seconds = max(scale.seconds, 1.0)

    @contextmanager
    def _served(self) -> Iterator[tuple[int, psutil.Process, str]]:
        with self._place.fresh() as url:
            with open_store(url) as store:
                store.migrate()
                store.types.put(TaskType(TYPE))
            with server(url) as (port, process):
                yield port, process, url

    def single(self) -> Sequence[float]:
        """Submits a second by 32 connections; ÷ the store's own by 32 threads; ÷ the echo."""
        rates: list[tuple[float, ...]] = []
        for _ in range(self._scale.rounds):
            with self._served() as (port, _, url), open_store(url) as store:
                ours = asyncio.run(_rate(port, self._seconds, CALLERS, _submit))
                echo = asyncio.run(_rate(port, self._seconds, CALLERS, _echo))
                own = at_once(CALLERS, self._seconds, lambda: len([store.tasks.submit(NewTask(TYPE, ext=EXT))])).rate
                rates.append((ours, ours / own, ours / echo))
        return _medians(rates)

    def bulk(self) -> Sequence[float]:
        """Tasks a second in bulk of 1,000; ÷ the store's own."""
        rates: list[tuple[float, ...]] = []
        for _ in range(self._scale.rounds):
            with self._served() as (port, _, url), open_store(url) as store:
                own = timed(self._seconds, lambda: len(store.tasks.submit_many([NewTask(TYPE, ext=EXT)] * BATCH))).rate
                ours = asyncio.run(_rate(port, self._seconds, 1, _bulk))
                rates.append((ours, ours / own))
        return _medians(rates)

    def claims(self) -> Sequence[float]:
        """Tasks a second claimed and reported by 100; ÷ the store's own."""
        rates: list[tuple[float, ...]] = []
        for _ in range(self._scale.rounds):
            with self._served() as (port, _, url), open_store(url) as store:
                worker_id = store.workers.register("bench", lease_seconds=600.0)
                _fill(url, int(MORE_THAN_ENOUGH * self._seconds))
                own = timed(self._seconds, partial(_claim_and_settle, store, worker_id)).rate
                _fill(url, int(MORE_THAN_ENOUGH * self._seconds))
                ours = asyncio.run(_rate(port, self._seconds, 1, _claim_and_report))
                rates.append((ours, ours / own))
        return _medians(rates)

    def wake(self) -> float:
        """Milliseconds from a submit's answer to the answer of a claim that waited for it, p50."""
        with self._served() as (port, _, _):
            return 1000 * percentile(asyncio.run(_wakes(port, self._scale.probes)), 0.5)

    def idle(self) -> tuple[float, float]:
        """What 1,000 long polls and 200 streams cost while nothing happens: MB more, and percent of a core."""
        with self._served() as (port, process, _):
            return asyncio.run(_idle(port, process, self._scale.idle))


async def _wakes(port: int, count: int) -> list[float]:
    found = []
    poller, submitter = await Connection(port).open(), await Connection(port).open()
    claim = json.dumps({"limit": 1, "wait_seconds": 30}).encode()
    for _ in range(count):
        waiting = asyncio.create_task(poller.ask("POST", "/api/agents/bench/claim", claim))
        await asyncio.sleep(0.03)
        begun = time.perf_counter()
        await submitter.ask("POST", "/api/tasks", _ONE)
        tasks = json.loads(await waiting)["tasks"]
        found.append(time.perf_counter() - begun)
        reports = [{"id": task["id"], "exec_id": task["exec_id"], "status": "Success"} for task in tasks]
        await submitter.ask("POST", "/api/agents/bench/report", json.dumps({"reports": reports}).encode())
    return found


async def _idle(port: int, process: psutil.Process, seconds: float) -> tuple[float, float]:
    before = process.memory_info().rss
    opened = []
    for number in range(POLLS):
        connection = await Connection(port).open()
        body = json.dumps({"limit": 1, "wait_seconds": 60, "types": [TYPE]}).encode()
        connection.send("POST", f"/api/agents/idle-{number}/claim", body)
        opened.append(connection)
    for _ in range(STREAMS):
        connection = await Connection(port).open()
        connection.send("GET", "/api/events")
        opened.append(connection)
    await asyncio.sleep(5.0)
    used, begun = sum(process.cpu_times()[:2]), time.monotonic()
    await asyncio.sleep(seconds)
    share = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - begun)
    more = (process.memory_info().rss - before) / 2**20
    for connection in opened:
        connection.close()
    return more, 100 * share


def _medians(rates: list[tuple[float, ...]]) -> Sequence[float]:
    return tuple(statistics.median(column) for column in zip(*rates, strict=True))


def rows(benches: dict[str, Bench]) -> Iterator[tuple[str, ...]]:
    singles = {name: bench.single() for name, bench in benches.items()}
    yield _row("submit, 32 connections, tasks/s", {name: found[0] for name, found in singles.items()}, 0)
    best = {name: max(found[1] / 0.6, found[2] / 0.7) for name, found in singles.items()}
    yield _row("  ÷ the store's own by 32 threads", {name: found[1] for name, found in singles.items()}, 2)
    ratios = {name: found[2] for name, found in singles.items()}
    met = all(share >= 1 for share in best.values())
    yield _row("  ÷ a bare echo", ratios, 2, "≥ 0.6 or ≥ 0.7", met)
    for title, measure in (("submit in bulk of 1,000", "bulk"), ("claim and report by 100", "claims")):
        found = {name: getattr(bench, measure)() for name, bench in benches.items()}
        yield _row(f"{title}, tasks/s", {name: value[0] for name, value in found.items()}, 0)
        shares = {name: value[1] for name, value in found.items()}
        yield _row("  ÷ the store's own", shares, 2, "≥ 0.6", all(share >= 0.6 for share in shares.values()))
    wakes = {name: bench.wake() for name, bench in benches.items()}
    yield _row("long poll, submit to answer, p50, ms", wakes, 1, "≤ 10", all(value <= 10 for value in wakes.values()))
    idle = {name: bench.idle() for name, bench in benches.items()}
    more = {name: value[0] for name, value in idle.items()}
    yield _row("1,000 idle polls, 200 streams: MB more", more, 0, "< 150", all(each < 150 for each in more.values()))
    share = {name: value[1] for name, value in idle.items()}
    yield _row("  percent of a core", share, 1, "< 5", all(each < 5 for each in share.values()))


def _row(title: str, values: dict[str, float], digits: int, target: str = "", met: bool = True) -> tuple[str, ...]:
    cells = [f"{values[name]:,.{digits}f}" if name in values else "" for name in NAMES]
    print(title, *cells, file=sys.stderr, flush=True)
    return (title, *cells, target, ("met" if met else "missed") if target else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round of each: does it run, not how fast")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    with places([options.store] if options.store else list(NAMES)) as found:
        benches = {place.dialect: Bench(place, scale) for place in found}
        print(grid([HEADS, *rows(benches)]))


if __name__ == "__main__":
    main()
