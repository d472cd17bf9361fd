"""`python -m bench.periodic`: a thousand schedules that fire every second, on one process; how late their tasks are."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from bench.__main__ import places
from bench.measurement import EXT, TYPE
from bench.percentile import percentile
from bench.place import Place
from bench.table import NAMES, grid
from headgate.core.schedule import LogMode, NewSchedule, ScheduleStatus
from headgate.core.task import NewTask, TaskType
from headgate.store.store import Store, open_store
from lab.server import die_with_parent

SCHEDULES = 1000
SECONDS, QUICK_SECONDS = 15, 3
LATEST_MS = 1000.0  # p99
LOOK_SECONDS = 0.01
PAGE = 2000
PATIENCE = 60.0
HEADS = ("1,000 schedules, each every second", "SQLite", "PostgreSQL", "target", "")
HEADGATE = str(Path(sys.executable).with_name("headgate"))


@contextmanager
def duties(url: str) -> Iterator[None]:
    """`headgate duties`, one process."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [HEADGATE, "duties"], env=os.environ | {"HEADGATE_URL": url}, stderr=errors,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )  # fmt: skip
        try:
            yield
            if process.poll() is not None:
                errors.seek(0)
                raise RuntimeError(errors.read().decode()[-2000:])
        finally:
            process.kill()
            process.wait()


def delays(place: Place, log: LogMode, seconds: int) -> list[float]:
    """Milliseconds from each tick until its task can be seen by others, over so many seconds."""
    with place.fresh() as url, open_store(url) as store:
        store.migrate()
        store.types.put(TaskType(TYPE))
        for _ in range(SCHEDULES):
            new = NewSchedule(NewTask(TYPE, EXT), "* * * * * *", log=log)
            store.schedules.add(new, status=ScheduleStatus.ONLINE)
        with duties(url):
            return _watched(store, seconds)


def _watched(store: Store, seconds: int) -> list[float]:
    """From the first second that is fired in time on: how long it takes to start is no delay of a tick."""
    found: dict[str, list[float]] = {}
    cursor, end = store.events.last(), time.monotonic() + PATIENCE
    while len(found) < seconds + 2 or len(found[max(found)]) < SCHEDULES:
        if time.monotonic() > end:
            raise RuntimeError(f"only {sum(map(len, found.values()))} ticks fired in {PATIENCE:g} s")
        happenings, cursor = store.events.after(cursor, PAGE)
        now = time.time()
        for happening in happenings:
            tick = (happening.correlation_id or "").partition(":")[2].partition(":")[2]
            if happening.kind == "submitted" and (tick in found or now - _seconds(tick) < 1.0):
                found.setdefault(tick, []).append(1000 * (now - _seconds(tick)))
        if len(happenings) < PAGE:
            time.sleep(LOOK_SECONDS)
    whole = sorted(found)[1:][:seconds]
    missing = [tick for tick in whole if len(found[tick]) != SCHEDULES]
    if missing:
        raise RuntimeError(f"{missing[0]} fired {len(found[missing[0]])} times, not {SCHEDULES}")
    return [delay for tick in whole for delay in found[tick]]


def _seconds(tick: str) -> float:
    return datetime.fromisoformat(tick).timestamp()


def rows(found: list[Place], seconds: int) -> Iterator[tuple[str, ...]]:
    for log in (LogMode.TRANS, LogMode.NONE):
        taken = {place.dialect: delays(place, log, seconds) for place in found}
        for share in (0.5, 0.99):
            values = {name: percentile(delay, share) for name, delay in taken.items()}
            cells = [f"{values[name]:,.0f}" if name in values else "" for name in NAMES]
            met = "met" if max(values.values()) <= LATEST_MS else "missed"
            target = (f"≤ {LATEST_MS:,.0f}", met) if share == 0.99 else ("", "")
            yield (f"{log.value}, tick to its task, p{100 * share:.0f}, ms", *cells, *target)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.periodic", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds of each: does it run, not how fast")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    with places([options.store] if options.store else list(NAMES)) as found:
        print(grid([HEADS, *rows(found, QUICK_SECONDS if options.quick else SECONDS)]))


if __name__ == "__main__":
    main()
