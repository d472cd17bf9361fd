"""Delays: each policy's figures and bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import Invalid
from headgate.core.retry import (
    MAX_DELAY_SECONDS,
    RetryPolicy,
    Strategy,
    calculate_retry_delay,
    exponential,
    fixed,
    never,
    next_delay,
    sequence,
)

DELAYS = st.floats(0, 1e6)
DRAWS = st.floats(0, 1, exclude_max=True)


def delays(policy: RetryPolicy, draw: float = 0.5) -> list[float]:
    """Every delay of a task that always fails, up to its end."""
    found: list[float] = []
    while (delay := next_delay(policy, len(found), draw)) is not None:
        found.append(delay)
    return found


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(never, [], id="none"),
        pytest.param(fixed(30, retries=3), [30, 30, 30], id="fixed_period"),
        pytest.param(sequence([1, 5, 9]), [1, 5, 9], id="sequence"),
        pytest.param(sequence([1, 5], retries=4), [1, 5, 5, 5], id="the last of a sequence repeats"),
        pytest.param(sequence([1, 5, 9], retries=2), [1, 5], id="a sequence longer than its retries"),
        pytest.param(exponential(1, jitter=0, retries=4), [1, 2, 4, 8], id="exponential"),
        pytest.param(exponential(1, factor=3, jitter=0, retries=3), [1, 3, 9], id="exponential with a factor"),
        pytest.param(exponential(10, cap=25, jitter=0, retries=4), [10, 20, 25, 25], id="exponential with a cap"),
    ],
)
def test_each_strategy_has_its_delays(policy, expected):
    """Spec: B5, D5"""
    assert delays(policy) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(exponential(60, cap=300, jitter=0, retries=3), [60, 120, 240], id="download"),
        pytest.param(fixed(30, retries=2), [30, 30], id="scan"),
        pytest.param(fixed(10, retries=2), [10, 10], id="associate"),
        pytest.param(fixed(5, retries=1), [5], id="check"),
        pytest.param(exponential(3, cap=60, jitter=0, retries=3), [3, 6, 12], id="the other requests"),
    ],
)
def test_the_built_in_types_can_be_said_as_policies(policy, expected):
    """Spec: A3, C7"""
    assert delays(policy) == expected


def test_the_exponential_defaults_are_d_s():
    """Spec: Conflicts, settled (Counting)"""
    default = exponential()
    assert (default.initial, default.factor, default.cap, default.jitter) == (5, 2, 3600, 0.1)
    assert default.retries == 4  # D's five attempts
    assert delays(default) == [5, 10, 20, 40]


@pytest.mark.parametrize(
    ("attempt", "base", "seconds"),
    [(0, 60, 60), (1, 60, 120), (2, 60, 240), (3, 60, 300), (9, 60, 300), (0, 10, 10), (4, 10, 160), (5, 10, 300)],
)
def test_a_manual_task_s_delay_doubles_up_to_five_minutes(attempt, base, seconds):
    """Spec: A5"""
    assert calculate_retry_delay(attempt, base) == seconds
    assert calculate_retry_delay(attempt) == min(60 * 2**attempt, 300)


@pytest.mark.parametrize("attempt", [1023, 1024, 10**6])
def test_a_manual_task_s_delay_stays_five_minutes_for_ever(attempt):
    """Spec: A5"""
    assert calculate_retry_delay(attempt) == 300


@given(DELAYS, st.floats(1, 1e9), DELAYS, st.floats(0, 1), st.integers(0, 10**6), DRAWS)
def test_an_exponential_delay_stays_within_its_jitter_and_never_overflows(initial, factor, cap, jitter, errors, draw):
    """Spec: D5"""
    policy = exponential(initial, factor=factor, cap=cap, jitter=jitter, retries=10**6 + 1)
    try:
        middle = min(initial * factor**errors, cap)
    except OverflowError:
        middle = cap if initial else 0.0
    delay = next_delay(policy, errors, draw)
    assert delay is not None
    assert middle * (1 - jitter) * (1 - 1e-9) <= delay <= middle * (1 + jitter) * (1 + 1e-9)


@pytest.mark.parametrize(("draw", "delay"), [(0.0, 90), (0.5, 100), (0.75, 105)])
def test_the_draw_alone_decides_the_jitter(draw, delay):
    """Spec: D5"""
    assert next_delay(exponential(100, jitter=0.1), 0, draw) == pytest.approx(delay)


def test_the_jitter_of_a_fixed_policy_is_none():
    """Spec: B5"""
    assert {next_delay(fixed(7, retries=1), 0, draw) for draw in (0.0, 0.3, 0.99)} == {7}


@given(st.integers(0, 50), st.integers(1, 20), st.one_of(st.none(), st.integers(0, 20)))
def test_there_is_a_next_try_exactly_while_retries_are_left(errors, retries, own):
    """Spec: Conflicts, settled (Counting)"""
    allowed = retries if own is None else own
    assert (next_delay(fixed(1, retries=retries), errors, 0.5, retries=own) is not None) == (errors < allowed)


@given(
    st.sampled_from([fixed(60, retries=9), sequence([1, 100], retries=9), exponential(60, retries=9)]),
    st.integers(0, 8),
    DRAWS,
    st.floats(0, MAX_DELAY_SECONDS),
)
def test_what_the_other_side_asked_for_is_never_undercut_nor_is_the_policy(policy, errors, draw, requested):
    """Spec: A5 (honouring Retry-After)"""
    alone, both = next_delay(policy, errors, draw), next_delay(policy, errors, draw, requested)
    assert alone is not None
    assert both == max(alone, requested)


def test_what_the_other_side_asks_for_is_bounded_and_grants_no_further_try():
    """Spec: A5"""
    assert next_delay(fixed(1, retries=1), 0, 0.5, math.inf) == MAX_DELAY_SECONDS
    assert next_delay(fixed(1, retries=1), 1, 0.5, 30) is None


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("retries", [-1, 0, 1, 3])
def test_none_needs_no_retries_and_every_other_strategy_some(strategy, retries):
    """Spec: Conflicts, settled (Counting: else 422)"""
    if (retries == 0) if strategy is Strategy.NONE else (retries > 0):
        assert RetryPolicy(strategy, retries, sequence=(1,)).retries == retries
    else:
        with pytest.raises(Invalid, match="max_error_count") as refused:
            RetryPolicy(strategy, retries, sequence=(1,))
        assert refused.value.status == 422


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": Strategy.FIXED, "interval": -1.0},
        {"strategy": Strategy.FIXED, "interval": math.nan},
        {"strategy": Strategy.SEQUENCE},
        {"strategy": Strategy.SEQUENCE, "sequence": (1.0, -1.0)},
        {"strategy": Strategy.SEQUENCE, "sequence": (1.0, math.nan)},
        {"initial": -1.0},
        {"initial": math.nan},
        {"cap": -1.0},
        {"cap": math.nan},
        {"factor": 0.5},
        {"factor": math.nan},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
    ],
    ids=repr,
)
def test_a_policy_that_says_nothing_sensible_is_refused(settings):
    """Spec: B5"""
    with pytest.raises(Invalid):
        RetryPolicy(**({"strategy": Strategy.EXPONENTIAL, "retries": 1} | settings))
