"""`python -m bench.peers`: measure Headgate beside its peers in one run, and print one table."""

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.peers.comparison import (
    BROKER,
    CELERY,
    COMMIT,
    DRAMATIQ,
    HUEY,
    LATENCY,
    OURSELVES,
    OUTAGE,
    PAIRS,
    PEERS,
    PGQUEUER,
    POSTGRES,
    PROCRASTINATE,
    PUBLISH,
    SQLITE,
    TASKIQ,
    Readings,
    render,
    render_delivery,
)
from bench.peers.raw_steps import commits, publishes
from bench.peers.starts import STARTS
from bench.place import PostgresPlace, SqlitePlace, connect_postgres
from bench.subject import ROOT, Subject
from headgate.settings import Settings
from lab.postgres import Postgres
from lab.rabbitmq import RabbitMQ

THEIR_PYTHON = ROOT / ".venv-peers/bin/python"
ON_DISK = "/var/tmp"  # where /tmp may be memory, this is not


class Fresh(Protocol):
    def fresh(self) -> Any:
        """A context with the URL of something empty, gone afterwards."""


class RabbitPlace:
    """A broker; the driver empties its queue."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextmanager
    def fresh(self) -> Iterator[str]:
        yield self._url


class BothPlace:
    """A fresh database, and a broker; the URLs of both in one text."""

    def __init__(self, database: PostgresPlace, broker_url: str) -> None:
        self._database = database
        self._broker_url = broker_url

    @contextmanager
    def fresh(self) -> Iterator[str]:
        with self._database.fresh() as url:
            yield f"{url} {self._broker_url}"


@dataclass(frozen=True, slots=True)
class Entrant:
    """Somebody measured: where, and with how many tasks, so that a drain takes some seconds."""

    subject: Subject
    place: Fresh
    tasks: int


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of everything one run does."""

    rounds: int = 3
    seconds: float = 1.0
    probes: int = 70  # in each round
    share: float = 1.0  # of the tasks


FULL = Effort()
QUICK = Effort(1, 0.3, 20, 0.1)


@contextmanager
def entrants() -> Iterator[tuple[dict[str, Entrant], RabbitMQ]]:
    """Everybody, and the broker, on servers of our own that are gone afterwards."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="headgate-bench-", dir=ON_DISK))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # the servers run as somebody else when we are root
        server = PostgresPlace(stack.enter_context(Postgres(folder / "postgres", durable=True)).url)
        rabbit = stack.enter_context(RabbitMQ(folder / "rabbitmq"))
        broker, both = RabbitPlace(rabbit.url), BothPlace(server, rabbit.url)
        file = SqlitePlace(folder)
        ours, theirs = Path(sys.executable), THEIR_PYTHON

        def subject(name: str, python: Path, *, beside: bool = False) -> Subject:
            return Subject(name, f"bench.peers.{name.lower()}", python, folder, beside)

        found = {
            POSTGRES: Entrant(subject("Headgate", ours), server, 60_000),
            PGQUEUER: Entrant(subject(PGQUEUER, theirs), server, 40_000),
            PROCRASTINATE: Entrant(subject(PROCRASTINATE, theirs), server, 1_500),
            BROKER: Entrant(subject("Broker", ours, beside=True), both, 24_000),
            CELERY: Entrant(subject(CELERY, theirs), broker, 12_000),
            DRAMATIQ: Entrant(subject(DRAMATIQ, theirs), broker, 12_000),
            TASKIQ: Entrant(subject(TASKIQ, theirs), broker, 8_000),
            SQLITE: Entrant(subject("Headgate", ours), file, 60_000),
            HUEY: Entrant(subject(HUEY, theirs), file, 12_000),
        }
        yield found, rabbit


def measure(whom: str, entrant: Entrant, effort: Effort, readings: Readings) -> None:
    """One round of everything for one of them."""
    subject, count = entrant.subject, int(entrant.tasks * effort.share)

    def read(name: str, *values: float | None) -> None:
        readings.setdefault((name, whom), []).extend(value for value in values if value is not None)

    for processes in (1, 2):
        with entrant.place.fresh() as url:
            read(f"drain {processes}", subject.drain(url, count, processes))
    with entrant.place.fresh() as url:
        subject.ask("prepare", url)
        read("submit", subject.ask("submit", url, effort.seconds))
        read("bulk", subject.ask("bulk", url, effort.seconds))
    with entrant.place.fresh() as url:
        read(LATENCY, *(1000 * seconds for seconds in subject.latencies(url, effort.probes)))
    if whom == BROKER:
        with entrant.place.fresh() as url:
            database, broker_url = url.split()
            read(COMMIT, *(1000 * seconds for seconds in commits(database, effort.probes)))
            read(PUBLISH, *(1000 * seconds for seconds in publishes(broker_url, effort.probes)))


def measure_outage(entrant: Entrant, broker: RabbitMQ, effort: Effort, readings: Readings) -> None:
    """Kill the broker while tasks are submitted one after the other: one of them is on its way then."""
    subject, file = entrant.subject, entrant.subject.folder / "outage"
    starts = {STARTS: str(file)}
    with entrant.place.fresh() as url, ThreadPoolExecutor(1) as aside:
        subject.ask("prepare", url)
        with subject.workers(url, 1, **starts):
            subject.ask("latency", url, 1, **starts)
            before = len(file.read_text().splitlines())
            probing = aside.submit(subject.ask, "delays", url, effort.probes, **starts)
            while not probing.done() and len(file.read_text().splitlines()) < before + effort.probes // 3:
                time.sleep(0.01)
            broker.stop("immediate")
            delays = probing.result()
    readings[OUTAGE, BROKER] = [1000 * seconds for seconds in delays]


def caption(found: dict[str, Entrant], wanted: set[str], effort: Effort) -> str:
    """What was measured, in which versions, on what."""
    with found[POSTGRES].place.fresh() as url, connect_postgres(url) as connection:
        version = connection.execute("SHOW server_version").fetchone()
    lines = [
        f"Medians of {effort.rounds}, in one run; default durability; tasks that do nothing.",
        f"Python {platform.python_version()}, PostgreSQL {version[0] if version else '?'}, {os.cpu_count()} cores.",
    ]
    lines += [found[whom].subject.ask("describe") for whom in found if whom in wanted - {SQLITE}]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round of each: does it run, not how fast")
    parser.add_argument("--only", metavar="PEER", choices=PEERS, action="append", help="only this one; repeatable")
    options = parser.parse_args()
    effort, readings = QUICK if options.quick else FULL, Readings()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up then, too
    with entrants() as (found, broker):
        wanted = {whom for pair in PAIRS if not options.only or pair[1] in options.only for whom in pair}
        wanted |= {POSTGRES} if BROKER in wanted else set()  # what a broker costs is told beside it
        for number in range(effort.rounds):
            for whom in [whom for whom in found if whom in wanted]:
                begun = time.perf_counter()
                measure(whom, found[whom], effort, readings)
                took = time.perf_counter() - begun
                print(f"round {number + 1}, {OURSELVES.get(whom, whom)}: {took:.0f} s", file=sys.stderr, flush=True)
        tables = [render(readings)]
        if BROKER in wanted:
            measure_outage(found[BROKER], broker, effort, readings)
            tables.append(render_delivery(readings, Settings().poll_seconds))
        print(*tables, caption(found, wanted, effort), sep="\n\n")


if __name__ == "__main__":
    main()
