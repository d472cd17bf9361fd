"""Which handlers wait for each other in a circle, and which merely wait."""

import itertools
from datetime import UTC, datetime

import pytest

from headgate.core.holds import Hold, circle, deadlock

NOW = datetime(2026, 3, 1, tzinfo=UTC)
numbers = itertools.count(1)


def held(task_id, resource, tenant_id=0):
    return Hold(next(numbers), resource, task_id, tenant_id, True, 0, NOW)


def waits(task_id, resource, *keeps, tenant_id=0):
    return Hold(next(numbers), resource, task_id, tenant_id, False, 0, NOW, keeps)


def found(own, *others, **capacities):
    """The tasks that it would wait in a circle with."""
    rooms = {hold.resource: capacities.get(hold.resource, 1) for hold in (own, *others)}
    return sorted(hold.task_id for hold in circle(own, (own, *others), rooms) if hold is not own)


def test_two_that_each_hold_what_the_other_waits_for_are_a_circle():
    others = (held(1, "a"), held(2, "b"), waits(1, "b", "a"))
    assert found(waits(2, "a", "b"), *others) == [1]


@pytest.mark.parametrize("length", [3, 4, 7])
def test_a_circle_of_any_length_is_found_and_only_by_those_in_it(length):
    ring = [held(number, str(number)) for number in range(length)]
    ring += [waits(number, str(number + 1), str(number)) for number in range(length - 1)]
    last = waits(length - 1, "0", str(length - 1))
    assert found(last, *ring) == list(range(length - 1))
    behind = (held(90, "z"), waits(90, "1", "z"))
    assert found(behind[1], last, *ring, behind[0]) == []
    assert found(last, *ring, *behind) == list(range(length - 1))


def test_those_that_wait_for_a_handler_which_waits_for_nobody_are_no_circle():
    assert found(waits(2, "a", "b"), held(1, "a"), held(2, "b"), waits(3, "b")) == []


def test_one_that_keeps_nothing_while_it_waits_is_in_no_circle():
    others = (held(1, "a"), held(2, "b"), waits(1, "b"))
    assert found(waits(2, "a", "b"), *others) == []
    assert found(waits(2, "a"), *others[:2], waits(1, "b", "a")) == []


def test_a_resource_of_which_somebody_else_has_one_closes_no_circle_and_one_that_is_all_kept_does():
    others = (held(1, "a"), held(2, "b"), waits(1, "b", "a"))
    assert found(waits(2, "a", "b"), *others, held(3, "a"), a=2) == []
    assert found(waits(2, "a", "b"), *others, a=2) == []
    kept_too = (held(3, "a"), waits(3, "b", "a"))
    assert found(waits(2, "a", "b"), *others, *kept_too, a=2) == [1, 3]


def test_a_capacity_of_none_is_no_circle_by_itself():
    assert found(waits(2, "a", "b"), held(2, "b"), a=0) == []


def test_a_deadlock_names_the_tasks_of_its_tenant_and_counts_the_others():
    """Spec: B11"""
    own, others = waits(2, "a", "b"), (waits(7, "b", "a"), waits(8, "b", "a", tenant_id=1))
    assert str(deadlock(own, (own, *others))) == (
        "task 2 would wait for resource a in a circle with task 7, 1 task of other tenants: it keeps b meanwhile."
        " Take resources in the same order everywhere"
    )
