"""What a new task takes from its type."""

from datetime import UTC, datetime

import pytest

from headgate.core.errors import Invalid
from headgate.core.task import NewTask, TaskType
from headgate.core.type_defaults import with_type_defaults
from headgate.core.unique import unique_key_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EXT = '{"document": 7}'
FOR_A_WHILE = TaskType("save", unique="arguments", unique_seconds=60)
DEBOUNCED = TaskType(
    "save", unique_key="d:{document}", debounce_seconds=5, debounce_longest_seconds=20, debounce_replace=False
)


def filled(task_type, **said):
    return with_type_defaults(NewTask("save", EXT, **said), task_type)


def debounce_of(new):
    return new.unique_key, new.debounce_seconds, new.debounce_longest_seconds, new.debounce_replace


def test_a_type_makes_the_unique_key_of_all_arguments():
    """Spec: X2"""
    assert filled(TaskType("save", unique="arguments")).unique_key == unique_key_of(EXT)
    assert filled(TaskType("save", unique="arguments"), unique_key="mine").unique_key == "mine"


def test_a_type_says_how_long_its_tasks_are_unique():
    """Spec: X2"""
    assert filled(FOR_A_WHILE).unique_seconds == 60
    assert filled(FOR_A_WHILE, unique_seconds=5).unique_seconds == 5
    child = filled(FOR_A_WHILE, parent_id=3, start_time=NOON)
    assert (child.unique_key, child.unique_seconds) == (unique_key_of(EXT), 60)


def test_a_type_debounces_its_tasks():
    """Spec: X2"""
    assert debounce_of(filled(DEBOUNCED)) == ("d:7", 5, 20, False)
    assert debounce_of(filled(DEBOUNCED, debounce_seconds=9)) == ("d:7", 9, 20, False)
    assert debounce_of(filled(DEBOUNCED, debounce_longest_seconds=6)) == ("d:7", 5, 6, False)
    assert debounce_of(filled(DEBOUNCED, debounce_replace=True)) == ("d:7", 5, 20, True)


def test_a_task_that_says_another_kind_of_period_has_that_one():
    """Spec: X2"""
    once = filled(DEBOUNCED, unique_seconds=9)
    assert (once.unique_key, once.unique_seconds, once.debounce_seconds) == ("d:7", 9, None)
    pushed = filled(FOR_A_WHILE, debounce_seconds=9)
    assert (pushed.unique_seconds, pushed.debounce_seconds, pushed.debounce_replace) == (None, 9, True)


@pytest.mark.parametrize("said", [{"start_time": NOON}, {"delay_seconds": 9}, {"parent_id": 3}, {"retry_of": 3}])
def test_a_task_with_its_own_start_or_parent_and_a_retry_stand_apart_from_those_that_are_debounced(said):
    """Spec: X2"""
    assert debounce_of(filled(DEBOUNCED, **said)) == (None, None, None, None)
    assert filled(DEBOUNCED, **said, unique_key="mine").unique_key == "mine"


def test_a_retry_is_made_though_its_task_is_unique_for_a_while():
    """Spec: X2"""
    assert filled(FOR_A_WHILE, retry_of=3).unique_seconds is None


def test_a_task_and_its_type_must_fit_together():
    """Spec: X2"""
    with pytest.raises(Invalid, match="debounce_longest_seconds must be at least debounce_seconds"):
        filled(DEBOUNCED, debounce_seconds=30)
    with pytest.raises(Invalid, match="debounce_longest_seconds needs debounce_seconds"):
        filled(FOR_A_WHILE, debounce_longest_seconds=30)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unique": "everything"}, "unique must be 'arguments', not 'everything'"),
        ({"unique": "arguments", "unique_key": "k"}, "give unique or unique_key, not both"),
        ({"unique_seconds": 5}, "need unique or unique_key"),
        ({"debounce_seconds": 5}, "need unique or unique_key"),
        ({"unique_key": "k", "unique_seconds": 0}, "unique_seconds is out of range"),
        ({"unique_key": "k", "debounce_longest_seconds": 5}, "needs debounce_seconds"),
        ({"unique_key": "k", "unique_seconds": 5, "debounce_seconds": 5}, "not both"),
        ({"debounce_replace": None}, "debounce_replace must be true or false"),
    ],
)
def test_a_type_whose_tasks_could_not_be_unique_so_is_refused(fields, message):
    """Spec: X2"""
    with pytest.raises(Invalid, match=message):
        TaskType("save", **fields)
