"""Callbacks: which end asks for which, what is said, what an answer means, when to try again."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.callbacks import (
    LONGEST_DELAY_SECONDS,
    MAX_ATTEMPTS,
    MAX_BODY_BYTES,
    Attempt,
    CallbackKind,
    Delivery,
    attempt_of,
    body_text,
    delivery_after,
    error_body,
    in_turn,
    last_served,
    retry_delay,
    success_body,
)
from headgate.core.family import Children
from headgate.core.machine import (
    CancelRequested,
    ChildrenEnded,
    Delivered,
    Discarded,
    LeaseLost,
    Overdue,
    Raised,
    Resolved,
    Returned,
    decide,
)
from headgate.core.states import State
from headgate.core.task import TaskType
from tests.core.factories import a_task

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BOTH = {"success": {"url": "https://example.org/good"}, "error": {"url": "https://example.org/bad"}}


@pytest.mark.parametrize(
    ("state", "event", "rules", "expected"),
    [
        (State.RUNNING, Returned("1"), TaskType("scan", callback=BOTH), CallbackKind.SUCCESS),
        (State.RUNNING, Returned("1", completed=False), TaskType("scan", callback=BOTH), None),
        (State.RUNNING, Returned("1"), TaskType("scan", callback={"error": BOTH["error"]}), None),
        (State.RUNNING, Raised("no", 5.0), TaskType("scan", callback=BOTH), None),
        (State.RUNNING, Raised("no"), TaskType("scan", callback=BOTH), CallbackKind.ERROR),
        (State.RUNNING, Raised("no"), TaskType("scan", callback={"success": BOTH["success"]}), None),
        (State.RUNNING, Raised("no"), TaskType("scan", callback=BOTH, need_manual=True), CallbackKind.ERROR),
        (State.RUNNING, Overdue(), TaskType("scan", callback=BOTH), CallbackKind.ERROR),
        (State.RUNNING, LeaseLost(), TaskType("scan", callback=BOTH), None),
        (State.DEAD, Discarded(), TaskType("scan", callback=BOTH), None),
        (State.DEAD, Resolved("by hand"), TaskType("scan", callback=BOTH), None),
        (State.NOTIFYING, Delivered(), TaskType("scan", callback=BOTH), None),
        (State.QUEUED, CancelRequested(), TaskType("scan", callback=BOTH), None),
        (State.WAITING, ChildrenEnded(Children(2, 0)), TaskType("scan", callback=BOTH), CallbackKind.SUCCESS),
        (State.WAITING, ChildrenEnded(Children(0, 2)), TaskType("scan", callback=BOTH), CallbackKind.ERROR),
        (State.WAITING, ChildrenEnded(Children(1, 1)), TaskType("scan", callback=BOTH), None),
    ],
)
def test_how_a_task_ended_decides_which_callback_is_owed(state, event, rules, expected):
    """Spec: B6"""
    assert decide(a_task(state), event, rules).callback is expected


def test_poison_is_told_as_an_error():
    """Spec: B6"""
    assert decide(a_task(State.RUNNING, lost_count=2), LeaseLost(), TaskType("scan", callback=BOTH)).callback == "error"


def test_the_bodies_are_bs_and_the_stored_json_is_not_written_anew():
    """Spec: B6"""
    ext, result = '{"n": 1.0, "big": 12345678901234567890, "word": "\\u00fc"}', "[1e2]"
    assert success_body(ext, result) == f'{{"ext":{ext},"result":{result}}}'.encode()
    assert json.loads(success_body("{}", None)) == {"ext": {}, "result": None}
    body = json.loads(error_body(17, 'a "bad"\nday ü', ext))
    assert list(body) == ["task_id", "error_info", "ext"]
    assert body == {"task_id": 17, "error_info": 'a "bad"\nday ü', "ext": json.loads(ext)}
    assert json.loads(error_body(17, None, "{}"))["error_info"] is None


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_an_arrival(status):
    """Spec: B6"""
    assert delivery_after(Attempt(status, 0.1), MAX_ATTEMPTS, 0.5) == (Delivery.DELIVERED, 0.0)


@pytest.mark.parametrize("status", [None, 199, 300, 301, 302, 307, 400, 404, 409, 429, 500, 503])
def test_anything_else_is_tried_again_and_again_and_then_given_up(status):
    """Spec: B6"""
    attempt = Attempt(status, 0.1)
    assert {delivery_after(attempt, number, 0.5)[0] for number in range(1, MAX_ATTEMPTS)} == {Delivery.PENDING}
    assert delivery_after(attempt, MAX_ATTEMPTS, 0.5)[0] is Delivery.UNDELIVERABLE


def test_gone_is_gone_at_once():
    """Spec: B6"""
    assert delivery_after(Attempt(410, 0.1), 1, 0.5)[0] is Delivery.UNDELIVERABLE


def test_the_delay_doubles_up_to_a_cap_over_hours_and_is_drawn_from_all_of_it():
    """Spec: B6"""
    longest = [retry_delay(number, 1.0) for number in range(1, MAX_ATTEMPTS)]
    assert longest[:4] == [5, 10, 20, 40]
    assert max(longest) == LONGEST_DELAY_SECONDS
    assert 6 * 3600 < sum(longest) / 2 < 24 * 3600
    assert [retry_delay(3, draw) for draw in (0.0, 0.25, 0.5)] == [0, 5, 10]


def test_a_receiver_that_asks_for_time_gets_it_within_a_day():
    """Spec: B6"""
    header: str | None
    for header, seconds in (("120", 120.0), ("Sun, 01 Mar 2026 00:05:00 GMT", 300.0), ("9" * 30, 24 * 3600.0)):
        assert delivery_after(attempt_of(503, 0.1, b"", header, NOW), 1, 0.0) == (Delivery.PENDING, seconds)
    for header in ("soon", "-5", "", None, "Sun, 01 Mar 2020 00:05:00 GMT"):
        assert delivery_after(attempt_of(429, 0.1, b"", header, NOW), 1, 0.0) == (Delivery.PENDING, 0.0)
    assert delivery_after(attempt_of(429, 0.1, b"", "1", NOW), 3, 0.5) == (Delivery.PENDING, 10.0)


@pytest.mark.parametrize(("status", "failing"), [(None, True), (500, True), (429, True), (404, False), (302, False)])
def test_a_receiver_that_answers_at_all_is_in_no_trouble(status, failing):
    """Spec: B6"""
    assert Attempt(status, 0.1).receiver_failing is failing


def test_of_an_answer_nothing_is_kept_that_could_play_tricks():
    """Spec: B6"""
    raw = "line\n\ttab \x1b[31mred\x00 \u202egnp.exe \x9b \ud800".encode("utf-8", "surrogatepass") + b"\xff"
    text = body_text(raw)
    assert text.startswith("line\n\ttab �[31mred�")
    assert all(letter.isprintable() or letter in "\n\t" for letter in text)
    assert len(body_text("ü".encode() * 5000).encode()) == MAX_BODY_BYTES


@given(st.binary(max_size=5000))
def test_whatever_is_answered_can_be_kept(body):
    """Spec: B6"""
    text = body_text(body)
    assert len(text.encode()) <= MAX_BODY_BYTES
    assert "\0" not in text


def test_turns_go_on_behind_whoever_got_the_last_place_that_others_did_not_get():
    """Spec: X12"""
    assert in_turn([3, 1, 2], None) == [1, 2, 3]
    assert in_turn([1, 2, 3], last_served([1])) == [2, 3, 1]
    assert in_turn([1, 2, 3], last_served([2, 2, 3, 1])) == [3, 1, 2]
    assert in_turn([1, 2, 3], last_served([3])) == [1, 2, 3]
