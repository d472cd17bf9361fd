"""From end to end: worker processes as users start them, measured from outside."""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench import forecast, rescue
from bench.figure import Scale
from bench.peers.driver import PAUSE
from bench.percentile import percentile
from bench.place import Place, connect_postgres, connection
from bench.subject import Subject
from bench.table import NAMES, grid

HEADS = ("end to end", "SQLite", "PostgreSQL", "target", "")
DIALECTS = tuple(NAMES)
MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    title: str
    digits: int = 0
    at_most: Mapping[str, float] = field(default_factory=dict)  # by dialect


@dataclass(frozen=True, slots=True)
class Observation:
    """What gives one or more rows their values."""

    rows: tuple[Row, ...]
    run: Callable[[Place, Scale, Path], Sequence[float]]
    dialects: tuple[str, ...] = DIALECTS

    @property
    def title(self) -> str:
        return "; ".join(row.title for row in self.rows)


def _headgate(folder: Path, module: str = "headgate") -> Subject:
    return Subject("Headgate", f"bench.peers.{module}", Path(sys.executable), folder)


def _drain(processes: int, place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    rates = []
    for _ in range(scale.rounds):
        with place.fresh() as url:
            rates.append(_headgate(folder).drain(url, scale.drain, processes))
    return [median(rates)]


def _latency(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    with place.fresh() as url:
        return _milliseconds(_headgate(folder).latencies(url, scale.probes))


def _latency_together(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    with place.fresh() as url:
        return _milliseconds(_headgate(folder, "together").latencies(url, scale.probes, workers=0))


def _milliseconds(seconds: list[float]) -> Sequence[float]:
    return [1000 * percentile(seconds, 0.5), 1000 * percentile(seconds, 0.99)]


def _two_commits(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    """What a durable submit and a durable start must at least take: two rows, committed one after the other."""
    with place.fresh() as url, connection(place, url) as connected:
        connected.execute("CREATE TABLE raw (ext text)")
        return _milliseconds([_seconds_for_two(connected) for _ in range(scale.probes)])


def _seconds_for_two(connected: Any) -> float:
    time.sleep(random.uniform(*PAUSE))
    begun = time.perf_counter()
    for _ in range(2):
        connected.execute("INSERT INTO raw (ext) VALUES ('{}')")
    return time.perf_counter() - begun


def _memory(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    subject = _headgate(folder)
    with place.fresh() as url:
        subject.ask("prepare", url)
        with subject.workers(url, 1) as crew:
            time.sleep(scale.idle)
            crew.check()
            return [psutil.Process(crew.processes[0].pid).memory_info().rss / MEGABYTE]


def _statements(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    subject = _headgate(folder)
    with place.fresh() as url:
        subject.ask("prepare", url)
        with subject.workers(url, 1) as crew, connect_postgres(url) as connection:

            def transactions() -> int:
                count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
                return sum(connection.execute(count).fetchone() or ())

            time.sleep(scale.idle)
            before, begun = transactions(), time.monotonic()
            time.sleep(scale.idle)
            crew.check()
            return [max(transactions() - before - 1, 0) / (time.monotonic() - begun)]  # one of them was ours


def _rescue(setup: rescue.Setup, place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    with place.fresh() as url:
        _headgate(folder).ask("prepare", url)
        found = rescue.rescues(url, setup, scale.kills, folder)
        return [percentile(found.seconds, 0.5), percentile(found.seconds, 0.99), found.charged]


OBSERVATIONS = [
    Observation((Row("drain, 1 process, finished/s"),), partial(_drain, 1)),
    Observation((Row("drain, 2 processes, finished/s"),), partial(_drain, 2)),
    Observation(
        (
            Row("submit to start when idle, p50, ms", 1, {"postgres": 2.5}),
            Row("submit to start when idle, p99, ms", 1, {"postgres": 8.0}),
        ),
        _latency,
    ),
    Observation(
        (
            Row("the same in one process, p50, ms", 1, {"sqlite": 1.5}),
            Row("the same in one process, p99, ms", 1),
        ),
        _latency_together,
    ),
    Observation(
        (Row("two raw commits when idle, p50, ms", 1), Row("two raw commits when idle, p99, ms", 1)), _two_commits
    ),
    Observation((Row("idle worker, MB resident", 1, {"sqlite": 45.0, "postgres": 45.0}),), _memory),
    Observation((Row("idle worker, transactions/s", 1, {"postgres": 5.0}),), _statements, ("postgres",)),
    *(
        Observation(
            (
                Row(f"rescue after kill -9, {setup.title}, p50, s", 1),
                Row(f"rescue after kill -9, {setup.title}, p99, s", 1, {"sqlite": most, "postgres": most}),
                Row(f"rescue after kill -9, {setup.title}, charged", 0, {"sqlite": 0.0, "postgres": 0.0}),
            ),
            partial(_rescue, setup),
        )
        for setup, most in ((rescue.SHORT, 10.0), (rescue.DEFAULT, 45.0))
    ),
    Observation(
        (
            Row("forecast of a start, off by, p50, %", 1),
            Row("forecast of a start, off by, p90, %", 1, {"sqlite": 25.0, "postgres": 25.0}),
        ),
        forecast.errors,
    ),
    Observation(
        (Row("why and forecast, few waiting, ms", 1), Row("why and forecast, very many waiting, ms", 1)), forecast.cost
    ),
]


def observe(wanted: Sequence[Observation], places: Sequence[Place], scale: Scale) -> str:
    """Make the observations, and give the table of them."""
    lines: list[Sequence[str]] = [HEADS]
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        for observation in wanted:
            found: dict[str, Sequence[float]] = {}
            for place in places:
                if place.dialect in observation.dialects:
                    begun = time.perf_counter()
                    found[place.dialect] = observation.run(place, scale, Path(folder))
                    took = time.perf_counter() - begun
                    print(f"{observation.title}, {NAMES[place.dialect]}: {took:.0f} s", file=sys.stderr, flush=True)
            lines += [
                _line(row, {name: found[name][number] for name in found}) for number, row in enumerate(observation.rows)
            ]
    return grid(lines)


def _line(row: Row, values: Mapping[str, float]) -> Sequence[str]:
    cells = [f"{values[name]:,.{row.digits}f}" if name in values else "" for name in DIALECTS]
    aimed = {name: values[name] <= limit for name, limit in row.at_most.items() if name in values}
    missed = [NAMES[name] for name, reached in aimed.items() if not reached]
    verdict = "missed: " + " and ".join(missed) if missed else "met" if aimed else ""
    targets = dict.fromkeys(f"≤ {limit:g}" for limit in row.at_most.values())
    return (row.title, *cells, " / ".join(targets), verdict)
