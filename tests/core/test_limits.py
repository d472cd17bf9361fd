"""Token buckets: burst, steady rate, the moment of the next token."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.errors import Invalid
from headgate.core.limits import Rate, next_token_at, take, tokens

EPOCH = 1_750_000_000.0  # seconds as they are in production: large numbers are where floats lose their digits
MOMENT = 2e-6  # times are kept to the microsecond
RATES = st.builds(Rate, st.floats(0.1, 20), st.integers(1, 30))


def test_the_default_is_ten_a_second_with_a_burst_of_twenty():
    """Spec: D8"""
    assert Rate() == Rate(rate=10, burst=20)


@pytest.mark.parametrize("burst", [1, 10, 20])
def test_a_full_bucket_gives_its_burst_and_then_nothing(burst):
    """Spec: D8"""
    limit, tat = Rate(5, burst), 0.0
    for left in range(burst, 0, -1):
        assert tokens(limit, tat, EPOCH) == left
        tat = take(limit, tat, EPOCH, 1)
    assert tokens(limit, tat, EPOCH) == 0


def test_taking_many_at_once_is_taking_them_one_by_one():
    """Spec: D8"""
    limit, one_by_one = Rate(4, 8), EPOCH - 1
    for _ in range(5):
        one_by_one = take(limit, one_by_one, EPOCH, 1)
    assert take(limit, EPOCH - 1, EPOCH, 5) == one_by_one


@settings(max_examples=40)
@given(RATES, st.floats(0, 60))
def test_the_greediest_taker_gets_the_burst_and_the_rate_and_no_more(limit, seconds):
    """Spec: D8"""
    tat, now, admitted = 0.0, EPOCH, 0
    while now <= EPOCH + seconds:
        free = tokens(limit, tat, now)
        admitted, tat = admitted + free, take(limit, tat, now, free)
        now = next_token_at(limit, tat, now)
    exact = limit.burst + limit.rate * seconds
    assert exact - 1 - 1e-3 <= admitted <= exact + 1e-3


@given(RATES, st.lists(st.tuples(st.floats(0, 3), st.integers(1, 40)), max_size=30))
def test_no_taker_whatever_its_rhythm_gets_more_than_an_exact_bucket_holds(limit, visits):
    """Spec: D8"""
    rate, level = Fraction(limit.rate), Fraction(limit.burst)
    tat, now = 0.0, EPOCH
    for pause, wanted in visits:
        before, now = now, now + pause
        level = min(level + rate * Fraction(now - before), Fraction(limit.burst))
        free = tokens(limit, tat, now)
        assert math.floor(level - Fraction(1, 1000)) <= free <= level + Fraction(1, 1000)
        taken = min(free, wanted)
        tat, level = take(limit, tat, now, taken), level - taken


@given(RATES, st.integers(0, 60), st.floats(0, 10))
def test_the_next_token_comes_exactly_when_it_is_said_to(limit, taken, later):
    """Spec: D8, X3"""
    tat, now = take(limit, 0.0, EPOCH, min(taken, limit.burst)), EPOCH + later
    at = next_token_at(limit, tat, now)
    assert tokens(limit, tat, at) >= 1
    assert (at == now) == (tokens(limit, tat, now) >= 1) or at - now <= MOMENT
    assert at - MOMENT < now or tokens(limit, tat, at - MOMENT) == 0


@given(RATES, st.integers(1, 30), st.floats(0, 1e8))
def test_an_idle_bucket_fills_to_its_burst_and_stays_there(limit, taken, idle):
    """Spec: D8"""
    tat = take(limit, 0.0, EPOCH, taken)
    full = EPOCH + taken / limit.rate + MOMENT
    assert tokens(limit, tat, full + idle) == limit.burst
    assert take(limit, tat, full + idle, 1) == take(limit, 0.0, full + idle, 1)


def test_a_clock_that_steps_back_gives_nothing_away():
    """Spec: D8"""
    limit = Rate(1, 3)
    tat = take(limit, 0.0, EPOCH, 3)
    assert tokens(limit, tat, EPOCH - 3600) == 0


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (math.inf, 1), (math.nan, 1), (1, 0), (1, -1)], ids=repr)
def test_a_limit_that_lets_nothing_or_everything_through_is_refused(rate, burst):
    """Spec: D8"""
    with pytest.raises(Invalid, match="rate limit"):
        Rate(rate, burst)


@given(RATES, st.floats(0, 1e6))
def test_a_bucket_left_ahead_by_a_clock_set_back_is_empty_and_fills_at_its_rate(limit, seconds):
    """Spec: D8"""
    ahead = EPOCH + limit.burst / limit.rate + seconds
    assert tokens(limit, ahead, EPOCH) == 0
    assert next_token_at(limit, ahead, EPOCH) == pytest.approx(EPOCH + 1 / limit.rate, abs=MOMENT)
    assert take(limit, ahead, EPOCH, 1) == pytest.approx(EPOCH + (limit.burst + 1) / limit.rate, abs=MOMENT)
