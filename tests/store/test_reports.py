"""Counts and statistics: what people look at agrees with what is."""

import pytest

from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.store.reading.statistics import Count
from tests.factories import START, put, running, settle, start, submit

S = State


def test_counts_show_what_runs_exactly_and_the_rest_as_last_sampled(store, clock):
    """Spec: C4, C13"""
    submit(store, lane="x"), submit(store, lane="x"), submit(store, lane="x", delay_seconds=60)
    assert store.statistics.counts() == []
    store.statistics.take_sample()
    sampled_at = clock()
    clock.advance(5)
    start(store)
    store.tasks.cancel(submit(store, lane="y").id)
    counts = {(count.lane, count.status): count for count in store.statistics.counts()}
    assert counts == {
        ("x", S.QUEUED): Count("x", S.QUEUED, 2, START, sampled_at),
        ("x", S.PENDING): Count("x", S.PENDING, 1, START, sampled_at),
        ("x", S.RUNNING): Count("x", S.RUNNING, 1, None, None),
    }
    store.statistics.take_sample()
    assert {(c.lane, c.status, c.count) for c in store.statistics.counts()} == {
        ("x", S.QUEUED, 1), ("x", S.PENDING, 1), ("x", S.RUNNING, 1),
    }  # fmt: skip


def test_the_depth_of_a_lane_is_what_is_queued_in_it(store):
    """Spec: C4"""
    submit(store, "manual", lane="x")
    submit(store, lane="x")
    submit(store, lane="x", tenant_id=1)
    submit(store, lane="y")
    submit(store, lane="x", delay_seconds=9)
    start(store)
    assert (store.statistics.depth("x"), store.statistics.depth("y"), store.statistics.depth("z")) == (2, 1, 0)


def test_statistics_tell_run_times_and_the_share_that_succeeded_per_type(store, clock):
    """Spec: A8"""
    for seconds, end in ((1, Returned()), (2, Returned()), (3, Raised("no")), (10, Returned())):
        execution = running(store)
        clock.advance(seconds)
        settle(store, execution, end)
    store.history.archive()
    put(store, S.SUCCEEDED), submit(store)
    settle(store, running(store, "manual"), Raised("dead is not finished"))
    [plain] = store.statistics.by_type()
    assert (plain.type, plain.finished, plain.success_rate) == ("plain", 5, 0.8)
    assert plain.mean == pytest.approx(3.2)
    assert plain.p50 == pytest.approx(2)
    assert plain.p50 <= plain.p95 <= plain.p99 <= 10


def test_statistics_look_back_as_far_as_asked(store, clock):
    """Spec: A8"""
    put(store, S.SUCCEEDED)
    clock.advance(100)
    put(store, S.FAILED)
    assert [(s.finished, s.success_rate) for s in store.statistics.by_type(seconds=50)] == [(1, 0.0)]
    assert [(s.finished, s.success_rate) for s in store.statistics.by_type()] == [(2, 0.5)]
    clock.advance(10**6)
    assert store.statistics.by_type() == []


def test_a_type_of_which_one_task_never_ran_has_no_run_times(store):
    """Spec: A8"""
    put(store, S.CANCELLED)
    [plain] = store.statistics.by_type()
    assert (plain.finished, plain.mean, plain.p50, plain.p99) == (1, None, None, None)
