"""A tenant that does its worst takes its own share of the starts, and no more."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headgate.core.errors import Invalid
from headgate.core.limits import Rate
from headgate.core.machine import Returned
from headgate.core.task import Execution, NewTask, TaskType
from headgate.store.catalog.tenants import Tenant
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.claim.visits import MOST_STREAMS
from headgate.store.store import Store, open_store
from tests.factories import submit, worker

HOSTILE, QUIET = 1, 2
OWN = 12  # tasks of the quiet tenant

ATTACKS: dict[str, list[NewTask]] = {
    "urgent": [NewTask("plain", tenant_id=HOSTILE, priority=-(1 << 63))] * 100,
    "many lanes": [NewTask("plain", tenant_id=HOSTILE, lane=f"lane {n}") for n in range(MOST_STREAMS + 20)],
    "many rate keys": [NewTask("plain", tenant_id=HOSTILE, rate_key=f"key {n}") for n in range(MOST_STREAMS + 20)],
    "many categories, urgent and behind mutexes": [
        NewTask("plain", tenant_id=HOSTILE, category=f"category {n % 50}", priority=-n, mutex=f"mutex {n % 70}")
        for n in range(140)
    ],
}


def starts(store: Store, limit: int = 4) -> Iterator[Execution]:
    """What workers of one process start, one claim after the other, each task ending before the next claim."""
    worker_id = worker(store)
    while claimed := store.claims.take(ClaimRequest(worker_id, limit)).executions:
        yield from claimed
        store.executions.settle([Outcome(execution, Returned()) for execution in claimed])


def starts_until_served(store: Store) -> int:
    """How many tasks start until the last of the quiet tenant's has."""
    store.tasks.submit_many([NewTask("plain", tenant_id=QUIET)] * OWN)
    left = OWN
    for number, execution in enumerate(starts(store), start=1):
        left -= execution.tenant_id == QUIET
        if not left:
            return number
    raise AssertionError(f"{left} of the quiet tenant's tasks never started")


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_tenant_is_served_within_twice_its_usual_starts_whatever_another_does(store, attack):
    """Spec: A4, X12"""
    for first in range(0, len(ATTACKS[attack]), 100):
        store.tasks.submit_many(ATTACKS[attack][first : first + 100])
    assert starts_until_served(store) <= 2 * OWN + 1


@pytest.mark.parametrize("limit", ["lane", "resource", "rate"])
def test_a_limit_of_one_is_handed_round_whatever_the_priorities_and_whoever_asks(store, url, clock, limit):
    """Spec: A4, X12 (each process has its own memory: they may be a turn apart, each)"""
    store.types.put(TaskType("printed", lane="printer", uses=("printer",) if limit == "resource" else ()))
    if limit == "lane":
        store.lanes.set_capacity("printer", 1)
    elif limit == "rate":
        store.rate_limits.set("type:printed", Rate(0.1, 1))
    store.tasks.submit_many([NewTask("printed", tenant_id=HOSTILE, priority=-9)] * 40)
    store.tasks.submit_many([NewTask("printed", tenant_id=QUIET)] * 40)
    got: Counter[int] = Counter()
    with ExitStack() as open_stores:
        processes = [store, *(open_stores.enter_context(open_store(url, clock)) for _ in range(2))]
        workers = [worker(process) for process in processes]
        for number in range(30):
            process, worker_id = processes[number % 3], workers[number % 3]
            claimed = process.claims.take(ClaimRequest(worker_id, 5)).executions
            assert len(claimed) == 1
            got.update(execution.tenant_id for execution in claimed)
            process.executions.settle([Outcome(execution, Returned()) for execution in claimed])
            clock.advance(11)
    assert abs(got[HOSTILE] - got[QUIET]) <= len(processes)


def test_processes_that_start_one_task_each_serve_every_tenant(store, url, clock):
    """Spec: X12 (whose turn it is, is not written down)"""
    for tenant_id in (HOSTILE, QUIET):
        store.tasks.submit_many([NewTask("plain", tenant_id=tenant_id)] * 40)
    got: Counter[int] = Counter()
    for _ in range(40):
        with open_store(url, clock) as process:
            got.update([next(starts(process, limit=1)).tenant_id])
    assert got.keys() == {HOSTILE, QUIET}


def test_a_weight_holds_at_once_in_every_process(store, url, clock):
    """Spec: A4, X12"""
    for tenant_id in (HOSTILE, QUIET):
        store.tasks.submit_many([NewTask("plain", tenant_id=tenant_id)] * 80)
    with open_store(url, clock) as other:
        served = starts(other, limit=1)
        assert Counter(next(served).tenant_id for _ in range(20)) == {HOSTILE: 10, QUIET: 10}
        assert store.tenants.set_weight(QUIET, 3)
        got = Counter(next(served).tenant_id for _ in range(40))
        assert abs(got[QUIET] - 30) <= 2
        assert store.tenants.set_weight(QUIET, 1)
        got = Counter(next(served).tenant_id for _ in range(20))
        assert abs(got[QUIET] - 10) <= 2


def test_tenants_are_listed_with_their_weights_and_a_weight_of_one_is_none_at_all(store):
    """Spec: X12"""
    submit(store, tenant_id=3)
    assert store.tenants.set_weight(7, 2.5, actor="key:1")
    assert not store.tenants.set_weight(7, 2.5, actor="key:1")
    assert store.tenants.all() == [Tenant(3), Tenant(7, 2.5)]
    assert store.tenants.set_weight(7, 1)
    assert store.tenants.all() == [Tenant(3)]
    assert store.tenants.get(7) == Tenant(7)


@pytest.mark.parametrize(("tenant_id", "weight"), [(1, 0), (1, 1001), (1 << 63, 1)])
def test_a_weight_or_a_tenant_out_of_bounds_is_refused_and_changes_nothing(store, tenant_id, weight):
    """Spec: X12"""
    with pytest.raises(Invalid):
        store.tenants.set_weight(tenant_id, weight)
    assert store.tenants.all() == []
