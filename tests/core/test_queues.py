"""The names of the broker's queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate.core.queues as queues
from headgate.core.queues import cut, queue_name, queues_of, routes, shared_queue_name


@pytest.mark.parametrize(
    ("lane", "type_code", "name"),
    [
        ("default", "mail", "headgate.tasks.default.mail"),
        ("a.b", "c", "headgate.tasks.a@2Eb.c"),
        ("a", "b.c", "headgate.tasks.a.b@2Ec"),
        ("*", "größe #1", "headgate.tasks.@2A.gr@C3@B6@C3@9Fe@20@231"),
        ("100%", "x", "headgate.tasks.100@25.x"),
    ],
)
def test_a_queue_is_named_after_its_lane_and_type(lane, type_code, name):
    """Spec: D1"""
    assert queue_name(lane, type_code) == name


@given(st.tuples(st.text(min_size=1), st.text(min_size=1)), st.tuples(st.text(min_size=1), st.text(min_size=1)))
def test_two_pairs_never_share_a_name_and_every_name_fits(one, other):
    """Spec: D1"""
    names = [queue_name(*one), queue_name(*other)]
    assert (names[0] == names[1]) == (one == other)
    assert all(name.isascii() and len(name) <= 255 for name in names)


def test_a_long_name_ends_with_a_digest_of_the_whole():
    """Spec: D1"""
    one, other = queue_name("x" * 200, "y" * 100 + "1"), queue_name("x" * 200, "y" * 100 + "2")
    assert one != other
    assert (len(one), len(other)) == (255, 255)
    assert cut(one) == one


def test_lanes_beyond_the_most_queues_share_one_for_each_type(monkeypatch):
    """Spec: D1"""
    monkeypatch.setattr(queues, "MOST_QUEUES", 2)
    found = routes([("a", "x"), ("a", "x"), ("b", "x"), ("c", "x"), ("c", "y")])
    assert found == {
        ("a", "x"): queue_name("a", "x"), ("b", "x"): queue_name("b", "x"),
        ("c", "x"): shared_queue_name("x"), ("c", "y"): shared_queue_name("y"),
    }  # fmt: skip


def test_who_consumes_a_type_finds_a_pair_that_moves_to_or_from_the_shared_queue(monkeypatch):
    """Spec: D1"""
    monkeypatch.setattr(queues, "MOST_QUEUES", 10)
    monkeypatch.setattr(queues, "SHARED_FROM", 9)
    pairs = [(f"lane {number}", "x") for number in range(11)]
    before, after = routes(pairs), routes(pairs[1:])
    assert (before[pairs[10]], after[pairs[10]]) == (shared_queue_name("x"), queue_name(*pairs[10]))
    for routed in (before, after, routes(pairs[2:])):
        assert queues_of(["x"], routed) == {*routed.values(), shared_queue_name("x")}
    assert shared_queue_name("x") not in queues_of(["x"], routes(pairs[3:])), "far from the limit there is none"
    assert queues_of(["y"], before) == {shared_queue_name("y")}
