"""How long a task stands still whose worker was killed with -9."""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.peers import tasks
from bench.peers.starts import STARTS
from bench.subject import running
from headgate.settings import load
from headgate.store.store import open_store
from lab.server import tail

COMMAND = str(Path(sys.executable).with_name("headgate"))
LEASE = 5
SETTINGS = {"LEASE_SECONDS": LEASE, "BEAT_SECONDS": 1.5, "REAP_SECONDS": 1}
AT_ONCE = 10
PATIENCE = 60.0


class Start(NamedTuple):
    task_id: int
    attempt: int
    pid: int
    at: float


def seconds(url: str, kills: int, folder: Path) -> list[float]:
    """From each kill to the moment the task runs again elsewhere."""
    taken: list[float] = []
    while len(taken) < kills:
        taken += _wave(url, min(AT_ONCE, kills - len(taken)), folder)
    return taken


def _wave(url: str, victims: int, folder: Path) -> list[float]:
    """Kill workers that hold one task each, at moments that have nothing to do with their beats."""
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)), "starts")
        log = stack.enter_context((folder / "workers.log").open("ab"))
        environment = {STARTS: str(file)} | {f"HEADGATE_{name}": f"{value:g}" for name, value in SETTINGS.items()}

        def work(slots: int) -> int:
            words = [COMMAND, "work", tasks.__name__, "--concurrency", str(slots), "--url", url]
            return stack.enter_context(running(words, environment, log)).pid

        def starts(attempt: int) -> list[Start]:
            lines = file.read_text().splitlines() if file.exists() else []
            found = [
                Start(int(task), int(count), int(pid), float(at)) for task, count, pid, at in map(str.split, lines)
            ]
            return [start for start in found if start.attempt == attempt]

        doomed = [work(slots=1) for _ in range(victims)]
        _submit(url, victims)
        _until(lambda: len(starts(1)) == victims, folder)
        with open_store(url) as store:
            before = len(store.workers.all())
            work(slots=2 * victims)
            _until(lambda: len(store.workers.all()) > before, folder)
        killed: dict[int, float] = {}
        for pid in doomed:
            time.sleep(random.uniform(0.1, 0.5))
            killed[pid] = time.monotonic()
            os.killpg(pid, 9)
        _until(lambda: len(starts(2)) == victims, folder)
        again = {start.task_id: start.at for start in starts(2)}
        return [again[start.task_id] - killed[start.pid] for start in starts(1)]


def _submit(url: str, count: int) -> None:
    tasks.app.close()
    tasks.app._settings = load({"url": url})
    tasks.app.submit_many_sync([tasks.hold.call() for _ in range(count)])
    tasks.app.close()


def _until(there: Callable[[], bool], folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"nobody went on with the tasks of the killed:\n{tail(folder / 'workers.log')}")
        time.sleep(0.02)
