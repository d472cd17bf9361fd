"""A unique key made of arguments is the same for all texts that say the same."""

import pytest

from headgate.core.errors import Invalid
from headgate.core.task import MAX_NAME, NewTask, TaskType, check_new_task, longest_debounce_seconds
from headgate.core.type_defaults import with_type_defaults
from headgate.core.unique import unique_key_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[1,2]}', '{ "b": [1, 2],\n"a": 1 }'),
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":{"x":[1.0,{"y":-0.0}]}}', '{"a":{"x":[1,{"y":0}]}}'),
        ('{"a":"ü"}', '{"a":"\\u00fc"}'),
    ],
)
def test_what_says_the_same_has_the_same_key(one, other):
    """Spec: X2"""
    assert unique_key_of(one) == unique_key_of(other)
    assert len(unique_key_of(one)) < MAX_NAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{}", "[]"),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":true}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":null}', "{}"),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":1.5}', '{"a":1}'),
    ],
)
def test_what_says_something_else_has_another_key(one, other):
    """Spec: X2"""
    assert unique_key_of(one) != unique_key_of(other)


def filled(new):
    check_new_task(new)
    return with_type_defaults(new, TaskType("plain"))


def new_task(**fields):
    return NewTask("plain", **{"unique_key": "k", **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unique_seconds": 0}, "unique_seconds is out of range"),
        ({"unique_seconds": -1}, "unique_seconds is out of range"),
        ({"unique_seconds": True}, "a number of seconds"),
        ({"debounce_seconds": 0}, "debounce_seconds is out of range"),
        ({"debounce_longest_seconds": 5}, "needs debounce_seconds"),
        ({"debounce_seconds": 5, "debounce_longest_seconds": 4}, "at least debounce_seconds"),
        ({"debounce_seconds": 5, "unique_seconds": 5}, "not both"),
        ({"debounce_seconds": 5, "delay_seconds": 5}, "debounce_seconds sets the start"),
        ({"debounce_seconds": 5, "parent_id": 5}, "a child cannot be debounced"),
    ],
)
def test_a_task_that_asks_for_two_things_or_nothing_is_refused(fields, message):
    """Spec: X2"""
    with pytest.raises(Invalid, match=message):
        filled(new_task(**fields))


@pytest.mark.parametrize("option", ["unique_seconds", "debounce_seconds"])
def test_what_is_unique_for_a_while_has_a_key_of_its_own_or_of_its_type(option):
    """Spec: X2"""
    new = new_task(unique_key=None, **{option: 1})
    with pytest.raises(Invalid, match="need a unique_key"):
        with_type_defaults(new, TaskType("plain"))
    assert with_type_defaults(new, TaskType("plain", unique_key="k")).unique_key == "k"


def test_a_debounced_task_waits_for_ten_times_as_long_at_most_unless_it_says():
    """Spec: X2"""
    check_new_task(new_task(debounce_seconds=5, debounce_longest_seconds=5))
    assert longest_debounce_seconds(new_task(debounce_seconds=5)) == 50
    assert longest_debounce_seconds(new_task(debounce_seconds=5, debounce_longest_seconds=7)) == 7
