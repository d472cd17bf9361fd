"""Workers in processes of their own, started, stopped, frozen and killed by a test."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.stories.evidence import rows
from tests.stories.ledger import Entry, Ledger

PATIENCE = 120.0
MODULE = "tests.stories.fleet"
WAITING = "SELECT 1 FROM headgate_task WHERE status IN ('pending', 'blocked', 'queued', 'retrying') LIMIT 1"
SEED = int(os.environ.get("HEADGATE_STORY_SEED", "7"))  # of what is up to the dice; the rest is up to the system


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that nobody signals."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come to that: {what}"
        time.sleep(0.02)


class Crew:
    """The workers of one story, their ledger, and the dice that decide what befalls them."""

    def __init__(self, url: str, folder: Path, seed: int = SEED, **options: float) -> None:
        self.url = url
        self.ledger = Ledger(folder / "ledger")
        self.log = folder / "workers.log"
        self.dice = random.Random(seed)
        self.alive: list[subprocess.Popen[bytes]] = []
        self._options = [word for name, value in options.items() for word in (f"--{name}", str(value))]

    def start(self) -> subprocess.Popen[bytes]:
        """One worker more."""
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", MODULE, self.url, str(self.ledger.path), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )
        self.alive.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """As `kill -9` does."""
        worker.kill()
        assert self.end_of(worker) == -signal.SIGKILL
        self.ledger.note_death(worker.pid)

    def stop(self, worker: subprocess.Popen[bytes]) -> None:
        """In good order."""
        worker.terminate()
        assert self.end_of(worker) == 0

    def end_of(self, worker: subprocess.Popen[bytes]) -> int:
        """The exit code of one that is about to end."""
        code = worker.wait(PATIENCE)
        self.alive.remove(worker)
        return code

    def busy(self) -> list[subprocess.Popen[bytes]]:
        """Those that have begun some task."""
        begun = {entry.pid for entry in self.ledger.entries("start")}
        return [worker for worker in self.alive if worker.pid in begun]

    def by_chance(self) -> subprocess.Popen[bytes]:
        """One of those that have begun some task, when there is one; any, if no task is left to begin."""
        until(lambda: self.busy() or not rows(self.url, WAITING), "a worker begins a task")
        return self.dice.choice(self.busy() or self.alive)

    def await_starts(self, count: int) -> None:
        """Until so many tasks more have begun, or none is left to begin: they may have been quicker than we looked."""
        wanted = len(self.ledger.entries("start")) + count
        until(lambda: len(self.ledger.entries("start")) >= wanted or not rows(self.url, WAITING), "tasks begin")

    def bury(self) -> None:
        """Forget those that have died."""
        for worker in self.alive:
            if worker.poll() is not None:
                self.ledger.note_death(worker.pid)
        self.alive = [worker for worker in self.alive if worker.poll() is None]

    def all_alive(self) -> None:
        """Fail at once if one has ended that nobody ended."""
        for worker in self.alive:
            assert worker.poll() is None, f"worker {worker.pid} ended with {worker.returncode}"

    def all_listen(self) -> bool:
        """Whether each has signed on: before that, the system may end one that is told to stop."""
        said = self.log.read_text(errors="replace") if self.alive else ""
        return all(f"-{worker.pid}) serves " in said for worker in self.alive)

    def lines_of(self, task_id: int, *whats: str) -> list[Entry]:
        return [entry for entry in self.ledger.entries(*whats) if entry.task_id == task_id]


@contextmanager
def crew(url: str, folder: Path, seed: int = SEED, **options: float) -> Iterator[Crew]:
    """A crew that is gone afterwards; if the story fails, with what is needed to see why."""
    members = Crew(url, folder, seed, **options)
    try:
        yield members
        until(members.all_listen, "all listen")
        for worker in list(members.alive):
            members.stop(worker)
    except BaseException as error:
        log_tail = members.log.read_text(errors="replace").splitlines()[-60:] if members.log.exists() else []
        error.add_note("\n".join([f"seed {seed}; the workers said last:", *log_tail]))
        raise
    finally:
        for worker in members.alive:
            worker.kill()
            worker.wait()
