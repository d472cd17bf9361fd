"""Small inputs cost little, whatever they are. What they cost is counted in calls, bytes and steps, not timed."""

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.api.problems import Rejected
from headgate.api.routing import decode_body
from headgate.api.shapes import NewTaskIn
from headgate.core.cron import Cron, Missed, due_ticks
from headgate.core.errors import Invalid
from headgate.core.template import check_template, fill

few = settings(max_examples=60)
KIB = 1024


def calls(action: Callable[[], object]) -> int:
    """How many functions it calls and returns from, those written in C included."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with suppress(Invalid, Rejected):
            action()
    finally:
        sys.setprofile(before)
    return count


def most_bytes(action: Callable[[], object]) -> int:
    """How much memory it has at most, beside what there was."""
    tracemalloc.start()
    try:
        with suppress(Invalid, Rejected):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Schedules

ZONES = ("UTC", "Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns")
SECONDS = st.sampled_from(["", "0 ", "*/7 ", "59 "])
FIELDS = (
    ["*", "0", "*/59", "1-5/2", "59"], ["*", "0", "23", "*/23", "2,3"], ["*", "29", "31", "*/28", "L", "1-7"],
    ["*", "2", "2,4", "*/11", "FEB"], ["*", "1", "MON#5", "7", "2#5", "L", "5L"],
)  # fmt: skip
EXPRESSIONS = st.tuples(SECONDS, *(st.sampled_from(field) for field in FIELDS)).map(lambda it: it[0] + " ".join(it[1:]))
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001
RARE = "0 0 0 */28 2 MON#5"  # every 28 years


# A tick may lie fifty years ahead, and the clock may be set twice in each: a look at every day is the dearest search.
MOST_CALLS_TO_A_TICK = 250_000
MOST_CALLS_AFTER_AN_OUTAGE = {Missed.SKIP: 300_000, Missed.ONCE: 1_000_000, Missed.ALL: 2_000_000}


@few
@example("59 * 23 * FEB 2#5", "America/St_Johns", datetime(2084, 12, 14, tzinfo=UTC), Missed.ALL, 10**9)
@example("*/7 * * 29 */11 2#5", "Europe/Berlin", datetime(2188, 9, 8, tzinfo=UTC), Missed.ONCE, 27_713_588)
@example("* * * * FEB *", "UTC", datetime(2026, 1, 1, tzinfo=UTC), Missed.ONCE, 3_300_000)
@given(EXPRESSIONS, st.sampled_from(ZONES), MOMENTS, st.sampled_from(Missed), st.integers(0, 10**8))
def test_no_schedule_makes_its_ticks_dear_whatever_the_zone_and_however_long_the_outage(
    expression, zone, after, missed, late
):
    """Spec: B9, X12"""
    assert calls(lambda: Cron(expression, zone)) < 20_000
    try:
        cron = Cron(expression, zone)
    except Invalid:
        return
    assert calls(lambda: cron.following(after)) < MOST_CALLS_TO_A_TICK
    due = cron.following(after)
    if due is None:
        return
    now = due + timedelta(seconds=late)
    assert calls(lambda: due_ticks(cron, due, now, missed)) < MOST_CALLS_AFTER_AN_OUTAGE[missed]
    fired = due_ticks(cron, due, now, missed).fire
    assert not fired or cron.following(fired[-1], now) is None  # the latest are those that fire


# Templates

TEMPLATES = st.lists(st.sampled_from([*"{}[].!:?01ab", "{a}", "{a.b}", "{b[0]}", "{a:{b}}", "{a!r:>9}"]), max_size=85)


@few
@example(["{a}"] * 85)
@example(["{a:255}"] * 36)
@given(TEMPLATES)
def test_no_template_makes_a_key_dear_whatever_the_arguments(parts):
    """Spec: B5, X12"""
    template = "".join(parts)[:255]
    assert calls(partial(check_template, template)) < 20_000
    for arguments in ({"a": "x" * 250 * KIB, "b": [{"c": 1}] * 20_000}, {"a": {"b": 1}, "b": [9]}):
        assert calls(partial(fill, template, arguments)) < 20_000
        assert most_bytes(partial(fill, template, arguments)) < 2_000 * KIB


# JSON

ATOMS = st.sampled_from([
    "1", "1.0", "1e308", "-0", "1" * 300, '""', '"\\u003a"', '"\\ud83d\\ude00"', "{}", "[]", "[[]]", '{"a":{}}',
    '{"a":1,"a":2}', "null", '":"',
])  # fmt: skip
JSON = {b"content-type": b"application/json"}


@few
@example(["1e308"], 1_000)
@example(["{}"], 1_000)
@given(st.lists(ATOMS, min_size=1, max_size=8), st.integers(1, 1_000))
def test_no_body_costs_much_more_than_its_length(atoms, times):
    """Spec: X6, X12"""
    ext = ",".join(atoms * times)
    body = f'{{"type": "plain", "unique": "arguments", "ext": {{"a": [{ext}]}}}}'.encode()

    def take() -> None:
        decode_body(body, JSON, NewTaskIn).new_task(0)

    assert calls(take) < 8 * len(body) + 2_000
    assert most_bytes(take) < 100 * len(body) + 20 * KIB
