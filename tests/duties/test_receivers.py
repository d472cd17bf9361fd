"""Receivers apart from each other: who has room, who is left alone, who is tried again."""

import pytest

from headgate.core.callbacks import BLOCKED_SECONDS, Attempt
from headgate.duties.receivers import REST, TROUBLES_BEFORE_REST, Receiver, Receivers

OK, BAD = Attempt(200, 0.1), Attempt(500, 0.1)
NOT_ALLOWED = Attempt(None, 0.0, "not allowed", refused=True)


def troubled(receiver: Receiver, times: int, now: float) -> None:
    for _ in range(times):
        receiver.under_way += 1
        receiver.ended(BAD, now)


def test_a_receiver_has_so_many_at_once_and_no_more():
    """Spec: B6"""
    receivers = Receivers(per_receiver=3, places=100)
    for _ in range(3):
        assert receivers.room("a", 0.0, receivers.free) > 0
        receivers.begin("a")
    assert (receivers.room("a", 0.0, receivers.free), receivers.room("b", 0.0, receivers.free)) == (0, 3)
    receivers.end("a", OK, 0.0)
    assert receivers.room("a", 0.0, receivers.free) == 1


def test_no_number_of_hanging_receivers_takes_every_place():
    """Spec: B6"""
    receivers = Receivers(per_receiver=10, places=64)
    receivers.begin("well")
    receivers.end("well", OK, 0.0)
    for number in range(100):
        for _ in range(receivers.room(f"hanging {number}", 0.0, receivers.free)):
            receivers.begin(f"hanging {number}")
    assert receivers.room("unknown", 0.0, receivers.free) == 0
    assert receivers.room("well", 0.0, receivers.free) == 2


def test_after_troubles_in_a_row_it_rests_and_then_one_finds_out():
    """Spec: B6"""
    receiver = Receiver()
    troubled(receiver, TROUBLES_BEFORE_REST - 1, 0.0)
    assert not receiver.is_shut
    troubled(receiver, 1, 0.0)
    assert receiver.is_shut
    assert receiver.room(10, 0.0) == 0
    assert 2.5 <= receiver.rests_until <= 5.0
    assert receiver.room(10, receiver.rests_until) == 1
    receiver.under_way += 1
    assert receiver.room(10, receiver.rests_until) == 0
    receiver.ended(OK, receiver.rests_until)
    assert (receiver.is_shut, receiver.room(10, 100.0)) == (False, 10)


def test_it_rests_longer_each_time_and_minutes_at_most():
    """Spec: B6"""
    receiver, now, rests = Receiver(), 0.0, []
    troubled(receiver, TROUBLES_BEFORE_REST, now)
    for _ in range(12):
        rests.append(receiver.rests_until - now)
        now = receiver.rests_until
        troubled(receiver, 1, now)
    assert rests[3] > rests[0]
    assert REST.longest / 2 <= rests[-1] <= REST.longest


def test_those_that_were_under_way_when_it_fell_ill_do_not_make_it_worse():
    """Spec: B6"""
    receiver = Receiver()
    receiver.under_way = 10
    for _ in range(10):
        receiver.ended(BAD, 15.0)
    assert receiver.rests_until <= 20.0


@pytest.mark.parametrize("ends_well", [True, False])
def test_whoever_is_well_and_idle_is_forgotten(ends_well):
    """Spec: B6"""
    receivers = Receivers(per_receiver=2, places=10)
    receivers.begin("a")
    receivers.end("a", OK if ends_well else BAD, 0.0)
    assert (len(receivers._receivers) == 0) is ends_well


def test_one_that_is_not_allowed_rests_at_once_for_as_long_each_time_and_says_why():
    """Spec: B6"""
    receivers = Receivers(per_receiver=2, places=10)
    for now in (0.0, BLOCKED_SECONDS, 2 * BLOCKED_SECONDS):
        assert receivers.room("a", now, receivers.free) > 0
        receivers.begin("a")
        receivers.end("a", NOT_ALLOWED, now)
        assert receivers.rest("a", now) == (now + BLOCKED_SECONDS, True, "not allowed")
        assert receivers.room("a", now + BLOCKED_SECONDS - 1, receivers.free) == 0
    receivers.begin("a")
    receivers.end("a", OK, 3 * BLOCKED_SECONDS)
    assert receivers.rest("a", 3 * BLOCKED_SECONDS) is None
