"""Several processes on one database: run together, and compete for a SQLite file."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import TypeVar

from bench.figure import Figure, Scale
from bench.measurement import EXT, TYPE, Measurement, fresh_store
from bench.place import Place
from headgate.core.machine import Returned
from headgate.core.task import NewTask
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store

T = TypeVar("T")

COMPETITORS = 4
BATCH = 20  # tasks to a call
LONGEST = 180.0


def together(count: int, work: Callable[[Store], T], url: str) -> list[T]:
    """What `work` gives in each of `count` new processes that begin at the same moment."""
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(count), spawn.Queue()
    children = [spawn.Process(target=_child, args=(work, url, start, results), daemon=True) for _ in range(count)]
    for child in children:
        child.start()
    try:
        answers: list[T | BaseException] = [results.get(timeout=LONGEST) for _ in children]
    finally:
        for child in children:
            child.join(5)
            child.kill()
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _child(work: Callable[[Store], T], url: str, start: Barrier, results: "Queue[T | BaseException]") -> None:
    try:
        with open_store(url) as store:
            store.types.by_code()  # connect before the others are kept waiting
            start.wait(30)
            results.put(work(store))
    except BaseException as error:
        results.put(RuntimeError(f"{type(error).__name__}: {error}"))


@dataclass(frozen=True, slots=True)
class Share:
    """What one competitor got done, and what it was refused."""

    settled: int
    seconds: float
    errors: list[str]


def compete(seconds: float, store: Store) -> Share:
    """Submit some, claim some, settle them, as often as the others let you."""
    request = ClaimRequest(store.workers.register("bench"), BATCH)
    settled, held, errors = 0, list[Outcome](), list[str]()
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        try:
            store.tasks.submit_many([NewTask(TYPE, ext=EXT)] * BATCH)
            _, claimed = store.executions.settle_and_claim(held, request)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            continue
        settled += len(held)
        held = [Outcome(execution, Returned("null")) for execution in claimed.executions]
    return Share(settled, time.perf_counter() - begun, errors)


def _contest(place: Place, scale: Scale) -> Figure:
    rates, ratios, errors = [], [], list[str]()
    for _ in range(scale.rounds):
        with fresh_store(place) as (_, url):
            shares = together(COMPETITORS, partial(compete, scale.contest), url)
        settled = [share.settled for share in shares]
        rates.append(sum(settled) / max(share.seconds for share in shares))
        ratios.append(min(settled) / max(*settled, 1))
        errors += [error for share in shares for error in share.errors]
    trouble = f"{len(errors)} errors reached a caller, e.g. {errors[0]}" if errors else ""
    return Figure(median(rates), median(ratios), trouble)


MEASUREMENTS = [
    Measurement(f"{COMPETITORS} processes: slowest ÷ fastest", _contest, {"sqlite": 0.5}, ("sqlite",)),
]
