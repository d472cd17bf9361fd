"""`python -m bench.lists`: how long a page of tasks takes, whatever is asked for, among a million live and as many past

Page after page is asked for, as the console does, until there is none or enough were seen.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from bench.__main__ import places
from bench.measurement import EXT
from bench.percentile import percentile
from bench.place import Place
from bench.table import NAMES, grid
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.environment import utc_now
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.reading.lists import Filter
from headgate.store.store import Store, open_store
from lab.crowd import multiply

HEADS = ("p50 / p99 of a page, ms", "SQLite", "PostgreSQL", "target", "")
TARGET = 50.0
FULL, QUICK = 1_000_000, 50_000
ROUNDS, MOST_PAGES = 20, 10
TENANTS, TYPES = 5, 4
RARE = "rare"


@dataclass(frozen=True, slots=True)
class Query:
    title: str
    filter: Filter


def _filled(store: Store, url: str, count: int) -> list[Query]:
    """A store with many tasks, of which the oldest have something that no other has; and what to ask for."""
    for number in range(TYPES):
        store.types.put(TaskType(f"type-{number}"))
    store.types.put(TaskType(RARE, need_manual=True))
    parent = _rare_ones(store)
    last = max(task.id for task in store.tasks.find(limit=1).items)
    worker_id = store.workers.register("bench", lease_seconds=3600.0)
    done = [_new_task(number) for number in range(TYPES * TENANTS)]
    store.tasks.submit_many(done)
    claimed = store.claims.take(ClaimRequest(worker_id, len(done))).executions
    ends = [Raised("no") if number % 10 == 0 else Returned() for number in range(len(done))]
    store.executions.settle([Outcome(execution, end) for execution, end in zip(claimed, ends, strict=True)])
    while store.history.archive():
        pass
    store.tasks.submit_many([_new_task(number) for number in range(TYPES * TENANTS)])
    store.tasks.submit_many([_new_task(number)._replace(delay_seconds=10**6) for number in range(TENANTS)])
    begun = utc_now()
    multiply(url, count, after=last)
    store.tasks.submit_many([_new_task(number)._replace(priority=0) for number in range(50)])
    store.claims.take(ClaimRequest(worker_id, 50))
    return list(_queries(parent, begun + timedelta(seconds=count / (TYPES * TENANTS) / 2)))


def _new_task(number: int) -> NewTask:
    return NewTask(
        f"type-{number % TYPES}", EXT, number % TENANTS, number % 7, lane=f"lane-{number % 3}", mutex=None,
        category=f"category-{number % 2}", correlation_id=None if number % 2 else f"correlation-{number % 5}",
    )  # fmt: skip


def _rare_ones(store: Store) -> int:
    """One of everything that is asked for far back; the id of one that has a child."""
    parent = store.tasks.submit(NewTask("type-0", EXT)).id
    for fields in (
        {"parent_id": parent}, {"mutex": RARE}, {"creator": 999}, {"tenant_id": 999}, {"lane": RARE},
        {"category": RARE}, {"agent_id": RARE}, {"correlation_id": RARE}, {"name": RARE},
    ):  # fmt: skip
        store.tasks.submit(NewTask("type-0", EXT, delay_seconds=10**6)._replace(**fields))
    store.tasks.pause(store.tasks.submit(NewTask("type-0", EXT)).id)
    worker_id = store.workers.register("bench", lease_seconds=3600.0)
    store.tasks.submit(NewTask(RARE, EXT))
    claimed = store.claims.take(ClaimRequest(worker_id, 5, types=frozenset({RARE}))).executions
    store.executions.settle([Outcome(execution, Raised("no")) for execution in claimed])
    return parent


def _queries(parent: int, middle: datetime) -> Iterator[Query]:
    yield Query("everything", Filter())
    yield Query("tenant_id", Filter(tenant_id=1))
    yield Query("tenant_id: one task, far back", Filter(tenant_id=999))
    for state in (State.QUEUED, State.RUNNING, State.PENDING, State.FAILED, State.SUCCEEDED):
        yield Query(f"status {state}", Filter(status=(state,)))
    for state in (State.PAUSED, State.DEAD):
        yield Query(f"status {state}: one task, far back", Filter(status=(state,)))
    yield Query(f"status {State.BLOCKED}: nothing", Filter(status=(State.BLOCKED,)))
    yield Query("type", Filter(type="type-1"))
    yield Query("type: one task, far back", Filter(type=RARE))
    yield Query("lane", Filter(lane="lane-1"))
    yield Query("lane: one task, far back", Filter(lane=RARE))
    yield Query("category", Filter(category="category-1"))
    yield Query("category: one task, far back", Filter(category=RARE))
    yield Query("agent_id: one task, far back", Filter(agent_id=RARE))
    yield Query("creator", Filter(creator=3))
    yield Query("creator: one task, far back", Filter(creator=999))
    yield Query("mutex: one task, far back", Filter(mutex=RARE))
    yield Query("parent_id: one task, far back", Filter(parent_id=parent))
    yield Query("correlation_id", Filter(correlation_id="correlation-2"))
    yield Query("correlation_id: one task, far back", Filter(correlation_id=RARE))
    yield Query("correlation_id: nothing", Filter(correlation_id="none"))
    yield Query("created_before: the older half", Filter(created_before=middle))
    yield Query("created_after: the newer half", Filter(created_after=middle))
    yield Query("created in one second", Filter(created_after=middle, created_before=middle + timedelta(seconds=1)))
    yield Query("q", Filter(q="quality"))
    yield Query("q: nothing", Filter(q="none of them has this"))
    yield Query("errored: nothing live", Filter(errored=True))
    yield Query("tenant_id and status", Filter(tenant_id=2, status=(State.FAILED,)))
    yield Query("type and creator", Filter(type="type-1", creator=5))
    yield Query("lane and q: nothing", Filter(lane="lane-2", q="none of them has this"))


def _times(store: Store, wanted: Filter) -> list[float]:
    """Seconds of each page."""
    times = []
    for _ in range(ROUNDS):
        cursor = None
        for _ in range(MOST_PAGES):
            begun = time.perf_counter()
            page = store.tasks.find(wanted, cursor=cursor)
            times.append(time.perf_counter() - begun)
            if (cursor := page.next_cursor) is None:
                break
    return times


def _measured(place: Place, count: int) -> dict[str, tuple[float, float]]:
    with place.fresh() as url, open_store(url) as store:
        store.migrate()
        found = {}
        for query in _filled(store, url, count):
            times = _times(store, query.filter)
            found[query.title] = 1000 * percentile(times, 0.5), 1000 * percentile(times, 0.99)
            print(NAMES[place.dialect], query.title, *(f"{value:.1f}" for value in found[query.title]), file=sys.stderr)
    return found


def rows(found: dict[str, dict[str, tuple[float, float]]]) -> Iterator[tuple[str, ...]]:
    for title in next(iter(found.values())):
        values = {name: measured[title] for name, measured in found.items()}
        cells = [f"{values[name][0]:.1f} / {values[name][1]:.1f}" if name in values else "" for name in NAMES]
        met = all(p99 <= TARGET for _, p99 in values.values())
        yield (title, *cells, f"≤ {TARGET:g}", "met" if met else "missed")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.lists", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="among 50,000: does it run, not how fast")
    parser.add_argument("--store", choices=list(NAMES), help="only this store")
    options = parser.parse_args()
    with places([options.store] if options.store else list(NAMES)) as found:
        measured = {place.dialect: _measured(place, QUICK if options.quick else FULL) for place in found}
        print(grid([HEADS, *rows(measured)]))


if __name__ == "__main__":
    main()
