"""Submitting: one by one, by 32 callers at once, in bulk."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bench import raw
from bench.figure import Figure, Scale, Spent, against
from bench.measurement import EXT, TYPE, Measurement, both, fresh_store
from bench.place import Place
from bench.raw import BATCH, timed
from headgate.core.task import NewTask
from headgate.store.store import Store

CALLERS = 32


def _submit(store: Store) -> int:
    store.tasks.submit(NewTask(TYPE, ext=EXT))
    return 1


def _submit_batch(store: Store) -> int:
    return len(store.tasks.submit_many([NewTask(TYPE, ext=EXT) for _ in range(BATCH)]))


def at_once(callers: int, seconds: float, step: Callable[[], int]) -> Spent:
    """The steps that many threads take together."""
    together = threading.Barrier(callers + 1)

    def call() -> int:
        together.wait()
        return timed(seconds, step).count

    with ThreadPoolExecutor(callers) as pool:
        futures = [pool.submit(call) for _ in range(callers)]
        together.wait()
        begun = time.perf_counter()
        done = sum(future.result() for future in futures)
        return Spent(done, time.perf_counter() - begun)


def _one_by_one(place: Place, scale: Scale) -> Figure:
    with raw.single_commits(place, scale) as base, fresh_store(place) as (store, _):
        return against(scale, base, lambda: timed(scale.seconds / scale.turns, lambda: _submit(store)))


def _by_many(place: Place, scale: Scale) -> Figure:
    seconds = scale.seconds / scale.turns
    with fresh_store(place) as (store, _):
        return against(
            scale,
            lambda: timed(seconds, lambda: _submit(store)),
            lambda: at_once(CALLERS, seconds, lambda: _submit(store)),
        )


def _in_bulk(place: Place, scale: Scale) -> Figure:
    with raw.batches(place, scale) as base, fresh_store(place) as (store, _):
        return against(scale, base, lambda: timed(scale.seconds / scale.turns, lambda: _submit_batch(store)))


MEASUREMENTS = [
    Measurement("submit one by one ÷ raw one row", _one_by_one, both(0.75)),
    Measurement(f"submit by {CALLERS} threads ÷ one by one", _by_many, both(4.0)),
    Measurement("submit in bulk of 1,000 ÷ raw 1,000 rows", _in_bulk, both(0.7)),
]
