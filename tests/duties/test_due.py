"""Due tasks are queued at their time, whoever waits for it, and an idle store is hardly queried."""

import pytest

import headgate.duties.due
from headgate.core.machine import Raised, Snoozed
from headgate.core.states import State
from headgate.duties import BringDue
from headgate.settings import Settings
from headgate.threads import inline
from tests.duties.turns import settle_down, turn
from tests.factories import running, settle, submit

S = State


@pytest.fixture
def due(store):
    return BringDue(store, Settings(), inline)


@pytest.mark.parametrize("rest", [Raised("again", 10.0), Snoozed(10.0)])
def test_what_rests_is_brought_to_the_line_at_its_time(store, clock, due, rest):
    """Spec: A2, D5"""
    delayed = submit(store, delay_seconds=10)
    resting = running(store)
    settle(store, resting, rest)
    clock.advance(9.999)
    assert turn(due) == 0
    assert store.tasks.get(delayed.id).status is S.PENDING
    clock.advance(0.001)
    assert turn(due) == 2
    assert {store.tasks.get(task.id).status for task in (delayed, resting)} == {S.QUEUED}


def test_many_come_batch_by_batch_until_none_is_left(store, clock, due, monkeypatch):
    """Spec: A2"""
    monkeypatch.setattr(headgate.duties.due, "BATCH", 2)
    for _ in range(5):
        submit(store, delay_seconds=1)
    clock.advance(1)
    assert settle_down(due) == [2, 2, 1]


def test_it_sleeps_until_the_next_start_time_and_a_second_at_most(store, clock, due):
    """Spec: A2"""
    turn(due)
    assert 0.9 <= due._next_pause() <= 1.1
    submit(store, delay_seconds=3600)
    turn(due)
    assert 0.9 <= due._next_pause() <= 1.1
    submit(store, delay_seconds=0.25)
    turn(due)
    assert 0.25 <= due._next_pause() <= 0.28


@pytest.mark.parametrize(("delay", "ahead"), [(None, None), (90, 90.0), (0.5, 0.5)])
def test_the_store_says_how_long_until_the_next_time(store, delay, ahead):
    """Spec: A2"""
    submit(store)
    if delay is not None:
        submit(store, delay_seconds=1000)
        submit(store, delay_seconds=delay)
    assert store.due.next_in() == ahead


def test_a_time_that_has_passed_is_not_ahead(store, clock):
    """Spec: A2"""
    submit(store, delay_seconds=5)
    clock.advance(7)
    assert store.due.next_in() == -2.0
