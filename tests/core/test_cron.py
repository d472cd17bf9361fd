"""Ticks: as a clock that is looked at every minute says, in every zone, on the days it is set too."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.cron import GRACE, MAX_MISSED, Cron, Missed, Overlap, allowed_by_overlap, due_ticks, preview, zone_of
from headgate.core.errors import Invalid
from tests.core.clockwork import changes, stepped

# An hour at night, half an hour, two hours, at midnight, in Ramadan, on the other half of the world, and never.
ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo", "America/Havana",
    "America/Santiago", "Africa/Casablanca", "Asia/Shanghai", "UTC",
)  # fmt: skip
AROUND = timedelta(hours=14)
SET = {zone: changes(zone, 2026, 2027) for zone in ZONES}
NEVER_SET = datetime(2026, 3, 29, 1, tzinfo=UTC)


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def ticks(cron: Cron, begin: datetime, end: datetime) -> list[datetime]:
    return list(takewhile(lambda tick: tick <= end, cron.ticks(begin)))


EXPRESSIONS = (
    "0 2 * * *", "30 2 * * *", "0,30 1-3 * * *", "59 1 * * *", "0 0 * * *", "30 0 * * *", "45 23 * * *",
    "15 2,3 * * SUN", "* * * * *", "*/30 * * * *", "*/15 1 * * *", "*/30 1 * * 5", "0 */2 * * *", "30 * * * *",
    "* 2 * * *", "* 0 * * 5,6", "5 0-4 * * *", "20 2 29 3 *", "*/20 0-2 25-31 * 0",
)  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_around_a_day_on_which_the_clock_is_set_it_ticks_as_minute_stepping_says(zone):
    """Spec: B9"""
    for change in SET[zone] or [NEVER_SET]:
        for expression in EXPRESSIONS:
            expected = ticks(Cron(expression, zone), change - AROUND, change + AROUND)
            assert expected == list(stepped(expression, zone, change - AROUND, change + AROUND)), (expression, change)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("30 2 * * *", "Europe/Berlin"), ("0 0 29 2 *", "America/Santiago"), ("0 2 30 * *", "Australia/Lord_Howe"),
        ("15 3 13 * FRI", "Africa/Cairo"), ("*/30 1 1 * *", "America/New_York"),
    ],
)  # fmt: skip
def test_over_years_it_ticks_as_minute_stepping_says(expression, zone):
    """Spec: B9. A leap day, the 30th of months that have one, a day of the month or of the week."""
    begin, end = utc(2027, 11, 1), utc(2029, 1, 15)
    found = ticks(Cron(expression, zone), begin, end)
    assert found == list(stepped(expression, zone, begin, end))
    assert found


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.sampled_from(["*/2", "*/7", f"{low}/3", "*"])
    part = st.one_of(number.map(str), span, step, span.map(lambda text: f"{text}/2"))
    return st.one_of(st.just("*"), part, st.lists(part, min_size=2, max_size=3).map(",".join))


@settings(max_examples=60)
@given(
    st.tuples(field(0, 59), field(0, 5), field(1, 31), st.just("*"), field(0, 7)).map(" ".join),
    st.sampled_from(ZONES),
    st.integers(0, 20),
    st.integers(0, 3600),
)
def test_any_expression_ticks_as_minute_stepping_says(expression, zone, number, seconds):
    """Spec: B9"""
    known = SET[zone] or [NEVER_SET]
    begin = known[number % len(known)] - timedelta(hours=4, seconds=seconds)
    end = begin.replace(second=0) + timedelta(hours=9)
    expected = [tick for tick in stepped(expression, zone, begin.replace(second=0), end) if tick > begin]
    assert ticks(Cron(expression, zone), begin, end) == expected


@pytest.mark.parametrize(
    ("expression", "zone", "day", "expected"),
    [
        # 02:00 becomes 03:00
        ("30 2 * * *", "Europe/Berlin", 29, "2026-03-29T03:00:00+02:00"),
        ("0,20,40 2 * * *", "Europe/Berlin", 29, "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"),
        ("*/30 2 * * *", "Europe/Berlin", 29, "2026-03-30T02:00:00+02:00"),
        # midnight becomes 01:00
        ("15 0 * * *", "America/Havana", 8, "2026-03-08T01:00:00-04:00 2026-03-09T00:15:00-04:00"),
        ("*/15 0 * * *", "America/Havana", 8, "2026-03-09T00:00:00-04:00"),
    ],
)
def test_a_time_that_is_jumped_over_fires_at_the_jump_and_a_rhythm_does_not(expression, zone, day, expected):
    """Spec: B9"""
    cron = Cron(expression, zone)
    found = preview(cron, utc(2026, 3, day) - timedelta(hours=12), len(expected.split()))
    assert " ".join(cron.local_time(tick).isoformat() for tick in found) == expected


def test_an_hour_that_comes_twice_fires_a_time_once_and_a_rhythm_twice():
    """Spec: B9"""
    night = utc(2026, 10, 24, 22), utc(2026, 10, 25, 3)
    assert ticks(Cron("30 2 * * *", "Europe/Berlin"), *night) == [utc(2026, 10, 25, 0, 30)]
    assert ticks(Cron("30 */1 * * *", "Europe/Berlin"), *night) == [
        utc(2026, 10, 24, 22, 30), utc(2026, 10, 24, 23, 30), utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30),
        utc(2026, 10, 25, 2, 30),
    ]  # fmt: skip
    in_the_second_pass = utc(2026, 10, 25, 1, 10)
    assert Cron("30 2 * * *", "Europe/Berlin").following(in_the_second_pass) == utc(2026, 10, 26, 1, 30)


def test_a_rhythm_in_seconds_goes_on_while_the_clock_is_set():
    """Spec: B9"""
    cron = Cron("*/20 * * * * *", "Europe/Berlin")
    begin = utc(2026, 10, 25, 0, 59)
    assert preview(cron, begin, 9) == [begin + timedelta(seconds=20 * (number + 1)) for number in range(9)]


@pytest.mark.parametrize(
    ("expression", "day"),
    [
        ("0 0 29 2 *", utc(2028, 2, 29)), ("0 0 30 * *", utc(2026, 3, 30)), ("0 0 L * *", utc(2026, 2, 28)),
        ("0 0 LW * *", utc(2026, 2, 27)), ("0 0 * * MON#2", utc(2026, 3, 9)), ("0 0 * * 7", utc(2026, 2, 22)),
        ("@yearly", utc(2027, 1, 1)), ("@WEEKLY", utc(2026, 2, 22)), (" 0  0 1 * * ", utc(2026, 3, 1)),
    ],
)  # fmt: skip
def test_days_are_found_as_cron_names_them(expression, day):
    """Spec: B9"""
    assert Cron(expression).following(utc(2026, 2, 20, 5)) == day


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6 *"])
def test_an_expression_that_never_fires_is_refused(expression):
    """Spec: B9"""
    with pytest.raises(Invalid):
        Cron(expression)


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "60 * * * *", "* * * * * * *", "@often", "a b c d e", "*/0 * * * *"]
)
def test_what_is_no_expression_is_refused_and_named(expression):
    """Spec: B9"""
    with pytest.raises(Invalid) as refused:
        Cron(expression)
    assert not expression or repr(expression) in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("*/60 * * * *", "the step of minutes must be at most 59, not 60"),
        ("0 */25 * * *", "the step of hours must be at most 23"),
        ("0 0 */32 * *", "the step of days must be at most 31"),
        ("0 0 1 */13 *", "the step of months must be at most 12"),
        ("0 0 * * */8", "the step of weekdays must be at most 7"),
        ("*/61 * * * * *", "the step of seconds must be at most 59"),
        ("5,10-20/99 * * * *", "the step of minutes"), ("2-2/99 * * * *", "the step of minutes"),
    ],
)  # fmt: skip
def test_a_step_that_leaves_its_field_is_refused(expression, message):
    """Spec: B9. It would mean less than it says: `*/61` every hour."""
    with pytest.raises(Invalid, match=message) as refused:
        Cron(expression)
    assert repr(expression) in str(refused.value)


@pytest.mark.parametrize("expression", ["*/59 * * * *", "0 */23 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7"])
def test_a_step_as_long_as_its_field_is_taken(expression):
    """Spec: B9"""
    assert Cron(expression).following(utc(2026, 2, 20, 5)) is not None


@given(st.text("0123456789*/,-#LWMON @²\0\ud800", max_size=40))
def test_whatever_is_said_is_an_expression_or_refused(text):
    """Spec: B9"""
    try:
        Cron(text)
    except Invalid:
        return
    assert len(text.split()) in (1, 5, 6)


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "../etc/passwd", "America", "right/Europe/Paris", "", "a\0b", "x" * 300]
)
def test_what_is_no_zone_is_refused(name):
    """Spec: B9"""
    with pytest.raises(Invalid):
        zone_of(name)


@pytest.mark.parametrize("expression", ["0 0 1 1 *", "*/5 * * * *", "* * * * * *", "59 23 31 12 *"])
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York", "UTC"])
@pytest.mark.parametrize("at", [datetime.max.replace(tzinfo=UTC), utc(9998, 12, 31, 23, 59), utc(9999, 12, 30)])
def test_the_end_of_the_calendar_is_no_error(expression, zone, at):
    """Spec: B9"""
    cron = Cron(expression, zone)
    for tick in preview(cron, at, 3):
        assert cron.local_time(tick).year in (9998, 9999)


def test_the_beginning_of_the_calendar_is_no_error():
    """Spec: B9"""
    preview(Cron("0 0 * * *", "America/New_York"), datetime.min.replace(tzinfo=UTC), 1)


# Missed ticks

EVERY_MINUTE, NIGHTLY = Cron("* * * * *"), Cron("0 2 * * *")
NOON = utc(2026, 3, 1, 12)


def minutes(*numbers: float) -> list[datetime]:
    return [NOON + timedelta(minutes=number) for number in numbers]


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize("late", [0, 0.5, 59.999])
def test_a_tick_that_is_late_by_less_than_a_minute_fires_whatever_the_policy(missed, late):
    """Spec: B9"""
    assert due_ticks(NIGHTLY, utc(2026, 3, 1, 2), utc(2026, 3, 1, 2) + timedelta(seconds=late), missed) == (
        [utc(2026, 3, 1, 2)], utc(2026, 3, 2, 2),
    )  # fmt: skip


@pytest.mark.parametrize("missed", Missed)
def test_before_its_time_nothing_fires_and_the_tick_stays_the_next(missed):
    """Spec: B9. The clock was set back."""
    assert due_ticks(NIGHTLY, utc(2026, 3, 2, 2), NOON, missed) == ((), utc(2026, 3, 2, 2))


@pytest.mark.parametrize(
    ("missed", "fired"),
    [("skip", [60]), ("once", [60]), ("all", list(range(61)))],
)
def test_after_an_hour_without_a_scheduler_the_policy_decides(missed, fired):
    """Spec: B9"""
    due, now = NOON, NOON + timedelta(minutes=60, seconds=1)
    assert due_ticks(EVERY_MINUTE, due, now, Missed(missed)) == (minutes(*fired), minutes(61)[0])


@pytest.mark.parametrize(
    ("missed", "fired"),
    [("skip", []), ("once", [28]), ("all", [26, 27, 28])],
)
def test_nights_without_a_scheduler_are_skipped_made_good_once_or_each(missed, fired):
    """Spec: B9"""
    found = due_ticks(NIGHTLY, utc(2026, 2, 26, 2), utc(2026, 2, 28, 9), Missed(missed))
    assert found == ([utc(2026, 2, day, 2) for day in fired], utc(2026, 3, 1, 2))


def test_of_very_many_the_latest_thousand_are_made_good_without_going_through_all():
    """Spec: B9"""
    every_second = Cron("* * * * * *")
    now = NOON + timedelta(days=3650)
    found = due_ticks(every_second, NOON, now, Missed.ALL)
    late = int(GRACE.total_seconds())
    assert found.fire == [now - timedelta(seconds=ago) for ago in reversed(range(MAX_MISSED + late))]
    assert found.dropped_until(NOON) == found.fire[0]
    assert found.next == now + timedelta(seconds=1)


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 2 * * *", "30 1-3 * * *", "15 0 * * 0"]),
    st.sampled_from(ZONES),
    st.sampled_from(Missed),
    st.integers(0, 400 * 24 * 60),
    st.floats(0, 50),
)
def test_nothing_is_fired_twice_or_out_of_order_and_only_what_was_missed_is_dropped(
    expression, zone, missed, at, hours
):
    """Spec: B9"""
    cron = Cron(expression, zone)
    due = cron.following(utc(2026, 1, 1) + timedelta(minutes=at))
    assert due is not None
    now = due + timedelta(hours=hours)
    fire, after = due_ticks(cron, due, now, missed)
    every = [due, *ticks(cron, due, now)]
    assert list(fire) == every[len(every) - len(fire) :]  # the last ones, without a gap
    assert after == cron.following(now)
    fresh = [tick for tick in every if tick > now - GRACE]
    assert list(fire)[len(fire) - len(fresh) :] == fresh
    if missed is Missed.ALL:
        assert len(fire) == min(len(every), len(fresh) + MAX_MISSED)
    if missed is Missed.ONCE:
        assert len(fire) == max(len(fresh), 1)


@pytest.mark.parametrize(
    ("overlap", "busy", "count"),
    [("allow", True, 3), ("queue", True, 3), ("skip", True, 0), ("skip", False, 1), ("allow", False, 3)],
)
def test_how_many_ticks_may_fire_at_once(overlap, busy, count):
    """Spec: B9"""
    due = list(islice(EVERY_MINUTE.ticks(NOON), 3))
    assert list(allowed_by_overlap(Overlap(overlap), due, busy=busy)) == due[:count]
