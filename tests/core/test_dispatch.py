"""How many tasks may be handed to the broker."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.dispatch import Budget, budgets

A, B, AB = frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})


def test_pools_of_the_same_types_are_one_budget():
    """Spec: D1"""
    assert budgets([(AB, 3), (AB, 2), (A, 1)], {}) == [Budget(AB, 5), Budget(A, 1)]


def test_what_the_broker_holds_is_counted_against_the_smallest_set_that_serves_it():
    """Spec: D1"""
    assert budgets([(AB, 2), (A, 1)], {"a": 2}) == [Budget(AB, 1)]
    assert budgets([(AB, 2), (A, 1)], {"b": 1}) == [Budget(AB, 1), Budget(A, 1)]


def test_a_pool_that_is_overfull_owes_nothing_to_the_others():
    """Spec: D1"""
    assert budgets([(A, -3), (A, 2)], {"a": 1}) == [Budget(A, 1)]


@given(
    st.lists(st.tuples(st.sampled_from([A, B, AB]), st.integers(-2, 5)), max_size=6),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 8)),
)
def test_all_budgets_together_never_exceed_the_free_slots(slots, in_broker):
    """Spec: D1"""
    free = sum(max(count, 0) for _, count in slots)
    served = {code for types, count in slots for code in types if count > 0}
    given_out = sum(budget.free for budget in budgets(slots, in_broker))
    held = sum(count for code, count in in_broker.items() if code in served)
    assert max(free - held, 0) <= given_out <= free
