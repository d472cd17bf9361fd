"""A snapshot held open: what was claimed long ago must not slow what is claimed now."""

from functools import partial
from statistics import median

from bench.cycle import CAPACITY, LIMIT, Passed, drain, fill, plain
from bench.figure import Figure, Scale, Spent
from bench.measurement import Measurement, both, fresh_store
from bench.place import Place
from headgate.core.task import DEFAULT_LANE
from headgate.store.claim.contract import ClaimRequest


def _held(capacity: int | None, place: Place, scale: Scale) -> Figure:
    rates, ratios = [], []
    for _ in range(scale.rounds):
        with fresh_store(place) as (store, url):
            store.lanes.set_capacity(DEFAULT_LANE, capacity)
            fill(store, plain, scale.passing)
            place.tidy(url)
            with place.snapshot(url):
                passed = drain(store, ClaimRequest(store.workers.register("bench"), LIMIT))
        first, last = _part(passed, 0.0, 0.1), _part(passed, 0.9, 1.0)
        rates.append(passed.spent.rate)
        ratios.append(last.rate / first.rate)
    return Figure(median(rates), median(ratios))


def _part(passed: Passed, start: float, end: float) -> Spent:
    """What was settled between these shares of the whole."""
    marks = [(passed.begun, 0), *passed.marks]
    (from_time, from_count), (to_time, to_count) = (
        next(mark for mark in marks if mark[1] >= share * passed.count) for share in (start, end)
    )
    return Spent(to_count - from_count, to_time - from_time)


MEASUREMENTS = [
    Measurement("snapshot held, {passing:,} pass: last tenth ÷ first", partial(_held, None), both(0.6)),
    Measurement(f"snapshot held, lane of {CAPACITY}: last tenth ÷ first", partial(_held, CAPACITY), both(0.6)),
]
