"""What happened, stretch by stretch: counted once, whoever counts; bounded, however long it goes on."""

from datetime import timedelta

import pytest

import headgate.store.reading.series as series
from headgate.core.machine import Raised, Returned
from headgate.store.reading.series import COARSE, COUNTED, FINE, LAG_SECONDS, LONGEST_GAP
from tests.factories import START, running, settle, sql, start, submit, together

OVER = FINE + LAG_SECONDS


@pytest.fixture
def begun(store, clock):
    """The first point only says from where to count."""
    clock.advance(LAG_SECONDS)
    assert store.series.take() == 1
    return store


def points(store, seconds=3600):
    return store.series.since(seconds)[1]


def happened(store):
    point = points(store)[-1]
    return {name: getattr(point, name) for name in COUNTED if getattr(point, name)}


def test_what_happened_is_counted_in_the_stretch_it_happened_in(begun, clock):
    """Spec: X7"""
    store = begun
    for event in (Returned(), Raised("oh"), Raised("again", 5.0)):
        settle(store, running(store), event)
    settle(store, running(store, "manual"), Raised("dead"))
    store.tasks.cancel(submit(store).id)
    clock.advance(OVER)
    assert store.series.take() == 1
    assert happened(store) == {
        "submitted": 5, "started": 4, "succeeded": 1, "failed": 2, "retried": 1, "cancelled": 1,
    }  # fmt: skip


def test_it_shows_how_many_wait_how_old_the_oldest_is_and_how_many_are_dead(begun, clock):
    """Spec: X7"""
    store = begun
    settle(store, running(store, "manual"), Raised("dead"))
    running(store)
    submit(store)
    clock.advance(1)
    submit(store)
    submit(store, delay_seconds=100)
    clock.advance(OVER)
    store.statistics.take_sample()
    store.series.take()
    point = points(store)[-1]
    assert (point.waiting, point.later, point.running, point.dead) == (2, 1, 1, 1)
    assert point.oldest == pytest.approx(OVER + 1)


def test_when_every_task_has_ended_none_waits_and_none_runs(begun, clock):
    """Spec: X7"""
    store = begun
    waiting = submit(store)
    clock.advance(FINE)
    store.statistics.take_sample()
    store.series.take()
    assert (points(store)[-1].waiting, points(store)[-1].oldest) == (1, FINE)
    store.tasks.cancel(waiting.id)
    clock.advance(FINE)
    store.statistics.take_sample()
    store.series.take()
    point = points(store)[-1]
    assert (point.waiting, point.later, point.running, point.dead, point.oldest) == (0, 0, 0, 0, None)


def test_waits_are_counted_from_when_a_task_was_due_and_run_times_from_its_start(begun, clock):
    """Spec: X7"""
    store = begun
    submit(store, delay_seconds=3)
    clock.advance(3)
    store.due.bring()
    clock.advance(2)
    [execution] = start(store)
    clock.advance(4)
    settle(store, execution, Returned())
    clock.advance(OVER)
    store.series.take()
    point = points(store)[-1]
    assert (point.wait_p50, point.wait_p95) == (2.0, 2.0)
    assert (point.run_p50, point.run_p95) == (4.0, 4.0)


def test_a_stretch_is_counted_once_whoever_and_however_many_count(begun, clock):
    """Spec: X7"""
    store = begun
    settle(store, running(store), Returned())
    clock.advance(OVER)
    together(*[store.series.take] * 6)
    assert happened(store) == {"submitted": 1, "started": 1, "succeeded": 1}
    assert store.series.take() == 0
    clock.advance(FINE)
    store.series.take()
    assert happened(store) == {}
    assert len(points(store)) == 3


def test_what_nobody_counted_in_time_is_made_up_for_in_its_own_stretch(begun, clock):
    """Spec: X7"""
    store = begun
    for _ in range(3):
        submit(store)
        clock.advance(FINE)
    assert store.series.take() == 3
    assert [point.submitted for point in points(store)] == [0, 1, 1, 1]


def test_after_a_long_time_without_anybody_it_begins_anew(begun, clock):
    """Spec: X7"""
    store = begun
    submit(store)
    clock.advance(LONGEST_GAP + 2 * FINE)
    assert store.series.take() == 1
    submit(store)
    clock.advance(OVER)
    store.series.take()
    assert [point.submitted for point in points(store)] == [0, 0, 1]


def test_five_minutes_become_one_point_with_the_sums_and_the_peaks(begun, clock):
    """Spec: X7"""
    store = begun
    for number in range(2 * COARSE // FINE):
        if number % 2 == 0:
            submit(store)
        clock.advance(FINE)
        store.statistics.take_sample()
        store.series.take()
    step, coarse = store.series.since(86400)
    assert step == COARSE
    assert [point.at for point in coarse] == [START + timedelta(seconds=COARSE * number) for number in (-1, 0, 1)]
    assert [point.submitted for point in coarse] == [0, 15, 15]
    first = [point for point in points(store) if point.at < START + timedelta(seconds=COARSE)]
    assert coarse[1].waiting == max(point.waiting or 0 for point in first)


def test_what_is_kept_is_bounded(begun, clock, url, monkeypatch):
    """Spec: X7"""
    monkeypatch.setattr(series, "RETENTION", {FINE: 60, COARSE: 600})
    store = begun
    for _ in range(100):
        clock.advance(FINE)
        store.series.take()
    kept = dict(sql(url, "SELECT step, count(*) FROM headgate_series GROUP BY step"))
    assert kept[FINE] <= 8
    assert kept[COARSE] <= 3


def test_what_is_discarded_or_resolved_has_not_failed_again(begun, clock):
    """Spec: X7"""
    store = begun
    dead = [settle_dead(store) for _ in range(2)]
    clock.advance(OVER)
    store.series.take()
    store.tasks.discard(dead[0])
    store.tasks.resolve(dead[1], "done by hand")
    clock.advance(FINE)
    store.series.take()
    assert happened(store) == {}


def settle_dead(store):
    execution = running(store, "manual")
    settle(store, execution, Raised("dead"))
    return execution.id
