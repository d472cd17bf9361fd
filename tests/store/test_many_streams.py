"""However many streams there are, and whatever shuts them: what could start is found within a few claims."""

from collections import Counter

import pytest

from headgate.core.limits import Rate
from headgate.core.machine import Returned
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.claim.cursors import LOOK_AGAIN_SECONDS
from headgate.store.claim.visits import MOST_STREAMS
from headgate.store.store import Store
from tests.factories import Clock, worker

MANY = MOST_STREAMS + 20
FEW_CLAIMS = 3  # in which every one of `MANY` streams is visited


def submit_all(store: Store, tasks: list[NewTask]) -> None:
    for first in range(0, len(tasks), 100):
        store.tasks.submit_many(tasks[first : first + 100])


def starts_soon(store: Store, clock: Clock, task_id: int) -> bool:
    """Whether the task starts within a few claims, between which all that is remembered of streams is forgotten."""
    worker_id = worker(store)
    for _ in range(FEW_CLAIMS):
        clock.advance(2 * LOOK_AGAIN_SECONDS)
        if task_id in [each.id for each in store.claims.take(ClaimRequest(worker_id, 5)).executions]:
            return True
    return False


def keys_behind_a_full_lane(store: Store, tenant_id: int = 0) -> None:
    store.lanes.set_capacity("full", 1)
    tasks = [NewTask("plain", lane="full", rate_key=f"key {n}", tenant_id=tenant_id) for n in range(MANY)]
    store.tasks.submit(tasks[0])
    assert store.claims.take(ClaimRequest(worker(store), 1)).executions
    submit_all(store, tasks)


def full_lanes(store: Store, tenant_id: int = 0) -> None:
    for number in range(MANY):
        store.lanes.set_capacity(f"full {number}", 1)
    tasks = [NewTask("plain", lane=f"full {n}", tenant_id=tenant_id) for n in range(MANY)]
    submit_all(store, tasks)
    left, worker_id = len(tasks), worker(store)
    for _ in range(FEW_CLAIMS):
        left -= len(store.claims.take(ClaimRequest(worker_id, 500)).executions)
    assert left == 0
    submit_all(store, tasks)


def keys_behind_a_full_resource(store: Store, tenant_id: int = 0) -> None:
    store.types.put(TaskType("printed", uses=("printer",)))
    tasks = [NewTask("printed", rate_key=f"key {n}", tenant_id=tenant_id) for n in range(MANY)]
    store.tasks.submit(tasks[0])
    assert store.claims.take(ClaimRequest(worker(store), 1)).executions
    submit_all(store, tasks)


def keys_of_a_lane_without_tokens(store: Store, tenant_id: int = 0) -> None:
    store.rate_limits.set("lane:slow", Rate(0.001, 1))
    tasks = [NewTask("plain", lane="slow", rate_key=f"key {n}", tenant_id=tenant_id) for n in range(MANY)]
    store.tasks.submit(tasks[0])
    assert store.claims.take(ClaimRequest(worker(store), 1)).executions
    submit_all(store, tasks)


def idle_keys(store: Store, tenant_id: int = 0) -> None:
    submit_all(store, [NewTask("plain", rate_key=f"key {n}", tenant_id=tenant_id) for n in range(MANY)])
    left, worker_id = MANY, worker(store)
    while left:
        started = store.claims.take(ClaimRequest(worker_id, 500)).executions
        store.executions.settle([Outcome(execution, Returned()) for execution in started])
        left -= len(started)


SHUT = [
    keys_behind_a_full_lane,
    full_lanes,
    keys_behind_a_full_resource,
    keys_of_a_lane_without_tokens,
    idle_keys,
]


@pytest.mark.parametrize("shut", SHUT, ids=lambda shut: shut.__name__)
@pytest.mark.parametrize("tenant_id", [0, 7], ids=["its own", "a neighbour's"])
def test_what_can_start_is_found_behind_more_streams_than_a_claim_visits(store, clock, shut, tenant_id):
    """Spec: X12, A4"""
    shut(store)
    [last] = store.tasks.submit_many([NewTask("plain", lane="free", tenant_id=tenant_id)])
    assert starts_soon(store, clock, last.id)


@pytest.mark.parametrize("shut", SHUT, ids=lambda shut: shut.__name__)
def test_a_tenant_with_many_streams_of_its_own_is_not_hidden_by_a_neighbours(store, clock, shut):
    """Spec: X12 (half of a visit is each tenant's)"""
    submit_all(
        store, [NewTask("plain", lane="parked", tenant_id=2, rate_key=f"own {n}") for n in range(MOST_STREAMS - 50)]
    )
    store.lanes.set_capacity("parked", 0)
    shut(store, tenant_id=1)
    [last] = store.tasks.submit_many([NewTask("plain", lane="free", tenant_id=2, priority=1)])
    assert starts_soon(store, clock, last.id)


