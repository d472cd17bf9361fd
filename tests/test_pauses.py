"""Pauses grow, differ, and end in time."""

from dataclasses import replace
from itertools import islice

import pytest

from headgate import environment
from headgate.environment import replaced
from headgate.pauses import Backoff


@pytest.fixture
def moment():
    """A clock that only we move, and a draw of one half."""
    now = [0.0]
    with replaced(replace(environment._environment, monotonic=lambda: now[0], random_number=lambda: 0.5)):
        yield now


def test_pauses_grow_up_to_the_longest(moment):
    assert list(islice(Backoff(1.0, 5.0).pauses(), 5)) == [1, 2, 4, 5, 5]
    assert list(islice(Backoff(1.0, 2.0, factor=1.5).pauses(), 3)) == [1, 1.5, 2]
    assert Backoff(1.0, 30.0).pause(10**9) == 30


def test_a_share_of_each_pause_is_left_out_at_random(moment):
    assert Backoff(8.0, 8.0, jitter=0.5).pause(0) == 6
    assert Backoff(8.0, 8.0, jitter=1.0).pause(0) == 4


def test_when_the_time_is_up_there_is_one_more_try(moment):
    tries = []
    for pause in Backoff(1.0, 4.0).pauses(5.0):
        tries.append(moment[0])
        moment[0] += pause
    assert tries == [0, 1, 3, 5]


def test_without_any_time_there_is_one_try(moment):
    assert list(Backoff(1.0, 4.0).pauses(0.0)) == [0.0]
