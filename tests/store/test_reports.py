"""Counts and statistics: what people look at agrees with what is."""

import pytest

from headgate.core.machine import CancelReached, Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.reading.samples import measured
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
    assert store.statistics.depths() == {"x": 2, "y": 1}


def test_statistics_tell_run_times_and_the_share_that_succeeded_per_type(store, clock):
    """Spec: A8"""
    for seconds, end in ((1, Returned()), (2, Returned()), (3, Raised("no")), (10, Returned())):
        execution = running(store)
        clock.advance(seconds)
        settle(store, execution, end)
    store.history.archive()
    put(store, S.SUCCEEDED), submit(store)
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


def rates(store):
    return {each.type: (each.succeeded, each.failed, each.success_rate) for each in store.statistics.by_type()}


def test_a_dead_task_counts_as_failed_from_when_it_died(store, clock):
    """Spec: A8"""
    execution = running(store, "manual")
    clock.advance(7)
    assert settle(store, execution, Raised("no")) is S.DEAD
    [manual] = store.statistics.by_type()
    assert (manual.finished, manual.failed, manual.success_rate, manual.mean) == (1, 1, 0.0, 7.0)
    clock.advance(100)
    assert store.statistics.by_type(seconds=50) == []


def test_a_resolved_task_is_no_success_and_is_counted_once(store):
    """Spec: A8"""
    execution = running(store, "manual")
    settle(store, execution, Raised("no"))
    store.dead_letters.resolve(execution.id, "by hand")
    assert rates(store) == {"manual": (0, 1, 0.0)}
    store.history.archive()
    assert rates(store) == {"manual": (0, 1, 0.0)}


def test_a_dead_task_that_is_run_again_counts_as_it_ends_then(store):
    """Spec: A8"""
    execution = running(store, "manual")
    settle(store, execution, Raised("no"))
    store.tasks.retry(execution.id)
    assert rates(store) == {}
    [again] = start(store)
    settle(store, again, Returned())
    assert rates(store) == {"manual": (1, 0, 1.0)}


def test_a_cancelled_task_is_neither_a_success_nor_a_failure_nor_a_run_time(store, clock):
    """Spec: A8"""
    put(store, S.CANCELLED)
    [only] = store.statistics.by_type()
    assert (only.cancelled, only.success_rate) == (1, None)
    put(store, S.SUCCEEDED)
    execution = running(store)
    store.tasks.cancel(execution.id)
    clock.advance(60)
    settle(store, execution, CancelReached())
    [plain] = store.statistics.by_type()
    assert (plain.finished, plain.cancelled, plain.success_rate, plain.p99) == (3, 2, 1.0, 0.0)


@pytest.mark.parametrize("end", [Returned(), Raised("no")])
def test_a_parent_is_timed_by_its_end_and_forecast_by_the_time_it_held_its_place(store, clock, end):
    """Spec: A8, D7"""
    parent = running(store)
    store.tasks.submit(NewTask("plain", parent_id=parent.id))
    clock.advance(2)
    settle(store, parent, Returned())
    [child] = start(store)
    clock.advance(5)
    settle(store, child, end)
    task = store.tasks.get(parent.id)
    assert (task.finished_at, task.exec_time) == (clock.now, 7.0)
    store.statistics.take_sample()
    assert sorted(store.database.read(measured)["default", "plain"].seconds) == [2.0, 5.0]


def test_a_report_on_many_lanes_reads_no_more_often_than_one_on_a_few(store, monkeypatch):
    """Spec: X12"""
    reads = 0
    read = store.statistics._database.read

    def counted(work):
        nonlocal reads
        reads += 1
        return read(work)

    monkeypatch.setattr(store.statistics._database, "read", counted)

    def reads_of_a_report():
        nonlocal reads
        reads = 0
        assert all(lane.queued == 1 for lane in store.lane_reports.all() if lane.name != "default")
        return reads

    submit(store, lane="x")
    few = reads_of_a_report()
    for number in range(20):
        submit(store, lane=f"x{number}")
    assert reads_of_a_report() == few
