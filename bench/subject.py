"""A system under test: its driver and its workers as processes of their own, asked and watched from outside."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.starts import STARTS
from lab.server import die_with_parent, tail

ROOT = Path(__file__).parents[1]
PATIENCE = 180.0
SETTLED = 0.9  # of a drain's tasks are left when it begins to count: by then all its processes are at work

Mark = tuple[float, int]  # when how many tasks were left


@dataclass(frozen=True, slots=True)
class Subject:
    """One driver, in one environment."""

    name: str
    module: str
    python: Path
    folder: Path  # for what its processes leave behind
    beside: bool = False  # its workers need a process beside them

    def ask(self, command: str, url: str = "", number: float = 0, **environment: str) -> Any:
        """What the driver answers."""
        words = self._words(command, url, number)
        answer = subprocess.run(
            words, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE,
            process_group=0, preexec_fn=die_with_parent(signal.SIGKILL),
        )  # fmt: skip
        if answer.returncode != 0:
            raise RuntimeError(f"{self.name}: {command} failed:\n{answer.stderr[-2000:]}")
        return json.loads(answer.stdout)

    @contextmanager
    def workers(self, url: str, count: int, **environment: str) -> Iterator["Crew"]:
        """That many worker processes, killed at the end."""
        with ExitStack() as stack:
            log = self.folder / "workers.log"
            output = stack.enter_context(log.open("ab"))
            crew = Crew(self.name, log, [])
            for command in ["beside"] * self.beside + ["work"] * count:
                words = self._words(command, url)
                crew.processes.append(stack.enter_context(running(words, environment, output)))
            yield crew

    def drain(self, url: str, count: int, processes: int) -> float:
        """Tasks finished in a second, of `count` that wait when the workers start."""
        self.ask("prepare", url)
        self.ask("fill", url, count)
        with (
            (self.folder / "watcher.log").open("wb") as errors,
            running(self._words("watch", url, processes), {}, subprocess.PIPE, errors) as watcher,
            self.workers(url, processes) as crew,
        ):
            return drained(_marks(watcher, crew), count)

    def latencies(self, url: str, count: int, workers: int = 1) -> list[float]:
        """Seconds from submit to start, while the workers do nothing else."""
        self.ask("prepare", url)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            file = {STARTS: str(Path(folder, "starts"))}
            with self.workers(url, workers, **file):
                answer: list[float] = self.ask("latency", url, count, **file)
                return answer

    def _words(self, command: str, url: str, number: float = 0) -> list[str]:
        return [str(self.python), "-m", self.module, command, url, str(number)]


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers at work."""

    name: str
    log: Path
    processes: list[subprocess.Popen[bytes]]

    def check(self) -> None:
        """Fail if one has ended by itself."""
        if any(process.poll() is not None for process in self.processes):
            raise RuntimeError(f"{self.name}: a worker ended:\n{tail(self.log)}")


@contextmanager
def running(
    words: Sequence[str], environment: Mapping[str, str], output: Any, errors: Any = subprocess.STDOUT
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours, in a group of its own; killed at the end, with its children."""
    process = subprocess.Popen(
        words, cwd=ROOT, env=os.environ | environment, process_group=0, preexec_fn=die_with_parent(signal.SIGKILL),
        stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _marks(watcher: "subprocess.Popen[bytes]", crew: Crew) -> list[Mark]:
    """What the watcher says until nothing is left; fails if the workers do, or if they stand still."""
    marks: list[Mark] = []
    assert watcher.stdout is not None
    end = time.monotonic() + PATIENCE
    for line in watcher.stdout:
        at, left = line.split()
        marks.append((float(at), int(left)))
        if marks[-1][1] > 0:
            crew.check()
        if time.monotonic() > end:
            raise TimeoutError(f"{crew.name}: {left.decode()} tasks were left after {PATIENCE:g} s")
    if not marks or marks[-1][1] != 0:
        raise RuntimeError(f"{crew.name}: nobody saw the tasks end")
    return marks


def drained(marks: Sequence[Mark], count: int) -> float:
    """Tasks in a second while all processes were at work: neither their start nor the last few tasks count."""
    steady = [mark for mark in marks if 0 < mark[1] <= SETTLED * count]
    if len(steady) < 3:  # it was over too soon to tell: from the last look before it began to the end
        waiting = [mark for mark in marks if mark[1] >= count] or marks[:1]
        steady = [waiting[-1], marks[-1]]
    (begun, left), (ended, rest) = steady[0], steady[-1]
    return (left - rest) / (ended - begun)
