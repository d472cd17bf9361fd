"""The choice among many: what may start now, against an oracle that tries everything."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.gates import Candidate, choose

GATES = ("lane", "resource", "rate")
ROOMS = st.dictionaries(st.sampled_from(GATES), st.integers(-1, 4))


def candidates(tenants: int, most: int) -> st.SearchStrategy[list[Candidate]]:
    one = st.builds(
        Candidate,
        priority=st.integers(-1, 2),
        id=st.integers(1, 99),
        tenant_id=st.integers(0, tenants - 1),
        stream_id=st.just(1),
        gates=st.lists(st.sampled_from(GATES), unique=True).map(tuple),
        mutex=st.sampled_from([None, None, "film", "song"]),
    )
    return st.lists(one, max_size=most, unique_by=lambda candidate: candidate.id)


def fits(chosen: Sequence[Candidate], room: Mapping[str, int], limit: int) -> bool:
    """Whether all of these may run together."""
    used = Counter(gate for candidate in chosen for gate in candidate.gates)
    keys = [(candidate.tenant_id, candidate.mutex) for candidate in chosen if candidate.mutex]
    return (
        len(chosen) <= limit
        and all(used[gate] <= room.get(gate, len(chosen)) for gate in used)
        and len(keys) == len(set(keys))
    )


def best(waiting: Sequence[Candidate], room: Mapping[str, int], limit: int) -> list[Candidate]:
    """Of all selections that fit, the one that leaves out the first in line last."""
    in_line = sorted(waiting, key=lambda candidate: (candidate.priority, candidate.id))
    selections = (
        [candidate for candidate, included in zip(in_line, mask, strict=True) if included]
        for mask in product([True, False], repeat=len(in_line))
    )
    return next(selection for selection in selections if fits(selection, room, limit))


@given(candidates(tenants=1, most=7), ROOMS, st.integers(0, 5))
def test_one_tenant_s_tasks_start_by_priority_then_id_as_far_as_every_gate_has_room(waiting, room, limit):
    """Spec: A4"""
    assert choose(waiting, room, limit).chosen == best(waiting, room, limit)


@given(candidates(tenants=3, most=20), ROOMS, st.integers(0, 8), st.integers(-1, 3))
def test_no_room_no_mutex_and_no_limit_is_ever_exceeded(waiting, room, limit, last):
    """Spec: A10, C2, C3"""
    choice = choose(waiting, room, limit, last)
    assert fits(choice.chosen, room, limit)
    assert len(set(choice.chosen)) == len(choice.chosen)
    used = Counter(gate for candidate in choice.chosen for gate in candidate.gates if gate in room)
    assert {gate: count for gate, count in choice.taken.items() if count} == used


@given(candidates(tenants=3, most=20), ROOMS, st.integers(0, 8), st.integers(-1, 3))
def test_whoever_is_left_out_was_shut_out_by_those_at_least_as_urgent(waiting, room, limit, last):
    """Spec: One engine, five views (a task starts when every gate is open)"""
    chosen = choose(waiting, room, limit, last).chosen
    for left_out in set(waiting) - set(chosen):
        ahead = [candidate for candidate in chosen if candidate.priority <= left_out.priority]
        assert not fits([*ahead, left_out], room, limit)


@given(candidates(tenants=3, most=20), ROOMS, st.integers(0, 8), st.integers(-1, 3))
def test_priority_comes_first_and_each_tenant_s_own_come_in_order(waiting, room, limit, last):
    """Spec: A4"""
    chosen = choose(waiting, room, limit, last).chosen
    assert [c.priority for c in chosen] == sorted(c.priority for c in chosen)
    for tenant in {c.tenant_id for c in chosen}:
        own = [(c.priority, c.id) for c in chosen if c.tenant_id == tenant]
        assert own == sorted(own)


@given(candidates(tenants=3, most=12), ROOMS, st.integers(0, 8), st.integers(-1, 3), st.randoms())
def test_the_order_in_which_candidates_are_found_decides_nothing(waiting, room, limit, last, random):
    """Spec: A4 (stable, also under concurrency)"""
    shuffled = random.sample(waiting, len(waiting))
    assert choose(shuffled, room, limit, last).chosen == choose(waiting, room, limit, last).chosen


def crowd(tenant: int, count: int, first_id: int, *gates: str) -> list[Candidate]:
    return [Candidate(5, first_id + n, tenant, tenant, gates) for n in range(count)]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 20), st.integers(-1, 2))
def test_two_tenants_at_one_priority_get_equal_shares_as_far_as_they_need_them(first, second, limit, last):
    """Spec: B11"""
    waiting = crowd(1, first, 1) + crowd(2, second, 1000)
    got = Counter(candidate.tenant_id for candidate in choose(waiting, {}, limit, last).chosen)
    assert got.total() == min(limit, first + second)
    assert got[1] >= min(first, limit // 2)
    assert got[2] >= min(second, limit // 2)


@pytest.mark.parametrize(
    ("last", "turns"), [(-1, [1, 2, 1, 2]), (0, [1, 2, 1, 2]), (1, [2, 1, 2, 1]), (2, [1, 2, 1, 2])]
)
def test_turns_begin_after_the_tenant_that_was_served_last(last, turns):
    """Spec: B11"""
    waiting = crowd(1, 9, 1) + crowd(2, 9, 1000)
    assert [candidate.tenant_id for candidate in choose(waiting, {}, 4, last).chosen] == turns


def test_a_task_waiting_at_a_shut_gate_does_not_use_up_its_tenant_s_turn():
    """Spec: B11 (or a tenant with much in a full lane would never start what it has in an open one)"""
    waiting = crowd(1, 10, 1, "full") + crowd(1, 5, 100) + crowd(2, 10, 1000)
    got = Counter(candidate.tenant_id for candidate in choose(waiting, {"full": 0}, 4).chosen)
    assert got == {1: 2, 2: 2}


def test_one_key_in_two_tenants_is_two_mutexes():
    """Spec: A10, B11"""
    waiting = [Candidate(5, n, tenant, tenant, mutex="film") for n, tenant in enumerate([1, 1, 2, 2], start=1)]
    assert [candidate.id for candidate in choose(waiting, {}, 9).chosen] == [1, 3]
