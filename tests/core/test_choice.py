"""The choice among many: what may start now, against an oracle that tries everything."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.choice import Candidate, choose
from headgate.core.errors import Invalid
from headgate.core.turns import MOST_KNOWN, SLOTS, Turn, Turns, check_weight

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


TENANTS = {"tenants": 3, "most": 20}
WEIGHTS = st.dictionaries(st.integers(0, 2), st.sampled_from([0.5, 1.0, 3.0]))


@st.composite
def histories(draw: st.DrawFn) -> Turns:
    """What a process may know of earlier starts."""
    turns = Turns()
    for thing in draw(st.lists(st.sampled_from([SLOTS, *GATES]), max_size=6)):
        tenant_id, place, step = draw(st.integers(0, 2)), draw(st.integers(0, 5)), draw(st.sampled_from([0.5, 1.0]))
        turns.use([Turn(thing, tenant_id, place, step, draw(st.integers(0, place)))])
    return turns


@given(candidates(**TENANTS), ROOMS, st.integers(0, 8), histories(), WEIGHTS)
def test_no_room_no_mutex_and_no_limit_is_ever_exceeded(waiting, room, limit, turns, weights):
    """Spec: A10, C2, C3"""
    choice = choose(waiting, room, limit, turns, weights)
    assert fits(choice.chosen, room, limit)
    assert len(set(choice.chosen)) == len(choice.chosen)
    used = Counter(gate for candidate in choice.chosen for gate in candidate.gates if gate in room)
    assert {gate: count for gate, count in choice.taken.items() if count} == used


@given(candidates(**TENANTS), ROOMS, st.integers(0, 8), histories(), WEIGHTS)
def test_whoever_is_left_out_is_shut_out_by_those_that_start(waiting, room, limit, turns, weights):
    """Spec: One engine, five views (a task starts when every gate is open)"""
    chosen = choose(waiting, room, limit, turns, weights).chosen
    for left_out in set(waiting) - set(chosen):
        assert not fits([*chosen, left_out], room, limit)


@given(candidates(**TENANTS), ROOMS, st.integers(0, 8), histories(), WEIGHTS)
def test_each_tenant_s_own_come_by_priority_then_id_as_far_as_every_gate_has_room(waiting, room, limit, turns, weights):
    """Spec: A4"""
    chosen = choose(waiting, room, limit, turns, weights).chosen
    for number, candidate in enumerate(chosen):
        own = [c for c in waiting if c.tenant_id == candidate.tenant_id and c < candidate]
        assert all(c in chosen[:number] or not fits([*chosen[:number], c], room, limit) for c in own)


@given(candidates(tenants=3, most=12), ROOMS, st.integers(0, 8), histories(), WEIGHTS, st.randoms())
def test_the_order_in_which_candidates_are_found_decides_nothing(waiting, room, limit, turns, weights, random):
    """Spec: A4 (stable, also under concurrency)"""
    shuffled = random.sample(waiting, len(waiting))
    assert choose(shuffled, room, limit, turns, weights).chosen == choose(waiting, room, limit, turns, weights).chosen


@given(candidates(tenants=3, most=12), ROOMS, st.integers(0, 8), histories(), WEIGHTS)
def test_a_choice_changes_nothing_that_it_was_given(waiting, room, limit, turns, weights):
    """Spec: A4"""
    assert choose(waiting, room, limit, turns, weights).turns == choose(waiting, room, limit, turns, weights).turns


def crowd(tenant: int, count: int, first_id: int, *gates: str, priority: int = 5) -> list[Candidate]:
    return [Candidate(priority, first_id + n, tenant, tenant, gates) for n in range(count)]


def served(claims: Iterable[list[Candidate]], turns: Turns, weights: Mapping[int, float], **room: int) -> list[int]:
    """The tenants that claims of one task each serve, one after the other."""
    found = []
    for waiting in claims:
        choice = choose(waiting, room, 1, turns, weights)
        turns.use(choice.turns_of(c.id for c in choice.chosen))
        found += [c.tenant_id for c in choice.chosen]
    return found


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 20), st.integers(0, 9), st.integers(0, 9))
def test_two_tenants_get_equal_shares_as_far_as_they_need_them_whatever_their_priorities(
    first, second, limit, priority, other
):
    """Spec: A4, X12, B11"""
    waiting = crowd(1, first, 1, priority=priority) + crowd(2, second, 1000, priority=other)
    got = Counter(candidate.tenant_id for candidate in choose(waiting, {}, limit).chosen)
    assert got.total() == min(limit, first + second)
    assert got[1] >= min(first, limit // 2)
    assert got[2] >= min(second, limit // 2)


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=2, max_size=4), st.integers(1, 4))
def test_tenants_that_always_have_work_are_served_in_proportion_to_their_weights(shares, limit):
    """Spec: A4, X12 (in one claim or in many, nobody is more than a turn behind)"""
    weights, turns, got = dict(enumerate(shares)), Turns(), Counter[int]()
    waiting = [each for tenant in weights for each in crowd(tenant, 9, 100 * tenant + 1)]
    for _ in range(60):
        choice = choose(waiting, {}, limit, turns, weights)
        turns.use(choice.turns_of(c.id for c in choice.chosen))
        got.update(c.tenant_id for c in choice.chosen)
        rounds = [got[tenant] / weight for tenant, weight in weights.items()]
        assert max(rounds) - min(rounds) <= 2 / min(shares)


def test_one_tenant_s_urgent_flood_does_not_delay_another_s_task_by_more_than_one_start():
    """Spec: A4, X12"""
    flood, own = crowd(1, 50, 1, priority=-9), crowd(2, 1, 1000)
    turns = Turns()
    served([flood] * 20, turns, {})
    assert 2 in served([flood + own] * 2, turns, {})


def test_a_tenant_that_was_away_has_saved_up_nothing():
    """Spec: X12"""
    turns = Turns()
    two, three = crowd(1, 9, 1) + crowd(2, 9, 100), crowd(3, 9, 200)
    assert served([two] * 40, turns, {}).count(1) == 20
    assert served([two + three] * 6, turns, {}).count(3) == 2


def test_a_shared_lane_is_handed_round_even_if_one_of_the_tenants_is_busy_elsewhere():
    """Spec: X12 (or a flood of one tenant would keep a tenant that is well served elsewhere out of the lane)"""
    turns, got, busy = Turns(), Counter[tuple[int, bool]](), 0
    waiting = crowd(1, 3, 1, "lane") + crowd(1, 5, 100) + crowd(3, 5, 200) + crowd(2, 5, 300, "lane")
    for _ in range(300):
        choice = choose(waiting, {"lane": 0 if busy else 1}, 1, turns)
        turns.use(choice.turns_of(c.id for c in choice.chosen))
        [chosen] = choice.chosen
        busy = 7 if chosen.gates else max(busy - 1, 0)
        got[chosen.tenant_id, bool(chosen.gates)] += 1
    assert abs(got[1, True] - got[2, True]) <= 1
    assert got[2, True] > 10


def test_a_tenant_that_wants_something_else_first_keeps_nobody_out_of_a_shared_lane():
    """Spec: X12 (or one task that is never next would shut the lane to all others)"""
    decoy = crowd(2, 9, 100, priority=1) + crowd(2, 1, 1, "lane", priority=9)
    assert served([decoy + crowd(1, 9, 200, "lane")] * 4, Turns(), {}, lane=1) == [1, 2, 1, 2]


def test_where_each_waits_for_another_s_turn_somebody_starts_all_the_same():
    """Spec: X12 (no room stays empty for the sake of the order)"""
    turns = Turns()
    turns.use([Turn("lane", 1, 0.0, 1.0, 0.0), Turn("rate", 2, 0.0, 1.0, 0.0)])
    waiting = crowd(1, 1, 1, "lane", "rate") + crowd(2, 1, 9, "lane", "rate")
    assert len(choose(waiting, {"lane": 1, "rate": 1}, 1, turns).chosen) == 1


def test_processes_that_start_one_task_each_serve_tenants_by_weight_all_the_same():
    """Spec: X12 (what a process knows goes with it)"""
    waiting, draw = crowd(1, 9, 1) + crowd(2, 9, 100), Random(7).random
    got = Counter(served([waiting], Turns(draw), {2: 3.0})[0] for _ in range(2000))
    assert 2.5 < got[2] / got[1] < 3.5


def test_claims_made_side_by_side_add_up():
    """Spec: X12"""
    waiting, turns = crowd(1, 9, 1) + crowd(2, 9, 100), Turns()
    choices = [choose(waiting, {}, 1, turns) for _ in range(3)]
    for choice in choices:
        turns.use(choice.turns_of(c.id for c in choice.chosen))
    assert served([waiting] * 3, turns, {}) == [2, 2, 2]


def test_only_so_much_is_remembered_of_what_tenants_shared():
    """Spec: X12"""
    turns = Turns()
    for number in range(3 * MOST_KNOWN):
        turns.use([Turn(SLOTS, number, 0.0, 1.0, 0.0), Turn(f"lane {number}", 1, 0.0, 1.0, 0.0)])
    known = turns._places
    assert len(known) <= MOST_KNOWN
    assert all(len(places) <= MOST_KNOWN for places in known.values())


def test_a_task_waiting_at_a_shut_gate_does_not_use_up_its_tenant_s_turn():
    """Spec: B11 (or a tenant with much in a full lane would never start what it has in an open one)"""
    waiting = crowd(1, 10, 1, "full") + crowd(1, 5, 100) + crowd(2, 10, 1000)
    got = Counter(candidate.tenant_id for candidate in choose(waiting, {"full": 0}, 4).chosen)
    assert got == {1: 2, 2: 2}


def test_a_tenant_that_is_alone_uses_no_turn():
    """Spec: X12"""
    assert choose(crowd(1, 9, 1) + crowd(2, 9, 100, "full"), {"full": 0}, 4).turns == {}


def test_one_key_in_two_tenants_is_two_mutexes():
    """Spec: A10, B11"""
    waiting = [Candidate(5, n, tenant, tenant, mutex="film") for n, tenant in enumerate([1, 1, 2, 2], start=1)]
    assert [candidate.id for candidate in choose(waiting, {}, 9).chosen] == [1, 3]


@pytest.mark.parametrize("weight", [0, -1, 0.001, 1001, float("nan"), float("inf"), True])
def test_a_weight_out_of_bounds_is_refused_by_its_value(weight):
    """Spec: X12"""
    with pytest.raises(Invalid, match=r"between 0.01 and 1000"):
        check_weight(weight)
