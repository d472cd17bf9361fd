"""Claim and settle, over and over: what a busy worker costs the store."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench import processes, raw
from bench.figure import Figure, Scale, Spent, Work, against
from bench.measurement import EXT, TYPE, Measurement, both, fresh_store
from bench.place import Place
from bench.raw import BATCH
from headgate.core.machine import Returned
from headgate.core.task import DEFAULT_LANE, NewTask
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store

LIMIT = 200  # tasks to a claim
CAPACITY = 50
MUTEXES = 1000
STREAMS = 200
PATIENCE = 1.5  # a claimer that found nothing looks again within a second
LONGEST = 120.0

Make = Callable[[int], NewTask]


@dataclass(slots=True)
class Passed:
    """When how many tasks had been settled."""

    begun: float
    marks: list[tuple[float, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.marks[-1][1] if self.marks else 0

    @property
    def ended(self) -> float:
        return self.marks[-1][0] if self.marks else self.begun

    @property
    def spent(self) -> Spent:
        return Spent(self.count, self.ended - self.begun)


def plain(_: int) -> NewTask:
    return NewTask(TYPE, ext=EXT)


def fill(store: Store, make: Make, count: int) -> None:
    for start in range(0, count, BATCH):
        store.tasks.submit_many([make(number) for number in range(start, min(start + BATCH, count))])


def drain(store: Store, request: ClaimRequest, patience: float = 0.0) -> Passed:
    """Run whatever can be claimed, until nothing was to be had for `patience` seconds."""
    passed = Passed(time.perf_counter())
    held: list[Outcome] = []
    while True:
        _, claimed = store.executions.settle_and_claim(held, request)
        now = time.perf_counter()
        if held:
            passed.marks.append((now, passed.count + len(held)))
        held = [Outcome(execution, Returned("null")) for execution in claimed.executions]
        if not held:
            if now - passed.ended >= patience and not claimed.busy:
                return passed
            time.sleep(0.002)
        if now - passed.begun > LONGEST:
            raise TimeoutError(f"{passed.count} tasks passed in {LONGEST:g} s")


def pass_through(store: Store, request: ClaimRequest, make: Make, count: int) -> Spent:
    """Submit tasks, then run them: the seconds of running alone."""
    fill(store, make, count)
    return _all_of(count, drain(store, request).spent)


def _all_of(count: int, spent: Spent) -> Spent:
    if spent.count != count:
        raise RuntimeError(f"{spent.count} of {count} tasks were settled")
    return spent


@contextmanager
def worker(place: Place, scale: Scale, make: Make = plain, capacity: int | None = None) -> Iterator[Work]:
    """One thread that passes a turn's share of fresh tasks."""
    with fresh_store(place) as (store, _):
        store.lanes.set_capacity(DEFAULT_LANE, capacity)
        request = ClaimRequest(store.workers.register("bench"), LIMIT)
        pass_through(store, request, make, LIMIT)  # connect and prepare before it counts
        yield lambda: pass_through(store, request, make, scale.tasks // scale.turns)


def _one_thread(place: Place, scale: Scale) -> Figure:
    with raw.single_commits(place, scale) as base, worker(place, scale) as ours:
        return against(scale, base, ours)


def _two_threads(place: Place, scale: Scale) -> Figure:
    with raw.single_commits(place, scale) as base, fresh_store(place) as (store, _):
        requests = [ClaimRequest(store.workers.register("bench"), LIMIT) for _ in range(2)]

        def ours() -> Spent:
            fill(store, plain, scale.tasks)
            with ThreadPoolExecutor(2) as pool:
                runs = list(pool.map(lambda request: drain(store, request, PATIENCE), requests))
            return _all_of(scale.tasks, _together(runs))

        return against(scale, base, ours, turns=1)


def _two_processes(place: Place, scale: Scale) -> Figure:
    with raw.single_commits(place, scale) as base, fresh_store(place) as (store, url):

        def ours() -> Spent:
            fill(store, plain, scale.tasks)
            return _all_of(scale.tasks, _together(processes.together(2, drain_alone, url)))

        return against(scale, base, ours, turns=1)


def drain_alone(store: Store) -> Passed:
    """What each of several processes does."""
    return drain(store, ClaimRequest(store.workers.register("bench"), LIMIT), PATIENCE)


def _together(runs: list[Passed]) -> Spent:
    ended, begun = max(run.ended for run in runs), min(run.begun for run in runs)
    return Spent(sum(run.count for run in runs), ended - begun)


def _limited_lane(place: Place, scale: Scale) -> Figure:
    with worker(place, scale) as base, worker(place, scale, capacity=CAPACITY) as ours:
        return against(scale, base, ours)


def _mutexes(place: Place, scale: Scale) -> Figure:
    def make(number: int) -> NewTask:
        return NewTask(TYPE, ext=EXT, mutex=f"key {number % MUTEXES}")

    with worker(place, scale) as base, worker(place, scale, make) as ours:
        return against(scale, base, ours)


def _streams(place: Place, scale: Scale) -> Figure:
    def make(number: int) -> NewTask:
        return NewTask(TYPE, ext=EXT, tenant_id=number % STREAMS)

    with worker(place, scale) as base, worker(place, scale, make) as ours:
        return against(scale, base, ours)


MEASUREMENTS = [
    Measurement("claim+settle, 1 process ÷ raw one row", _one_thread, {"sqlite": 4.0, "postgres": 6.5}),
    Measurement("claim+settle, 2 threads ÷ raw one row", _two_threads),
    Measurement("claim+settle, 2 processes ÷ raw one row", _two_processes),
    Measurement(f"lane of capacity {CAPACITY} ÷ plain", _limited_lane, both(0.4)),
    Measurement(f"{MUTEXES:,} mutex keys ÷ plain", _mutexes, both(0.4)),
    Measurement(f"{STREAMS} streams ÷ plain", _streams, both(0.5)),
]
