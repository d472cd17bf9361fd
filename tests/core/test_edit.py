"""What a person may change about a dead task: which fields, how they are checked, and what the audit is told."""

import pytest

from headgate.core.edit import Edit, changes_as_json, changes_of
from headgate.core.errors import Invalid
from headgate.core.states import State
from headgate.core.task import TaskType
from tests.core.factories import a_task

PLAIN = TaskType("scan")
KEYED = TaskType("scan", mutex="film:{film}", unique_key="{film}", defaults={"film": 0})


def edited(edit, task_type=PLAIN, **fields):
    return changes_of(a_task(State.DEAD, **fields), edit, task_type)


def test_an_edit_that_says_nothing_changes_nothing():
    """Spec: B7, D12"""
    assert edited(Edit()) == {}
    assert edited(Edit(ext="{}", priority=5, lane="default")) == {}
    assert edited(Edit(merge={"a": 1}), ext='{"a": 1}') == {}


def test_each_field_is_told_with_what_it_was():
    """Spec: B7, D12"""
    edit = Edit(ext='{"a": 2}', priority=1, lane="fast", timeout_seconds=9.5, max_error_count=0)
    assert edited(edit, ext='{"a": 1}') == {
        "ext": ('{"a": 1}', '{"a": 2}'), "priority": (5, 1), "lane": ("default", "fast"),
        "timeout_seconds": (None, 9.5), "max_error_count": (None, 0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "merge", "merged"),
    [
        ('{"a": 1}', {"b": [2]}, '{"a": 1, "b": [2]}'),
        ('{"a": 1, "b": 2}', {"a": None}, '{"b": 2}'),
        ('{"a": null}', {"b": 1}, '{"a": null, "b": 1}'),
        ('{"a": {"x": 1}}', {"a": {"y": 2}}, '{"a": {"y": 2}}'),
        ('{"a": "é"}', {"b": "中"}, '{"a": "é", "b": "中"}'),
    ],
)
def test_a_merge_sets_arguments_and_removes_those_set_to_null(own, merge, merged):
    """Spec: B7, D12"""
    assert edited(Edit(merge=merge), ext=own)["ext"] == (own, merged)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ext": "{"}, "ext is not JSON"),
        ({"ext": '"' + "x" * 300_000 + '"'}, "ext is 300002 bytes"),
        ({"priority": 1 << 63}, "priority"),
        ({"lane": ""}, "lane is empty"),
        ({"lane": "*"}, "every lane"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"max_error_count": -1}, "max_error_count"),
        ({"merge": {"a": "x" * 300_000}}, "bytes long"),
    ],
)
def test_what_could_not_have_been_submitted_cannot_be_edited_in(values, message):
    """Spec: B7, D12"""
    with pytest.raises(Invalid, match=message):
        edited(Edit(**values))


def test_a_merge_needs_an_object_and_no_ext_beside_it():
    """Spec: B7, D12"""
    with pytest.raises(Invalid, match="not an object"):
        edited(Edit(merge={"a": 1}), ext="[1]")
    with pytest.raises(Invalid, match="not both"):
        Edit(ext="{}", merge={})


def test_keys_that_were_made_of_the_arguments_follow_them():
    """Spec: A10, D12"""
    changes = edited(Edit(merge={"film": 8}), KEYED, ext='{"film": 7}', mutex="film:7", unique_key="7")
    assert (changes["mutex"], changes["unique_key"]) == (("film:7", "film:8"), ("7", "8"))
    by_default = edited(Edit(merge={"film": None}), KEYED, ext='{"film": 7}', mutex="film:7", unique_key="7")
    assert by_default["mutex"] == ("film:7", "film:0")


@pytest.mark.parametrize("mutex", ["mine", None])
def test_a_key_that_somebody_chose_stays(mutex):
    """Spec: A10, D12"""
    assert "mutex" not in edited(Edit(merge={"film": 8}), KEYED, ext='{"film": 7}', mutex=mutex)


def test_arguments_that_lack_what_a_key_is_made_of_are_refused():
    """Spec: A10, D12"""
    task_type = TaskType("scan", mutex="film:{film}")
    with pytest.raises(Invalid, match="the key '"):
        edited(Edit(ext="{}"), task_type, ext='{"film": 7}', mutex="film:7")


def test_the_audit_is_told_what_differs():
    """Spec: A12, D12"""
    changes = edited(Edit(merge={"a": 2, "c": None, "d": 4}, priority=1), ext='{"a": 1, "b": "long", "c": 3}')
    assert changes_as_json(changes) == {
        "ext.a": {"old": 1, "new": 2}, "ext.c": {"old": 3}, "ext.d": {"new": 4}, "priority": {"old": 5, "new": 1},
    }  # fmt: skip
    assert changes_as_json(edited(Edit(ext="[1]"))) == {"ext": {"old": {}, "new": [1]}}
