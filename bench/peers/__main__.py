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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.peers.comparison import CELERY, HUEY, LATENCY, PGQUEUER, PROCRASTINATE, Readings, render
from bench.place import PostgresPlace, SqlitePlace, connect_postgres
from bench.subject import ROOT, Subject
from lab.postgres import Postgres
from lab.rabbitmq import RabbitMQ

PEERS = ROOT / ".venv-peers/bin/python"
ON_DISK = "/var/tmp"  # where /tmp may be memory, this is not
OURSELVES = ("postgres", "sqlite")


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
def entrants() -> Iterator[dict[str, Entrant]]:
    """Everybody, on servers of our own that are gone afterwards."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="headgate-bench-", dir=ON_DISK))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # the servers run as somebody else when we are root
        server = PostgresPlace(stack.enter_context(Postgres(folder / "postgres", durable=True)).url)
        broker = RabbitPlace(stack.enter_context(RabbitMQ(folder / "rabbitmq")).url)
        file = SqlitePlace(folder)
        ours, theirs = Path(sys.executable), PEERS

        def subject(name: str, python: Path) -> Subject:
            return Subject(name, f"bench.peers.{name.lower()}", python, folder)

        yield {
            "postgres": Entrant(subject("Headgate", ours), server, 60_000),
            PGQUEUER: Entrant(subject(PGQUEUER, theirs), server, 40_000),
            PROCRASTINATE: Entrant(subject(PROCRASTINATE, theirs), server, 1_500),
            CELERY: Entrant(subject(CELERY, theirs), broker, 12_000),
            "sqlite": Entrant(subject("Headgate", ours), file, 60_000),
            HUEY: Entrant(subject(HUEY, theirs), file, 12_000),
        }


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


def caption(found: dict[str, Entrant], effort: Effort) -> str:
    """What was measured, in which versions, on what."""
    with found["postgres"].place.fresh() as url, connect_postgres(url) as connection:
        version = connection.execute("SHOW server_version").fetchone()
    lines = [
        f"Medians of {effort.rounds}, in one run; default durability; tasks that do nothing.",
        f"Python {platform.python_version()}, PostgreSQL {version[0] if version else '?'}, {os.cpu_count()} cores.",
    ]
    lines += [entrant.subject.ask("describe") for whom, entrant in found.items() if whom != OURSELVES[1]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round of each: does it run, not how fast")
    parser.add_argument("--only", metavar="PEER", choices=[PGQUEUER, PROCRASTINATE, CELERY, HUEY], help="only this one")
    options = parser.parse_args()
    effort, readings = QUICK if options.quick else FULL, Readings()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up then, too
    with entrants() as found:
        wanted = [whom for whom in found if options.only in (None, whom) or whom in OURSELVES]
        for number in range(effort.rounds):
            for whom in wanted:
                begun = time.perf_counter()
                measure(whom, found[whom], effort, readings)
                took = time.perf_counter() - begun
                name = f"Headgate on {whom}" if whom in OURSELVES else whom
                print(f"round {number + 1}, {name}: {took:.0f} s", file=sys.stderr, flush=True)
        print(render(readings), caption(found, effort), sep="\n\n")


if __name__ == "__main__":
    main()
