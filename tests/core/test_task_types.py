"""Types in B's words: edited word by word, compared without their secrets, and an edit foreseen."""

import math
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.errors import Invalid
from headgate.core.machine import Raised, decide
from headgate.core.retry import exponential, fixed, never, sequence, verdict
from headgate.core.states import FINAL, State
from headgate.core.task import TaskType
from headgate.core.task_types import (
    REDACTED,
    TYPE_FIELDS,
    UnfinishedTask,
    changes_of,
    edited,
    effects_of_edit,
    fields_of,
    inherited,
)
from tests.core.factories import NOW, a_task

PLAIN = TaskType("scan")
RICH = TaskType(
    "scan", "Scan", "media", "slow", ("disk",), exponential(5, factor=3, cap=60, retries=4), 90.0, True, "fail", {},
    "cancel", 2, "m:{a}", "r", "u", {"a": 1},
)  # fmt: skip


def test_a_type_has_b_s_words_and_is_the_same_when_they_are_said_again():
    """Spec: B5"""
    for task_type in (PLAIN, RICH, replace(PLAIN, retry=sequence([1, 2])), replace(PLAIN, retry=fixed(3, retries=2))):
        fields = fields_of(task_type)
        assert tuple(fields) == TYPE_FIELDS
        assert edited(PLAIN, fields) == task_type
        assert edited(task_type, {}) == task_type
    assert (fields_of(RICH)["timeout"], fields_of(RICH)["retry_strategy"]) == (1.5, "exponential")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": 1}, "no 'colour'"),
        ({"timout": 1}, "did you mean timeout"),
        ({"timeout": "long"}, "timeout must be a number"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"timeout": math.inf}, "timeout must be at most"),
        ({"timeout": 10**400}, "timeout must be at most"),
        ({"retry_interval": 1e300}, "retry_interval must be at most"),
        ({"retry_sequence": [1, math.inf]}, "retry_sequence must be at most"),
        ({"retry_sequence": [1] * 1001}, "at most 1000 numbers"),
        ({"retry_sequence": [True]}, "list of numbers"),
        ({"uses": [str(n) for n in range(51)]}, "at most 50 names"),
        ({"factor": 1e300}, "factor must be at most"),
        ({"max_error_count": 2**31}, "max_error_count must be at most"),
        ({"need_manual": 1}, "need_manual must be true or false"),
        ({"max_error_count": True}, "max_error_count must be a whole number"),
        ({"max_error_count": 1}, "max_error_count 0"),
        ({"retry_strategy": "often"}, "retry_strategy must be one of none"),
        ({"retry_strategy": "fixed_period"}, "above 0"),
        ({"retry_sequence": "1,2"}, "retry_sequence must be a list"),
        ({"retry_sequence": ["a"]}, "list of numbers"),
        ({"uses": [1]}, "list of names"),
        ({"mutex": 1}, "mutex must be text, or null"),
        ({"mutex": "{"}, "is not a template"),
        ({"defaults": []}, "defaults must be an object"),
        ({"lane": "*"}, "every lane"),
        ({"name": 7}, "name must be text"),
        ({"on_child_failure": "panic"}, "on_child_failure"),
    ],
)
def test_a_word_that_cannot_be_said_is_refused(values, message):
    """Spec: B5"""
    with pytest.raises(Invalid, match=message):
        edited(PLAIN, values)


def test_what_differs_is_told_with_what_it_was():
    """Spec: B5, A12"""
    after = replace(PLAIN, timeout_seconds=60.0, uses=("disk",), retry=fixed(30, retries=2))
    assert changes_of(PLAIN, after) == {
        "uses": {"old": [], "new": ["disk"]},
        "retry_strategy": {"old": "none", "new": "fixed_period"},
        "retry_interval": {"old": 0.0, "new": 30},
        "max_error_count": {"old": 0, "new": 2},
        "timeout": {"old": 30.0, "new": 1.0},
    }
    assert changes_of(PLAIN, PLAIN) == {}
    assert changes_of(None, replace(PLAIN, lane="slow")) == {"lane": {"new": "slow"}}
    assert changes_of(RICH, None)["lane"] == {"old": "slow"}


def test_a_secret_is_never_told_neither_old_nor_new():
    """Spec: B6, A12"""

    def keyed(sk: str) -> TaskType:
        security = {"type": "aksk", "ak": "us", "sk": sk}
        return replace(PLAIN, callback={"success": {"url": "https://a", "method": "POST"}, "security": security})

    assert changes_of(keyed("canary"), keyed("another")) == {"callback.security.sk": {"old": REDACTED, "new": REDACTED}}
    for before, after in (
        (None, keyed("canary")),
        (keyed("canary"), None),
        (PLAIN, keyed("canary")),
        (keyed("canary"), PLAIN),
    ):
        changes = changes_of(before, after)
        assert "callback.success.url" in changes
        assert "canary" not in str(changes)


