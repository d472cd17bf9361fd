"""`python -m bench.history`: finished tasks leave for history, and history leaves, while claims go on beside it."""

import argparse
import asyncio
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import NamedTuple

from bench.__main__ import places
from bench.measurement import EXT, TYPE, fresh_store
from bench.percentile import percentile
from bench.place import Place, connection
from bench.table import NAMES, grid
from headgate.core.machine import Returned
from headgate.core.task import NewTask
from headgate.duties import Archive
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from headgate.threads import inline

CLAIM_SECONDS = 0.01  # a claim and what it settles, so often
CLAIM_SIZE = 5  # tasks to a claim
DAY = 86_400
OLDEST, SPAN = 40 * DAY, 30 * DAY  # seconds: how long ago the first one ended, and how much later the last


# The tasks

_TASK = (
    "tenant_id, type, creator, start_time, status, category, ext, result, exec_time, create_date, update_date, lane, "
    "priority, attempt, started_at, stream_id"
)
_EVENTS = (
    "INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor, exec_id)"
    " SELECT t.id, e.tenant_id, e.seq, t.finished_at, e.kind, e.before, e.after, e.actor, e.exec_id"
    "   FROM headgate_task t CROSS JOIN headgate_task_event e WHERE e.task_id = {task_id} AND t.id > {task_id}"
)
_SQLITE = (
    f"INSERT INTO headgate_task ({_TASK}, finished_at) WITH RECURSIVE n(i) AS (SELECT 1"
    " UNION ALL SELECT i + 1 FROM n WHERE"
    f" i < {{count}}) SELECT {_TASK},"
    f" finished_at - {OLDEST} * 1000000 + CAST({SPAN} * 1e6 / {{count}} * n.i AS integer)"
    " FROM n CROSS JOIN headgate_task WHERE headgate_task.id = {task_id}",
    _EVENTS,
)
_POSTGRES = (
    f"INSERT INTO headgate_task ({_TASK}, finished_at) SELECT {_TASK}, finished_at - make_interval(secs => {OLDEST})"
    f" + make_interval(secs => {SPAN}::float8 / {{count}} * i)"
    f" FROM generate_series(1, {{count}}) AS i CROSS JOIN headgate_task"
    " WHERE headgate_task.id = {task_id}",
    _EVENTS,
)


def fill(place: Place, url: str, count: int) -> None:
    """Put finished tasks there, each with its audit rows, as if they had ended in the course of weeks."""
    with open_store(url) as store:
        task_id = store.tasks.submit(NewTask(TYPE, ext=EXT)).id
        [execution] = store.claims.take(ClaimRequest(store.workers.register("bench"), 1)).executions
        store.executions.settle([Outcome(execution, Returned())])
    texts = [text.format(task_id=task_id, count=count) for text in (_SQLITE if _on_file(place) else _POSTGRES)]
    with connection(place, url) as connected:
        for text in [*([] if _on_file(place) else _days()), *texts]:
            connected.execute(text)
    place.tidy(url)


def _on_file(place: Place) -> bool:
    return place.dialect == "sqlite"


def _days() -> list[str]:
    """A partition for each day of the past weeks, as the duty would have made them."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=number) for number in range(1, OLDEST // DAY + 2)]
    return [
        f"CREATE TABLE headgate_task_event_{day:%Y%m%d} PARTITION OF headgate_task_event"
        f" FOR VALUES FROM ('{day.isoformat()}') TO ('{(day + timedelta(days=1)).isoformat()}')"
        for day in days
    ]


# The duty, in a process of its own


class Batches(NamedTuple):
    """What the duty did, turn by turn."""

    rows: list[int]
    milliseconds: list[float]
    seconds: float


def _clear(url: str, days: float, clock: datetime, sender: Connection) -> None:
    """Turn until nothing is left to be done."""
    rows, milliseconds = list[int](), list[float]()
    settings = Settings(url=url, retention_succeeded_days=days, retention_failed_days=days)
    with open_store(url) as store:
        duty = Archive(store, settings, inline)
        duty.clock = lambda: clock
        begun = time.perf_counter()
        while True:
            at = time.perf_counter()
            done = asyncio.run(duty.turn())
            if not done:
                break
            milliseconds.append(1000 * (time.perf_counter() - at))
            rows.append(done)
            time.sleep(duty.pause_after_work)
        sender.send(Batches(rows, milliseconds, time.perf_counter() - begun))


@contextmanager
def clearing(url: str, days: float, clock: datetime) -> Iterator[Connection]:
    """The duty, beside us, that tells what it did when it is done."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_clear, args=(url, days, clock, sender), daemon=True)
    process.start()
    sender.close()
    try:
        yield receiver
    finally:
        process.kill()
        process.join()


