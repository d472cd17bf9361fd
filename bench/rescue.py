"""How long a task stands still whose worker was killed with -9, and its parent process with it."""

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.peers import tasks
from bench.peers.starts import STARTS
from bench.subject import running
from headgate.settings import load
from headgate.store.store import open_store
from lab.server import tail

COMMAND = str(Path(sys.executable).with_name("headgate"))
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Setup:
    """How many workers are killed at once, how many tasks each holds, its settings, and how long a task may take."""

    title: str
    workers: int
    slots: int
    settings: Mapping[str, float] = field(default_factory=dict)
    timeout_seconds: float | None = None


SHORT = Setup("lease of 5 s", 10, 1, {"LEASE_SECONDS": 5, "BEAT_SECONDS": 1.5, "REAP_SECONDS": 1})
DEFAULT = Setup("default settings, timeout of 20 s", 5, 4, timeout_seconds=20)


class Start(NamedTuple):
    task_id: int
    attempt: int
    pid: int
    at: float


class Rescue(NamedTuple):
    """The seconds from each kill to the moment a task runs again elsewhere, and how many were charged an error."""

    seconds: list[float]
    charged: int


def rescues(url: str, setup: Setup, wanted: int, folder: Path) -> Rescue:
    """Kill workers until that many tasks have been rescued."""
    seconds: list[float] = []
    charged = 0
    while len(seconds) < wanted:
        workers = min(setup.workers, ceil((wanted - len(seconds)) / setup.slots))
        wave = _wave(url, setup, workers, folder)
        seconds, charged = seconds + wave.seconds, charged + wave.charged
    return Rescue(seconds, charged)


def _wave(url: str, setup: Setup, victims: int, folder: Path) -> Rescue:
    """Kill workers, at moments that have nothing to do with their beats."""
    count = victims * setup.slots
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)), "starts")
        log = stack.enter_context((folder / "workers.log").open("ab"))
        store = stack.enter_context(open_store(url))
        environment = {STARTS: str(file)} | {f"HEADGATE_{name}": f"{value:g}" for name, value in setup.settings.items()}

        def work(slots: int) -> int:
            words = [COMMAND, "work", tasks.__name__, "--concurrency", str(slots), "--url", url]
            return stack.enter_context(running(words, environment, log)).pid

        def starts(attempt: int) -> list[Start]:
            lines = file.read_text().splitlines() if file.exists() else []
            found = [
                Start(int(task), int(number), int(pid), float(at)) for task, number, pid, at in map(str.split, lines)
            ]
            return [start for start in found if start.attempt == attempt]

        before = len(store.workers.all())
        doomed = [work(setup.slots) for _ in range(victims)]
        _until(lambda: len(store.workers.all()) == before + victims, folder)
        ids = _submit(url, setup, count)
        _until(lambda: len(starts(1)) == count, folder)
        work(slots=2 * count)
        _until(lambda: len(store.workers.all()) > before + victims, folder)
        killed: dict[int, float] = {}
        for parent in doomed:
            time.sleep(random.uniform(0.1, 0.5))
            killed |= _kill(parent)
        _until(lambda: len(starts(2)) == count or any(store.tasks.get(id).error_count for id in ids), folder)
        _until(lambda: all(store.tasks.get(id).finished_at is not None for id in ids), folder)
        again = {start.task_id: start.at for start in starts(2)}
        seconds = [again[start.task_id] - killed[start.pid] for start in starts(1) if start.task_id in again]
        return Rescue(seconds, sum(store.tasks.get(id).error_count > 0 for id in ids))


def _kill(parent: int) -> dict[int, float]:
    """Kill a worker with its parent process, as a machine does that goes away; when each of them was killed."""
    workers = psutil.Process(parent).children()
    at = time.monotonic()
    for pid in (parent, *(worker.pid for worker in workers)):  # a parent that is dead gives nothing back
        os.kill(pid, signal.SIGKILL)
    return dict.fromkeys((worker.pid for worker in workers), at)


def _submit(url: str, setup: Setup, count: int) -> list[int]:
    tasks.app.close()
    tasks.app._settings = load({"url": url})
    hold = tasks.hold if setup.timeout_seconds is None else tasks.hold.using(timeout_seconds=setup.timeout_seconds)
    made = tasks.app.submit_many_sync([hold.call() for _ in range(count)])
    tasks.app.close()
    return [task.id for task in made]


def _until(there: Callable[[], bool], folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"nobody went on with the tasks of the killed:\n{tail(folder / 'workers.log')}")
        time.sleep(0.02)
