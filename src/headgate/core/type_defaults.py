"""What a new task takes from its type, however it is submitted: lane, category, priority, keys and periods."""

import json
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.task import KEYS, NewTask, TaskType, check_name, check_periods, has_period
from headgate.core.template import fill
from headgate.core.unique import unique_key_of

_LANE = NewTask._fields.index("lane")


def with_type_defaults(new: NewTask, task_type: TaskType) -> NewTask:
    """The new task with all that it leaves to its type; `Invalid` if its arguments lack what a key takes."""
    if not new.lane or new.category is None or new.priority is None:
        new = NewTask._make(  # lane, category and priority, which stand together: `_replace` takes five times as long
            (
                *new[:_LANE],
                new.lane or task_type.lane,
                task_type.category if new.category is None else new.category,
                task_type.priority if new.priority is None else new.priority,
                *new[_LANE + 3 :],
            )
        )
    if makes_keys(task_type):
        new = _with_keys(new, task_type)
    if has_period(task_type) or has_period(new):
        new = _with_periods(new, task_type)
    return new


def makes_keys(task_type: TaskType) -> bool:
    """Whether a type makes a key of its tasks' arguments."""
    return (
        task_type.mutex is not None
        or task_type.rate_key is not None
        or task_type.unique_key is not None
        or task_type.unique is not None
    )


def key_of(label: str, task_type: TaskType, ext: str) -> str | None:
    """The key that a type makes of a task's arguments, over the type's defaults; None if it makes none of these."""
    if label == "unique_key" and task_type.unique is not None:
        return unique_key_of(ext)
    if (template := getattr(task_type, label)) is None:
        return None
    arguments = json.loads(ext)
    key = fill(template, task_type.defaults | (arguments if isinstance(arguments, dict) else {}))
    if key is not None:
        check_name(label, key)
    return key


def _with_keys(new: NewTask, task_type: TaskType) -> NewTask:
    apart = _is_apart(new, task_type)
    keys: dict[str, Any] = {}
    for label in KEYS:
        if getattr(new, label) is None and not (apart and label == "unique_key"):
            keys[label] = key_of(label, task_type, new.ext)
    return new._replace(**keys) if keys else new


def _is_apart(new: NewTask, task_type: TaskType) -> bool:
    """Whether a task of a debounced type is not debounced, and so shares no key with those that are: it has a start of
    its own, a parent that waits for it, or a person asked for that very task again."""
    if task_type.debounce_seconds is None or new.unique_seconds is not None or new.debounce_seconds is not None:
        return False
    return not (new.start_time is None and new.delay_seconds is None and new.parent_id is None and new.retry_of is None)


def _with_periods(new: NewTask, task_type: TaskType) -> NewTask:
    says_none = new.unique_seconds is None and new.debounce_seconds is None
    if says_none and new.retry_of is None and not _is_apart(new, task_type):
        new = new._replace(unique_seconds=task_type.unique_seconds, debounce_seconds=task_type.debounce_seconds)
    if new.debounce_seconds is not None:
        longest, replaces = new.debounce_longest_seconds, new.debounce_replace
        new = new._replace(
            debounce_longest_seconds=task_type.debounce_longest_seconds if longest is None else longest,
            debounce_replace=task_type.debounce_replace if replaces is None else replaces,
        )
    check_periods(new)
    if new.unique_key is None and has_period(new):
        raise Invalid("unique_seconds and debounce_seconds need a unique_key")
    return new
