"""Receivers apart from each other: who has room, who is left alone, who is tried again."""

import pytest

from headgate.duties.hosts import LONGEST_REST_SECONDS, TROUBLES, Host, Hosts


def troubled(host: Host, times: int, now: float) -> None:
    for _ in range(times):
        host.under_way += 1
        host.ended(True, now)


def test_a_receiver_has_so_many_at_once_and_no_more():
    """Spec: B6"""
    hosts = Hosts(per_host=3, places=100)
    for _ in range(3):
        assert hosts.room("a", 0.0, hosts.free) > 0
        hosts.begin("a")
    assert (hosts.room("a", 0.0, hosts.free), hosts.room("b", 0.0, hosts.free)) == (0, 3)
    hosts.end("a", False, 0.0)
    assert hosts.room("a", 0.0, hosts.free) == 1


def test_no_number_of_hanging_receivers_takes_every_place():
    """Spec: B6"""
    hosts = Hosts(per_host=10, places=64)
    hosts.begin("well")
    hosts.end("well", False, 0.0)
    for number in range(100):
        for _ in range(hosts.room(f"hanging {number}", 0.0, hosts.free)):
            hosts.begin(f"hanging {number}")
    assert hosts.room("unknown", 0.0, hosts.free) == 0
    assert hosts.room("well", 0.0, hosts.free) == 2


def test_after_troubles_in_a_row_it_rests_and_then_one_finds_out():
    """Spec: B6"""
    host = Host()
    troubled(host, TROUBLES - 1, 0.0)
    assert not host.is_shut
    troubled(host, 1, 0.0)
    assert host.is_shut
    assert host.room(10, 0.0) == 0
    assert 2.5 <= host.rests_until <= 5.0
    assert host.room(10, host.rests_until) == 1
    host.under_way += 1
    assert host.room(10, host.rests_until) == 0
    host.ended(False, host.rests_until)
    assert (host.is_shut, host.room(10, 100.0)) == (False, 10)


def test_it_rests_longer_each_time_and_minutes_at_most():
    """Spec: B6"""
    host, now, rests = Host(), 0.0, []
    troubled(host, TROUBLES, now)
    for _ in range(12):
        rests.append(host.rests_until - now)
        now = host.rests_until
        troubled(host, 1, now)
    assert rests[3] > rests[0]
    assert LONGEST_REST_SECONDS / 2 <= rests[-1] <= LONGEST_REST_SECONDS


def test_those_that_were_under_way_when_it_fell_ill_do_not_make_it_worse():
    """Spec: B6"""
    host = Host()
    host.under_way = 10
    for _ in range(10):
        host.ended(True, 15.0)
    assert host.rests_until <= 20.0


@pytest.mark.parametrize("ends_well", [True, False])
def test_whoever_is_well_and_idle_is_forgotten(ends_well):
    """Spec: B6"""
    hosts = Hosts(per_host=2, places=10)
    hosts.begin("a")
    hosts.end("a", not ends_well, 0.0)
    assert (len(hosts._known) == 0) is ends_well
