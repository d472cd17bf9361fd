"""`python -m bench.callbacks`: callbacks of ended tasks to receivers some of which hang; the others must not notice."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.__main__ import places
from bench.percentile import percentile
from bench.place import Place
from bench.table import NAMES, grid
from headgate.cli.plan import WORKER_MODULE, ProcessPlan, command_line
from headgate.core.machine import Returned
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from lab.server import die_with_parent

HEADS = ("callbacks", "SQLite", "PostgreSQL", "target", "")
RECEIVERS, HANGING = 50, 5
RATE = 500
TICK_SECONDS = 0.02
BACKLOG = 4_000
LONGEST_DRAIN_SECONDS = 60.0
WARM_SECONDS = 3.0  # in which the sender starts
ROOT = Path(__file__).parents[1]
TARGET_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one store did."""

    p50: float
    p99: float
    slowest: float
    arrived: int  # percent of the callbacks to receivers that are well
    share: float  # of a core, that the sender used
    drained: float  # callbacks a second, from a backlog


@contextmanager
def process(*words: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that is gone afterwards, whatever happens."""
    started = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env=os.environ | environment, preexec_fn=die_with_parent(signal.SIGKILL),
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def receiving(count: int, hanging: int) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    with process("bench.receivers", str(count), str(hanging)) as receivers:
        assert receivers.stdout is not None
        yield receivers, json.loads(receivers.stdout.readline())


def arrivals(receivers: "subprocess.Popen[str]") -> list[list[tuple[float, float]]]:
    """Of each receiver's callbacks, when their tasks ended and how many seconds later they arrived."""
    answer, _ = receivers.communicate()
    found: list[list[tuple[float, float]]] = json.loads(answer)
    return found


@contextmanager
def fresh(place: Place, ports: list[int]) -> Iterator[tuple[Store, str]]:
    """A store with a type for each receiver."""
    with place.fresh() as url, open_store(url) as store:
        store.migrate()
        for number, port in enumerate(ports):
            target = {"url": f"http://127.0.0.1:{port}/told", "method": "POST"}
            store.types.put(TaskType(f"told {number:02}", callback={"success": target}))
        yield store, url


@contextmanager
def sending(url: str) -> Iterator[psutil.Process]:
    """`headgate duties`, as anybody would run it."""
    environment = {"HEADGATE_URL": url, "HEADGATE_CALLBACK_ALLOW": "127.0.0.0/8"}
    with process(*command_line(WORKER_MODULE, ProcessPlan())[3:], **environment) as sender:
        yield psutil.Process(sender.pid)


def end_tasks(store: Store, worker_id: int, first: int, count: int) -> None:
    """Tasks of one type after the other, submitted and done; their result is the time at which they were."""
    new_tasks = [NewTask(f"told {number % RECEIVERS:02}") for number in range(first, first + count)]
    store.tasks.submit_many(new_tasks)
    ended = store.claims.take(ClaimRequest(worker_id, count)).executions
    at = repr(time.monotonic())
    store.executions.settle([Outcome(execution, Returned(at)) for execution in ended])


def end_tasks_steadily(store: Store, seconds: float) -> int:
    """End `RATE` tasks a second, whether or not their callbacks keep up; how many it ended."""
    worker_id = store.workers.register("bench", lease_seconds=3600.0)
    begun, done = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        if (due := int(passed * RATE) - done) > 0:
            end_tasks(store, worker_id, done, due)
            done += due
        time.sleep(TICK_SECONDS)
    return done


def seconds_until_pending(store: Store, left: int) -> float:
    """Seconds until no more than `left` are pending."""
    begun = time.monotonic()
    while store.deliveries.deliverables().pending > left:
        if time.monotonic() - begun > LONGEST_DRAIN_SECONDS:
            break
        time.sleep(TICK_SECONDS)
    return time.monotonic() - begun


def measure(place: Place, seconds: float) -> Result:
    with (
        receiving(RECEIVERS, HANGING) as (receivers, ports),
        fresh(place, ports) as (store, url),
        sending(url) as sender,
    ):
        warm = end_tasks_steadily(store, WARM_SECONDS)
        used, begun = sum(sender.cpu_times()[:2]), time.monotonic()
        done = end_tasks_steadily(store, seconds)
        share = (sum(sender.cpu_times()[:2]) - used) / (time.monotonic() - begun)
        seconds_until_pending(store, (warm + done) * HANGING // RECEIVERS)
        got = [(at, took) for each in arrivals(receivers)[:-HANGING] for at, took in each]
        well = [took for at, took in got if at >= begun]
    expected = (warm + done) * (RECEIVERS - HANGING) / RECEIVERS
    with receiving(RECEIVERS, 0) as (receivers, ports), fresh(place, ports) as (store, url):
        worker_id = store.workers.register("bench", lease_seconds=3600.0)
        end_tasks(store, worker_id, 0, BACKLOG)
        with sending(url):
            while store.deliveries.deliverables().pending == BACKLOG:
                time.sleep(TICK_SECONDS)
            before = store.deliveries.deliverables().pending
            drained = before / seconds_until_pending(store, 0)
    arrived = round(100 * len(got) / expected)
    return Result(percentile(well, 0.5), percentile(well, 0.99), max(well), arrived, share, drained)


def rows(found: dict[str, Result]) -> Iterator[tuple[str, ...]]:
    met = all(each.p99 <= TARGET_SECONDS for each in found.values())
    title = f"{RATE}/s to {RECEIVERS} receivers, {HANGING} hang: the others, p50, ms"
    yield _row(title, {name: 1000 * each.p50 for name, each in found.items()})
    yield _row("  p99, ms", {name: 1000 * each.p99 for name, each in found.items()}, "≤ 1,000", met)
    yield _row("  the slowest, ms", {name: 1000 * each.slowest for name, each in found.items()})
    all_there = all(each.arrived >= 100 for each in found.values())
    yield _row("  arrived, percent", {name: each.arrived for name, each in found.items()}, "100", all_there)
    yield _row("  percent of a core, the sender", {name: 100 * each.share for name, each in found.items()})
    yield _row("a backlog goes out, callbacks/s", {name: each.drained for name, each in found.items()})


def _row(title: str, values: dict[str, float], target: str = "", met: bool = True) -> tuple[str, ...]:
    cells = [f"{values[name]:,.0f}" if name in values else "" for name in NAMES]
    return (title, *cells, target, ("met" if met else "missed") if target else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.callbacks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds of each: does it run, not how fast")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    with places([options.store] if options.store else list(NAMES)) as found:
        measured = {place.dialect: measure(place, 3.0 if options.quick else 30.0) for place in found}
    print(grid([HEADS, *rows(measured)]))


if __name__ == "__main__":
    main()