# The load beside it


def claims(store: Store, request: ClaimRequest, keep_going: Callable[[], bool]) -> list[float]:
    """Milliseconds of each claim, made at a steady pace with the settling of the one before it."""
    taken, held = list[float](), list[Outcome]()
    due = time.perf_counter()
    while keep_going():
        store.tasks.submit_many([NewTask(TYPE, ext=EXT)] * CLAIM_SIZE)
        begun = time.perf_counter()
        _, claimed = store.executions.settle_and_claim(held, request)
        taken.append(1000 * (time.perf_counter() - begun))
        held = [Outcome(execution, Returned()) for execution in claimed.executions]
        due = max(due + CLAIM_SECONDS, time.perf_counter() - CLAIM_SECONDS)
        time.sleep(max(due - time.perf_counter(), 0.0))
    store.executions.settle(held)
    return taken


def beside(store: Store, request: ClaimRequest, url: str, days: float, clock: datetime) -> tuple[Batches, list[float]]:
    """What the duty did, and how long claims took meanwhile."""
    with clearing(url, days, clock) as receiver:
        taken = claims(store, request, lambda: not receiver.poll())
        return receiver.recv(), taken


def measure(place: Place, rows: int, seconds: float) -> list[float]:
    """The values of `ROWS`, in their order."""
    with fresh_store(place) as (store, url):
        fill(place, url, rows)
        request = ClaimRequest(store.workers.register("bench", lease_seconds=3600.0), CLAIM_SIZE)
        end = time.monotonic() + seconds
        usual = percentile(claims(store, request, lambda: time.monotonic() < end), 0.99)
        now = datetime.now(UTC)
        values = [usual]
        # First everything moves and nothing is old enough; a day later all of it is.
        for days, clock in ((36_000.0, now), (1.0, now + timedelta(days=1))):
            batches, taken = beside(store, request, url, days, clock)
            slowest, p99 = percentile(batches.milliseconds, 0.99), percentile(taken, 0.99)
            values += [sum(batches.rows) / batches.seconds, max(batches.rows), slowest, p99, p99 / usual]
        return values


class Line(NamedTuple):
    title: str
    digits: int = 0
    at_most: float | None = None


LINES = (
    Line("claim beside nothing, p99, ms", 1),
    *(
        Line(f"{what}{title}", digits, at_most)
        for what in ("archive: ", "purge: ")
        for title, digits, at_most in (
            ("rows/s", 0, None),
            ("most rows to a turn, two batches", 0, 2000.0),
            ("batch, p99, ms", 1, 200.0),
            ("claim meanwhile, p99, ms", 1, None),
            ("claim meanwhile ÷ beside nothing", 2, 2.0),
        )
    ),
)


def render(found: dict[str, list[float]], rows: int) -> str:
    lines: list[Sequence[str]] = [(f"history, {rows:,} tasks", *NAMES.values(), "target", "")]
    for number, line in enumerate(LINES):
        values = {name: found[name][number] for name in NAMES if name in found}
        missed = [NAMES[name] for name, value in values.items() if line.at_most is not None and value > line.at_most]
        verdict = "" if line.at_most is None else "missed: " + " and ".join(missed) if missed else "met"
        cells = [f"{values[name]:,.{line.digits}f}" if name in values else "" for name in NAMES]
        lines.append((line.title, *cells, "" if line.at_most is None else f"≤ {line.at_most:g}", verdict))
    return grid(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows: does it run, not how fast")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    rows, seconds = (50_000, 3.0) if options.quick else (1_000_000, 20.0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up then, too
    with places([options.store] if options.store else list(NAMES)) as there:
        found = {}
        for place in there:
            begun = time.perf_counter()
            found[place.dialect] = measure(place, rows, seconds)
            print(f"{NAMES[place.dialect]}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        print(render(found, rows))


if __name__ == "__main__":
    main()