def test_every_stream_of_a_tenant_is_served_though_the_first_never_run_out(store):
    """Spec: X12"""
    submit_all(store, [NewTask("plain", lane=f"lane {n}") for n in range(MANY)] * 3)
    got: Counter[str] = Counter()
    worker_id = worker(store)
    for _ in range(3 * FEW_CLAIMS):
        started = store.claims.take(ClaimRequest(worker_id, MOST_STREAMS)).executions
        got.update(execution.lane for execution in started)
        store.executions.settle([Outcome(execution, Returned()) for execution in started])
    assert len(got) == MANY


def test_every_tenant_is_visited_though_there_are_more_than_a_claim_visits(store):
    """Spec: X12 (most have nothing for this creator, of which nothing is remembered)"""
    submit_all(store, [NewTask("plain", tenant_id=n, creator=1) for n in range(1, MANY)])
    [last] = store.tasks.submit_many([NewTask("plain", tenant_id=MANY, creator=2)])
    worker_id = worker(store)
    for _ in range(FEW_CLAIMS):
        if started := store.claims.take(ClaimRequest(worker_id, 5, creator=2)).executions:
            break
    assert [execution.id for execution in started] == [last.id]


def after_doing_what_it_says(store: Store, clock: Clock, request: ClaimRequest) -> list[int]:
    """What is claimed within two seconds by whoever asks again when an answer says so, and only then."""
    waited = 0.0
    while not (claimed := store.claims.take(request)).executions:
        assert claimed.token_in is not None
        assert claimed.token_in <= LOOK_AGAIN_SECONDS
        clock.advance(claimed.token_in)
        waited += claimed.token_in
        assert waited <= 2 * LOOK_AGAIN_SECONDS
    return [execution.id for execution in claimed.executions]


def tasks_of_somebody_else(store: Store) -> None:
    submit_all(store, [NewTask("plain", lane=f"lane {n}", creator=1) for n in range(5 * MOST_STREAMS)])


@pytest.mark.parametrize("others", [tasks_of_somebody_else, *SHUT], ids=lambda others: others.__name__)
def test_an_answer_says_when_to_look_into_the_streams_that_it_left_out(store, clock, others):
    """Spec: X12, A4"""
    others(store)
    [last] = store.tasks.submit_many([NewTask("plain", lane="free", creator=2)])
    assert after_doing_what_it_says(store, clock, ClaimRequest(worker(store), 5, creator=2)) == [last.id]


def test_only_the_streams_of_the_tasks_asked_for_are_looked_into(store):
    tasks_of_somebody_else(store)
    [last] = store.tasks.submit_many([NewTask("plain", lane="free")])
    claimed = store.claims.take(ClaimRequest(worker(store), 5, ids=frozenset({last.id})))
    assert [execution.id for execution in claimed.executions] == [last.id]


def test_streams_left_out_because_they_are_shut_are_looked_into_within_a_second(store):
    keys_behind_a_full_lane(store)
    request = ClaimRequest(worker(store), 5)
    for _ in range(2):  # the first may look before the lane is known to be full
        claimed = store.claims.take(request)
        assert claimed.executions == []
        assert claimed.token_in is not None
        assert claimed.token_in <= LOOK_AGAIN_SECONDS


def test_a_claim_that_left_nothing_out_or_got_all_it_wanted_names_no_time(store):
    store.tasks.submit(NewTask("plain"))
    request = ClaimRequest(worker(store), 5)
    assert store.claims.take(request).token_in is None
    tasks_of_somebody_else(store)
    claimed = store.claims.take(request)
    assert (len(claimed.executions), claimed.token_in) == (5, None)


def test_a_lane_that_was_just_filled_takes_no_other_streams_place(store):
    """Spec: X12 (nothing is asked anew meanwhile, and the stream is there: a new one has everything asked anew)"""
    worker_id = worker(store)
    store.lanes.set_capacity("full", 1)
    store.tasks.cancel(store.tasks.submit(NewTask("plain", lane="free")).id)
    submit_all(store, [NewTask("plain", lane="full", rate_key=f"key {n}") for n in range(6 * MOST_STREAMS)])
    assert len(store.claims.take(ClaimRequest(worker_id, 1)).executions) == 1
    assert store.claims.take(ClaimRequest(worker_id, 1)).executions == []
    last = store.tasks.submit(NewTask("plain", lane="free"))
    assert [execution.id for execution in store.claims.take(ClaimRequest(worker_id, 1)).executions] == [last.id]


def test_a_lane_that_has_room_again_is_visited_again_at_once(store):
    """Spec: A9"""
    keys_behind_a_full_lane(store)
    worker_id = worker(store)
    assert store.claims.take(ClaimRequest(worker_id, 5)).executions == []
    store.lanes.set_capacity("full", 2)
    [second] = store.claims.take(ClaimRequest(worker_id, 5)).executions
    assert store.claims.take(ClaimRequest(worker_id, 5)).executions == []
    _, claimed = store.executions.settle_and_claim([Outcome(second, Returned())], ClaimRequest(worker_id, 5))
    [third] = claimed.executions
    assert store.claims.take(ClaimRequest(worker_id, 5)).executions == []
    store.executions.settle([Outcome(third, Returned())])
    assert len(store.claims.take(ClaimRequest(worker_id, 5)).executions) == 1
