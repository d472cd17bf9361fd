"""`python -m bench`: measure both stores beside what their databases can do at all, then everything from end to end."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import cycle, depth, end, processes, raw, snapshot, submit
from bench.figure import FULL, QUICK, Figure, Scale
from bench.measurement import Measurement
from bench.place import Place, PostgresPlace, SqlitePlace
from bench.table import NAMES, render
from lab.postgres import Postgres

MEASUREMENTS = [
    measurement for module in (raw, submit, cycle, depth, snapshot, processes) for measurement in module.MEASUREMENTS
]
ON_DISK = "/var/tmp"  # where /tmp may be memory, this is not


@contextmanager
def places(dialects: list[str]) -> Iterator[list[Place]]:
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-", dir=ON_DISK))
    folder.chmod(0o755)  # PostgreSQL runs as somebody else when we are root
    server = Postgres(folder / "postgres", durable=True)
    try:
        found: list[Place] = [SqlitePlace(folder)] if "sqlite" in dialects else []
        if "postgres" in dialects:
            found.append(PostgresPlace(server.start().url))
        yield found
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(wanted: list[Measurement], found: list[Place], scale: Scale) -> list[tuple[Measurement, dict[str, Figure]]]:
    results = []
    for measurement in wanted:
        figures = {}
        for place in found:
            if place.dialect in measurement.dialects:
                begun = time.perf_counter()
                figures[place.dialect] = measurement.run(place, scale)
                took = time.perf_counter() - begun
                print(f"{measurement.title(scale)}, {NAMES[place.dialect]}: {took:.0f} s", file=sys.stderr, flush=True)
        results.append((measurement, figures))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round of each: does it run, not how fast")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has TEXT in its name")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    wanted = [measurement for measurement in MEASUREMENTS if options.only in measurement.title(scale)]
    observed = [observation for observation in end.OBSERVATIONS if options.only in observation.title]
    if not wanted and not observed:
        titles = [measurement.title(scale) for measurement in MEASUREMENTS]
        parser.error("nothing is called that: " + "; ".join(titles + [each.title for each in end.OBSERVATIONS]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up then, too
    with places([options.store] if options.store else list(NAMES)) as found:
        if wanted:
            print(render(measure(wanted, found, scale), scale), flush=True)
        if observed:
            print("\n" * bool(wanted) + end.observe(observed, found, scale))


if __name__ == "__main__":
    main()
