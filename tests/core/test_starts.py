"""The start queue of an agent: one start, and then not the next for a while."""

from datetime import timedelta

import pytest

from headgate.core.starts import LastStart
from tests.core.factories import NOW

LAST = LastStart(NOW, 5.0)


@pytest.mark.parametrize(("seconds", "shut"), [(0, True), (4.999999, True), (5, False), (100, False)])
def test_the_next_start_comes_when_the_interval_is_over(seconds, shut):
    """Spec: E3"""
    until = LAST.holds_until(NOW + timedelta(seconds=seconds))
    assert until == (NOW + timedelta(seconds=5) if shut else None)


@pytest.mark.parametrize(("back", "shut"), [(0.1, True), (5, True), (5.000001, False), (3600, False)])
def test_a_clock_that_is_set_back_holds_an_agent_up_for_two_intervals_at_most(back, shut):
    """Spec: E3"""
    assert (LAST.holds_until(NOW - timedelta(seconds=back)) is not None) is shut


def test_without_an_interval_nothing_is_held_up():
    """Spec: E5"""
    assert LastStart(NOW, 0.0).holds_until(NOW) is None
