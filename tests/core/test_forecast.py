"""The arithmetic of forecasts: what each limit says, who goes first, and what nobody can know."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.forecast import (
    NO_CONTENTION,
    Contention,
    Limit,
    Pace,
    Paces,
    Slots,
    StreamBacklog,
    TasksAhead,
    Tokens,
    forecast_end,
    forecast_start,
    tasks_ahead,
)
from headgate.core.gates import Gate
from headgate.core.limits import Rate, next_token_at, take
from headgate.core.reasons import duration_text

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OPEN = [Gate("state", True, "not-started"), Gate("time", True, "time-come"), Gate("pause", True, "not-paused")]


def start(contention, gates=OPEN):
    forecast = forecast_start(gates, contention, NOW)
    assert forecast is not None
    assert forecast.at == (None if forecast.seconds is None else NOW + timedelta(seconds=forecast.seconds))
    return forecast


# One limit


@pytest.mark.parametrize(
    ("slots", "ahead", "expected"),
    [
        (Slots(2), 0, 0.0),
        (Slots(2), 1, 0.0),
        (Slots(2), 2, 10.0),
        (Slots(2, (4.0,)), 0, 0.0),
        (Slots(2, (4.0,)), 1, 4.0),
        (Slots(2, (7.0, 4.0)), 0, 4.0),
        (Slots(2, (7.0, 4.0)), 1, 7.0),
        (Slots(2, (7.0, 4.0)), 5, 27.0),
        (Slots(1, (7.0, 4.0, 9.0)), 0, 9.0),  # its capacity was lowered: two must go before one may come
        (Slots(0), 0, math.inf),
    ],
)
def test_places_are_given_out_as_they_become_free(slots, ahead, expected):
    """Spec: X3"""
    assert slots.wait(ahead, 10.0) == expected


@pytest.mark.parametrize("ahead", range(12))
@pytest.mark.parametrize("tat", [-100.0, 0.0, 3.0])
def test_tokens_come_as_the_bucket_says(ahead, tat):
    """Spec: X3, D8"""
    rate, now = Rate(0.5, 4), 0.0
    bucket = Tokens(rate, max(tat, 0.0))
    for _ in range(ahead):  # each starts as soon as it may
        now = next_token_at(rate, tat, now)
        tat = take(rate, tat, now, 1)
    assert bucket.wait(ahead, None) == pytest.approx(next_token_at(rate, tat, now))


@pytest.mark.parametrize("limit", [Slots(3, (1.0, 2.0)), Tokens(Rate(0.5, 2), 3.0)])
@pytest.mark.parametrize("seconds", [0.0, 4.0, 30.0])
def test_as_many_pass_within_a_while_as_do_not_wait_longer(limit, seconds):
    """Spec: X3"""
    passed = int(limit.passed(seconds, 10.0))
    assert passed == sum(limit.wait(ahead, 10.0) <= seconds for ahead in range(100))


# Paces


def test_what_is_left_of_an_execution_is_what_was_left_of_those_that_took_longer():
    """Spec: X3"""
    pace = Pace((1.0, 2.0, 9.0))
    assert pace.remaining(0.0) == 4.0
    assert pace.remaining(1.5) == 4.0  # 0.5 and 7.5
    assert pace.remaining(8.0) == 1.0
    assert pace.remaining(100.0) == pytest.approx(10.0)


def test_a_task_fills_its_place_as_often_as_tasks_of_its_kind_start():
    """Spec: X3"""
    assert Pace((2.0, 4.0), starts=1.5).each == 4.5


def test_a_kind_not_measured_in_a_lane_is_as_elsewhere_or_as_the_lanes_others():
    """Spec: X3"""
    paces = Paces({("a", "x"): Pace((1.0,)), ("b", "y"): Pace((5.0,))})
    assert [paces.each(*key) for key in (("a", "x"), ("b", "x"), ("b", "z"), ("c", "z"))] == [1.0, 1.0, 5.0, None]
    assert (paces.remaining("c", "z", 1.0), paces.remaining("a", "x", 0.25)) == (None, 0.75)


# Who goes first


def test_another_tenants_million_goes_first_once_for_each_turn_of_ours():
    """Spec: X3, B11, A4"""
    ours, theirs = StreamBacklog(None, 4, 1.0, ("lane",)), StreamBacklog(2, 1_000_000, 1.0, ("lane",))
    ahead = tasks_ahead([ours, theirs], 1, {})
    assert start(Contention({"lane": Slots(1)}, ("lane",), ahead)).ahead == 4 + 5  # of ours, and their turns
    few = tasks_ahead([ours, theirs._replace(tasks=2)], 1, {})
    assert start(Contention({"lane": Slots(1)}, ("lane",), few)).ahead == 4 + 2


def test_a_tenant_of_three_times_the_weight_goes_first_three_times_as_often():
    """Spec: X3, A4"""
    ours, theirs = StreamBacklog(None, 4, 1.0, ("lane",)), StreamBacklog(2, 1_000_000, 1.0, ("lane",))
    ahead = tasks_ahead([ours, theirs], 1, {2: 3.0})
    assert start(Contention({"lane": Slots(1)}, ("lane",), ahead)).ahead == 4 + 15


def test_turns_are_counted_at_each_limit_by_what_we_have_before_it_there():
    """Spec: X3, A4 (a lane that others fill is ours in our turn, however much we have elsewhere)"""
    ours, theirs = StreamBacklog(None, 50, 1.0, ("workers",)), StreamBacklog(2, 100, 1.0, ("lane", "workers"))
    limits: dict[str, Limit] = {"lane": Slots(1), "workers": Slots(1000)}
    assert start(Contention(limits, ("lane", "workers"), tasks_ahead([ours, theirs], 1, {}))).ahead == 1


def test_those_held_up_by_limits_of_their_own_go_first_only_as_they_come():
    """Spec: X3"""
    slow = TasksAhead(1_000_000, 2.0, ("lane", "rate"))
    limits: dict[str, Limit] = {"lane": Slots(1, (2.0,)), "rate": Tokens(Rate(0.1, 1), 10.0)}
    forecast = start(Contention(limits, ("lane",), [slow]))
    assert forecast.seconds == 2.0  # whoever has the next token comes after us
    waiting = start(Contention(limits, ("lane",), [slow, TasksAhead(100, 2.0, ("lane",))]))
    assert 100 * 2.0 < (waiting.seconds or 0) < 1.3 * 100 * 2.0  # a token each 10 s, and 2 s each: a fifth more


def test_a_line_whose_lane_is_shut_never_goes_first():
    """Spec: X3"""
    limits = {"workers": Slots(1, (3.0,)), "lane shut": Slots(0)}
    ahead = [TasksAhead(500, 2.0, ("workers", "lane shut"))]
    assert start(Contention(limits, ("workers",), ahead)).seconds == 3.0


# The latest gate decides, and is named


def test_the_gate_that_takes_longest_decides():
    """Spec: X3"""
    limits: dict[str, Limit] = {
        "lane x": Slots(2, (3.0, 5.0)), "rate key:k": Tokens(Rate(1.0, 1), 1.0), "workers": Slots(100),
    }  # fmt: skip
    contention = Contention(limits, tuple(limits), [TasksAhead(4, 6.0, ("lane x", "workers"))])
    forecast = start(contention)
    assert (forecast.seconds, forecast.ahead) == (15.0, 4)
    assert forecast.reason == "lane x: 4 ahead, 2 at a time, about 6 s each"


def test_a_free_place_is_taken_now():
    """Spec: X3"""
    forecast = start(Contention({"lane x": Slots(2)}, ("lane x",), []))
    assert (forecast.seconds, forecast.reason) == (0.0, "nothing is in the way")


def test_a_start_time_beyond_the_line_decides_and_one_within_it_does_not():
    """Spec: X3"""
    contention = Contention({"lane x": Slots(1, (10.0,))}, ("lane x",), [])
    for ahead, expected in ((60.0, 60.0), (4.0, 10.0)):
        time = Gate("time", False, "start-ahead", until=NOW + timedelta(seconds=ahead))
        assert start(contention, [*OPEN, time]).seconds == expected


# No number where nobody can know


@pytest.mark.parametrize("name", ["pause", "worker"])
def test_what_somebody_has_to_do_first_has_no_time(name):
    """Spec: X3"""
    forecast = start(NO_CONTENTION, [*OPEN, Gate(name, False, "no-worker", {"type": "scan"})])
    assert (forecast.seconds, forecast.at) == (None, None)
    assert (forecast.code, forecast.params) == ("no-worker", {"type": "scan"})


def test_a_task_that_has_started_has_no_forecast():
    """Spec: X3"""
    assert forecast_start([Gate("state", False, "started")], NO_CONTENTION, NOW) is None


def test_a_capacity_of_zero_has_no_time():
    """Spec: X3, A9"""
    forecast = start(Contention({"lane x": Slots(0)}, ("lane x",), []))
    assert (forecast.seconds, forecast.reason) == (None, "lane x: its capacity is 0")


@pytest.mark.parametrize(
    ("slots", "ahead"),
    [(Slots(1, (None,)), []), (Slots(1, (2.0,)), [TasksAhead(1, None, ("lane x",))])],
    ids=["of who runs", "of who waits"],
)
def test_what_was_never_measured_has_no_time(slots, ahead):
    """Spec: X3"""
    forecast = start(Contention({"lane x": slots}, ("lane x",), ahead))
    assert forecast.seconds is None
    assert forecast.reason.startswith("lane x: no similar task has finished lately")


def test_what_needs_no_measuring_has_a_time():
    """Spec: X3"""
    limits: dict[str, Limit] = {"lane x": Slots(3, (None,)), "rate r": Tokens(Rate(0.5, 1), 4.0)}
    assert start(Contention(limits, tuple(limits), [TasksAhead(1, None, ("lane x", "rate r"))])).seconds == 6.0


# A lane's end


def test_a_lane_is_drained_when_the_last_has_ended():
    """Spec: X3"""
    contention = Contention({"lane x": Slots(2, (3.0, 5.0))}, ("lane x",), [TasksAhead(5, 6.0, ("lane x",))])
    assert forecast_end(contention, 6.0, [3.0, 5.0], NOW).seconds == 5.0 + 2 * 6.0 + 6.0
    assert forecast_end(NO_CONTENTION, 0.0, [3.0, 5.0], NOW).seconds == 5.0
    assert forecast_end(NO_CONTENTION, 0.0, [3.0, None], NOW).seconds is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0123, "0.012 s"), (6.54, "6.5 s"), (40, "40 s"), (89, "89 s"), (120, "2 min"), (130, "2.2 min"), (7200, "2 h"),
     (36_000, "10 h"), (1_000_000, "278 h")],
)  # fmt: skip
def test_a_length_of_time_is_told_to_two_digits(seconds, expected):
    """Spec: X3"""
    assert duration_text(seconds) == expected
