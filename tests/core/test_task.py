"""What a caller may ask for, and what may be stored."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import Invalid
from headgate.core.task import (
    DEFAULT_PRIORITY,
    MAX_JSON_BYTES,
    MAX_JSON_DEPTH,
    MAX_NAME,
    NewTask,
    Task,
    TaskType,
    check_json,
    check_new_task,
    clip,
)

NAMES = ("type", "name", "lane", "category", "mutex", "rate_key", "agent_id", "unique_key", "correlation_id")
NUMBERS = ("tenant_id", "creator", "parent_id", "retry_of")
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def new(**fields: Any) -> NewTask:
    return NewTask(**({"type": "scan"} | fields))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def refuses(field: str, **fields: Any) -> None:
    with pytest.raises(Invalid, match=rf"\b{field}\b") as refused:
        check_new_task(new(**fields))
    assert refused.value.status == 422


def test_a_task_has_b_s_fields_by_their_names():
    """Spec: B1"""
    names = """id tenant_id type creator start_time status executing_deadline exec_id error_count error_info category
    remark ext result exec_time create_date update_date"""
    assert set(names.split()) <= set(Task.__dataclass_fields__)


def test_a_task_asks_for_nothing_but_its_type():
    """Spec: Conflicts, settled (Priority; Ids)"""
    check_new_task(NewTask("scan"))
    assert (TaskType("scan").priority, NewTask("scan").tenant_id, NewTask("scan").creator) == (5, 0, 0)
    assert DEFAULT_PRIORITY == 5


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\0b", "NUL"),
        ("a\ud800b", "surrogate"),
        ("x" * (MAX_NAME + 1), "longer"),
        (7, "text"),
    ],
    ids=["NUL", "lone surrogate", "too long", "no text"],
)
def test_a_bad_name_is_refused_by_its_field(field, value, why):
    """Spec: B1"""
    refuses(field, **{field: value})
    with pytest.raises(Invalid, match=why):
        check_new_task(new(**{field: value}))


@pytest.mark.parametrize("field", sorted(set(NAMES) - {"name", "category"}))
def test_a_name_that_must_say_something_is_refused_empty(field):
    """Spec: B1"""
    refuses(field, **{field: ""})


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize("value", ["x" * MAX_NAME, "下载 🎬", "a b/c:d.e-f", "'; DROP TABLE headgate_task; --"])
def test_any_text_within_its_length_is_a_name(field, value):
    """Spec: B1"""
    check_new_task(new(**{field: value}))


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.5, "1"], ids=repr)
def test_a_bad_id_is_refused_by_its_field(field, value):
    """Spec: Conflicts, settled (Ids)"""
    refuses(field, **{field: value})


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0])
def test_any_number_of_64_bits_is_an_id(field, value):
    """Spec: Conflicts, settled (Ids)"""
    check_new_task(new(**{field: value}))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.5, "1"], ids=repr)
def test_a_bad_priority_is_refused(value):
    """Spec: Conflicts, settled (Priority)"""
    refuses("priority", priority=value)


@pytest.mark.parametrize("value", [-5, 0, 1, 10, 10**9])
def test_any_integer_is_a_priority(value):
    """Spec: Conflicts, settled (Priority)"""
    check_new_task(new(priority=value))


@pytest.mark.parametrize("value", [-1, 2**63, True, 1.5], ids=repr)
def test_a_bad_number_of_retries_is_refused(value):
    """Spec: Conflicts, settled (Counting)"""
    refuses("max_error_count", max_error_count=value)


BAD: dict[str, list[Any]] = {
    "timeout_seconds": [0, -1, float("nan"), float("inf"), True, "60"],
    "delay_seconds": [-1, float("nan"), float("inf"), True, "60"],
    "start_time": [datetime(2030, 1, 1), "2030-01-01T00:00:00Z"],  # noqa: DTZ001
    "ext": [{"a": 1}, b"{}"],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in BAD for value in BAD[field]])
def test_a_bad_time_or_argument_is_refused_by_its_field(field, value):
    """Spec: B1"""
    refuses(field, **{field: value})


def test_a_start_time_and_a_delay_together_are_refused_by_both_names():
    """Spec: B1"""
    refuses("start_time", start_time=LATER, delay_seconds=1)
    refuses("delay_seconds", start_time=LATER, delay_seconds=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"start_time": LATER},
        {"start_time": LATER.astimezone(timezone(timedelta(hours=8)))},
        {"delay_seconds": 0},
        {"delay_seconds": 86400.5},
        {"timeout_seconds": 0.001},
        {"timeout_seconds": 1800},
        {"max_error_count": 0},
        {"max_error_count": 100},
    ],
    ids=repr,
)
def test_a_sensible_time_or_count_is_accepted(fields):
    """Spec: B1"""
    check_new_task(new(**fields))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut off"),
        pytest.param("{'a': 1}", id="python"),
        pytest.param('{"a": NaN}', id="NaN"),
        pytest.param("[Infinity]", id="Infinity"),
        pytest.param("[-Infinity]", id="-Infinity"),
        pytest.param('"\0"', id="NUL"),
        pytest.param('"\ud800"', id="lone surrogate"),
        pytest.param("9" * 5000, id="a number of 5000 digits"),
        pytest.param(nested(MAX_JSON_DEPTH + 1), id="too deep"),
        pytest.param('{"a":' * 65 + "1" + "}" * 65, id="objects too deep"),
        pytest.param(nested(100_000), id="deeper than the stack"),
        pytest.param('"' + "x" * (MAX_JSON_BYTES - 1) + '"', id="a byte too long"),
        pytest.param('"' + "é" * (MAX_JSON_BYTES // 2) + '"', id="too long in bytes, not in characters"),
    ],
)
def test_arguments_that_cannot_be_stored_and_read_again_are_refused(text):
    """Spec: B1"""
    refuses("ext", ext=text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("null", id="null"),
        pytest.param('{"a": [1, 2.5, "下载", true]}', id="of everything"),
        pytest.param(nested(MAX_JSON_DEPTH), id="just deep enough"),
        pytest.param("[" + "[]," * 1000 + "{}]", id="wide"),
        pytest.param(json.dumps("[" * 1000), id="brackets in text"),
        pytest.param('"' + "x" * (MAX_JSON_BYTES - 2) + '"', id="just short enough"),
    ],
)
def test_any_other_json_is_accepted(text):
    """Spec: B1"""
    check_new_task(new(ext=text))


def test_a_caller_may_set_a_tighter_limit_for_json():
    """Spec: B1"""
    check_json("progress", '"123"', limit=5)
    with pytest.raises(Invalid, match="progress is 6 bytes long; the maximum is 5"):
        check_json("progress", '"1234"', limit=5)


@given(st.text(st.characters(), max_size=50), st.integers(0, 60))
def test_clipped_text_can_be_stored_and_is_cut_at_a_character(text, limit):
    """Spec: A12"""
    clipped = clip(text, limit)
    whole = "".join("?" if "\ud800" <= letter <= "\udfff" else letter for letter in text).replace("\0", "�")
    assert len(clipped.encode()) <= limit
    assert "\0" not in clipped
    assert whole.startswith(clipped)
    assert clipped == whole or len(whole[: len(clipped) + 1].encode()) > limit


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"code": ""}, "type"),
        ({"code": "a\0"}, "type"),
        ({"lane": ""}, "lane"),
        ({"uses": ("",)}, "resource"),
        ({"uses": ("a,b",)}, "comma"),
        ({"timeout_seconds": 0}, "timeout"),
        ({"timeout_seconds": float("nan")}, "timeout"),
        ({"unknown_errors": "maybe"}, "unknown_errors"),
    ],
    ids=repr,
)
def test_a_type_that_says_nothing_sensible_is_refused(settings, why):
    """Spec: B5"""
    with pytest.raises(Invalid, match=why):
        TaskType(**({"code": "scan"} | settings))