def unfinished(status: State = State.QUEUED, errors: int = 0, own: int | None = None, **fields: Any) -> UnfinishedTask:
    columns = {"id": 1, "timeout_seconds": None, "lane": "default", "category": "", **fields}
    return UnfinishedTask(status=status, error_count=errors, max_error_count=own, **columns)


@pytest.mark.parametrize("status", sorted(set(State) - FINAL))
def test_tasks_are_counted_by_their_states(status):
    """Spec: B5"""
    assert effects_of_edit(PLAIN, PLAIN, [unfinished(status), unfinished(status, id=2)]).states == {status: 2}


@pytest.mark.parametrize("own", [None, 0, 2, 5])
@pytest.mark.parametrize("errors", [0, 1, 2, 3, 4])
def test_whether_the_next_failure_is_the_last_is_what_the_machine_says(errors, own):
    """Spec: B5"""
    task_types = [replace(PLAIN, retry=policy) for policy in (never, fixed(1, retries=1), fixed(1, retries=3))]

    def ends(task_type: TaskType) -> bool:
        task = a_task(State.RUNNING, error_count=errors, max_error_count=own)
        delay = verdict(task_type, ConnectionError("x"), errors, 0.5, NOW, own).delay
        return decide(task, Raised("x", delay), task_type).status is not State.RETRYING

    for before in task_types:
        for after in task_types:
            seen = effects_of_edit(before, after, [unfinished(errors=errors, own=own)])
            assert bool(seen.given_up) == (ends(after) and not ends(before))
            assert bool(seen.spared) == (ends(before) and not ends(after))


@pytest.mark.parametrize("status", [State.DEAD, State.WAITING, State.NOTIFYING])
def test_what_will_not_run_again_by_itself_is_neither_given_up_nor_spared_nor_retimed(status):
    """Spec: B5"""
    stricter = replace(PLAIN, timeout_seconds=1.0)
    for errors in (0, 4):
        seen = effects_of_edit(replace(PLAIN, retry=fixed(1, retries=3)), stricter, [unfinished(status, errors)])
        assert (seen.given_up, seen.spared, seen.retimed, seen.states) == ((), (), 0, {status: 1})


def test_a_new_timeout_is_for_those_without_one_of_their_own():
    """Spec: B5"""
    tasks = [unfinished(), unfinished(id=2, timeout_seconds=9.0), unfinished(State.RUNNING, id=3)]
    assert effects_of_edit(PLAIN, replace(PLAIN, timeout_seconds=60.0), tasks).retimed == 2
    assert effects_of_edit(PLAIN, PLAIN, tasks).retimed == 0


def test_a_new_lane_is_for_new_tasks_and_those_that_wait_stay():
    """Spec: B5"""
    tasks = [unfinished(), unfinished(id=2, lane="own"), unfinished(id=3)]
    assert effects_of_edit(PLAIN, replace(PLAIN, lane="fast"), tasks).stay == 2
    assert effects_of_edit(PLAIN, replace(PLAIN, category="x"), tasks).stay == 2
    assert effects_of_edit(PLAIN, replace(PLAIN, uses=("disk",)), tasks).stay == 0


# What a program inherits

BASE = TaskType(
    "scan", timeout_seconds=300.0, retry=fixed(30, retries=2), mutex="film:{film}", unique_key="u:{film}",
    unique_seconds=60, defaults={"film": 1}, declared_by="pack media",
)  # fmt: skip


def test_what_a_program_leaves_unsaid_is_as_the_base_says():
    """Spec: B5, X11"""
    declared = TaskType("scan", timeout_seconds=9.0, declared_by="shop:scan")
    assert inherited(BASE, declared, ()) == BASE
    assert inherited(BASE, declared, ["timeout_seconds"]) == replace(BASE, timeout_seconds=9.0)
    assert inherited(BASE, declared, ["timeout_seconds"]).declared_by == "shop:scan"
    assert inherited(BASE, TaskType("scan"), ()).declared_by == "pack media"


def test_a_program_can_say_that_there_is_none():
    """Spec: B5, X11"""
    assert inherited(BASE, TaskType("scan"), ["mutex"]).mutex is None


def test_what_excludes_something_of_the_base_takes_its_place():
    """Spec: B5, X2"""
    by_arguments = inherited(BASE, TaskType("scan", unique="arguments"), ["unique"])
    assert (by_arguments.unique, by_arguments.unique_key, by_arguments.unique_seconds) == ("arguments", None, 60)
    debounced = TaskType("scan", unique_key="k", debounce_seconds=5)
    both = inherited(BASE, debounced, ["unique_key", "debounce_seconds"])
    assert (both.unique_key, both.unique_seconds, both.debounce_seconds) == ("k", None, 5)
    back = inherited(both, TaskType("scan", unique_key="k", unique_seconds=7), ["unique_seconds"])
    assert (back.unique_seconds, back.debounce_seconds) == (7, None)
