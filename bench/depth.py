"""Depth: what waits, but cannot start or is not asked for, must cost those that can nothing."""

from collections.abc import Callable
from functools import partial

from bench.cycle import LIMIT, pass_through, plain, worker
from bench.figure import Figure, Scale, against
from bench.measurement import EXT, TYPE, Measurement, both, fresh_store
from bench.place import Place
from headgate.core.limits import Rate
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import Store

OTHER = "other"
TENANT = 7
A_DAY = 24 * 3600.0

Prepare = Callable[[Store], int]  # gives the task that is to be there many times


def _waiting(store: Store, new: NewTask) -> int:
    return store.tasks.submit(new).id


def _behind(store: Store, new: NewTask) -> int:
    """The second of two such tasks, the first of which is running and in its way."""
    first, second = (made.id for made in store.tasks.submit_many([new, new]))
    started = [
        execution.id for execution in store.claims.take(ClaimRequest(store.workers.register(OTHER), LIMIT)).executions
    ]
    if started != [first]:
        raise RuntimeError("nothing is in the second one's way")
    return second


def _another_lane(store: Store) -> int:
    store.lanes.set_capacity(OTHER, 1)
    return _behind(store, NewTask(TYPE, ext=EXT, lane=OTHER))


def _another_type(store: Store) -> int:
    store.types.put(TaskType(OTHER))
    return _waiting(store, NewTask(OTHER, ext=EXT))


def _another_tenant(store: Store) -> int:
    return _waiting(store, NewTask(TYPE, ext=EXT, tenant_id=TENANT))


def _future(store: Store) -> int:
    return _waiting(store, NewTask(TYPE, ext=EXT, delay_seconds=A_DAY))


def _one_mutex(store: Store) -> int:
    return _behind(store, NewTask(TYPE, ext=EXT, mutex="one"))


def _exhausted_rate(store: Store) -> int:
    store.rate_limits.set(f"key:{OTHER}", Rate(1 / A_DAY, 1))
    return _behind(store, NewTask(TYPE, ext=EXT, rate_key=OTHER))


def _deep(prepare: Prepare, place: Place, scale: Scale) -> Figure:
    copies = scale.line if prepare is _one_mutex else scale.depth
    with worker(place, scale) as base, fresh_store(place) as (store, url):
        place.clone(url, prepare(store), copies)
        # The worker asks for its own type and tenant where others wait; elsewhere it is offered everything.
        request = ClaimRequest(
            store.workers.register("bench"),
            LIMIT,
            types=frozenset({TYPE}) if prepare is _another_type else None,
            tenant_id=0 if prepare is _another_tenant else None,
        )
        pass_through(store, request, plain, LIMIT)
        return against(scale, base, lambda: pass_through(store, request, plain, scale.tasks // scale.turns))


MEASUREMENTS = [
    Measurement(f"depth: {what} ÷ empty", partial(_deep, prepare), both(0.9))
    for what, prepare in {
        "{depth:,} in another lane, full": _another_lane,
        "{depth:,} of another type": _another_type,
        "{depth:,} of another tenant": _another_tenant,
        "{depth:,} in the future": _future,
        "{line:,} behind one mutex": _one_mutex,
        "{depth:,} of an exhausted rate key": _exhausted_rate,
    }.items()
]
