"""A task type as people edit it, in the task server's fields: what an edit changes, and its effects on tasks."""

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headgate.core.errors import Invalid
from headgate.core.retry import MAX_DELAY_SECONDS, Strategy
from headgate.core.states import OPEN, State
from headgate.core.task import MAX_ERROR_NAMES, MAX_SECONDS, TaskType

_RETRY_FIELDS = {
    "retry_strategy": "strategy", "retry_interval": "interval", "retry_sequence": "sequence",
    "initial_delay": "initial", "factor": "factor", "cap": "cap", "jitter": "jitter", "max_error_count": "retries",
}  # fmt: skip
_PLAIN_FIELDS = (
    "name", "category", "lane", "uses", "priority", "mutex", "rate_key", "unique_key", "unique", "unique_seconds",
    "debounce_seconds", "debounce_longest_seconds", "debounce_replace", "defaults", "need_manual", "unknown_errors",
    "retry_on", "fatal", "on_child_failure",
)  # fmt: skip
_FIRST = _PLAIN_FIELDS.index("need_manual")
TYPE_FIELDS = (*_PLAIN_FIELDS[:_FIRST], *_RETRY_FIELDS, "timeout", *_PLAIN_FIELDS[_FIRST:])
EDITABLE_FIELDS = tuple("timeout_seconds" if field == "timeout" else field for field in TYPE_FIELDS)
TYPO_SIMILARITY = 0.5  # of a field that is not known to one that is
REDACTED = "(a secret)"  # shown in place of a secret, old or new
_NUMBER = (int, float)
_PERIODS = ("unique_seconds", "debounce_seconds", "debounce_longest_seconds")
_EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("priority", "max_error_count"), ((int,), "a whole number")),
    **dict.fromkeys(
        ("retry_interval", "initial_delay", "factor", "cap", "jitter", "timeout", "timeout_seconds"),
        (_NUMBER, "a number"),
    ),
    **dict.fromkeys(("mutex", "rate_key", "unique_key", "unique"), ((str, type(None)), "text, or null")),
    **dict.fromkeys(
        ("unique_seconds", "debounce_seconds", "debounce_longest_seconds"),
        ((*_NUMBER, type(None)), "a number, or null"),
    ),
    **dict.fromkeys(("uses", "retry_sequence", "retry_on", "fatal"), ((list, tuple), "a list")),
    "defaults": ((dict,), "an object"),
    **dict.fromkeys(("need_manual", "debounce_replace"), ((bool,), "true or false")),
}
_TEXT = ((str,), "text")
_MAXIMUM: dict[str, float] = {  # as over HTTP
    **dict.fromkeys(("retry_interval", "retry_sequence", "initial_delay", "cap"), MAX_DELAY_SECONDS),
    "timeout": MAX_SECONDS / 61,
    "timeout_seconds": MAX_SECONDS,
    "factor": 1e6,
    "max_error_count": 2**31 - 1,
}
_NAMES = ("uses", "retry_on", "fatal")
_MAX_ITEMS = {"uses": 50, "retry_sequence": 1000, "retry_on": MAX_ERROR_NAMES, "fatal": MAX_ERROR_NAMES}


def minutes_to_seconds(minutes: float) -> float:
    """A timeout given in minutes, free of rounding errors: 31 s come back as exactly 31 s."""
    return round(minutes * 60, 6)


def fields_of(task_type: TaskType) -> dict[str, Any]:
    """A type in the task server's fields, flat, without its callback; `timeout` is in minutes."""
    retry = task_type.retry
    values = {name: getattr(task_type, name) for name in _PLAIN_FIELDS}
    values |= {field: getattr(retry, name) for field, name in _RETRY_FIELDS.items()}
    values |= {name: list(values[name]) for name in (*_NAMES, "retry_sequence")}
    values["timeout"] = task_type.timeout_seconds / 60
    return {field: values[field] for field in TYPE_FIELDS}


def edited(task_type: TaskType, values: Mapping[str, Any]) -> TaskType:
    """The type with new values for some of its fields; `Invalid`, naming the field, if one is not allowed.

    A timeout is given as `timeout_seconds`, or in minutes as `timeout`.
    """
    if "timeout" in values and "timeout_seconds" in values:
        raise Invalid("give timeout_seconds or timeout (minutes), not both")
    for field, value in values.items():
        _check(field, value)
    plain = {name: values[name] for name in _PLAIN_FIELDS if name in values}
    plain |= {name: tuple(plain[name]) for name in _NAMES if name in plain}
    if "timeout" in values:
        plain["timeout_seconds"] = minutes_to_seconds(values["timeout"])
    elif "timeout_seconds" in values:
        plain["timeout_seconds"] = float(values["timeout_seconds"])
    retry = {name: values[field] for field, name in _RETRY_FIELDS.items() if field in values}
    if "strategy" in retry:
        retry["strategy"] = _strategy(retry["strategy"])
    if "sequence" in retry:
        retry["sequence"] = tuple(retry["sequence"])
    return replace(task_type, retry=replace(task_type.retry, **retry), **plain)


def _check(field: str, value: Any) -> None:
    if field not in (*EDITABLE_FIELDS, "timeout"):
        near = difflib.get_close_matches(field, EDITABLE_FIELDS, 1, TYPO_SIMILARITY)
        raise Invalid(f"a task type has no {field!r}" + (f"; did you mean {near[0]}?" if near else ""))
    types, expected = _EXPECTED.get(field, _TEXT)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise Invalid(f"{field} must be {expected}")
    items: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    if field in _MAX_ITEMS:
        _check_list(field, items)
    if field in _MAXIMUM and any(item > _MAXIMUM[field] for item in items):
        raise Invalid(f"{field} must be at most {_MAXIMUM[field]:g}")


def _check_list(field: str, items: Sequence[Any]) -> None:
    types, items_name = ((str,), "names") if field in _NAMES else (_NUMBER, "numbers")
    if any(not isinstance(item, types) or isinstance(item, bool) for item in items):
        raise Invalid(f"{field} must be a list of {items_name}")
    if len(items) > _MAX_ITEMS[field]:
        raise Invalid(f"{field} must be a list of at most {_MAX_ITEMS[field]} {items_name}")


def _strategy(name: str) -> Strategy:
    try:
        return Strategy(name)
    except ValueError:
        raise Invalid(f"retry_strategy must be one of {', '.join(Strategy)}") from None


# What a program inherits

# Of two fields that exclude each other, the one a program sets keeps the other from being inherited.
_EXCLUDES = {
    "unique": ("unique_key",), "unique_key": ("unique",), "debounce_seconds": ("unique_seconds",),
    "unique_seconds": ("debounce_seconds", "debounce_longest_seconds"),
}  # fmt: skip


def inherited(base: TaskType, declared: TaskType, set_fields: Collection[str]) -> TaskType:
    """The type that a program declares over a base: the base, with the fields that the program set."""
    replaced = {name for each in set_fields if getattr(declared, each) is not None for name in _EXCLUDES.get(each, ())}
    values: dict[str, Any] = {name: getattr(declared, name) for name in {*set_fields, *replaced}}
    values["defaults"] = base.defaults | declared.defaults
    return replace(base, **values, declared_by=declared.declared_by or base.declared_by)


# What an edit changes


def changes_of(before: TaskType | None, after: TaskType | None) -> dict[str, dict[str, Any]]:
    """Each field that differs, with what it was (`old`) and what it is (`new`). Secrets are never shown.

    None is a type that does not exist: a new type lists the fields that differ from the default, a removed one all.
    """
    old, new = _all_fields(before), _all_fields(after)
    if before is None and after is not None:
        blank = _all_fields(TaskType(after.code))
        return {
            field: {"new": _without_secret(field, value)} for field, value in new.items() if value != blank.get(field)
        }
    if after is None:
        return {field: {"old": _without_secret(field, value)} for field, value in old.items()}
    found = {}
    for field in (*old, *(field for field in new if field not in old)):
        if old.get(field) != new.get(field):
            sides = {"old": old.get(field), "new": new.get(field)}
            found[field] = {side: _without_secret(field, value) for side, value in sides.items()}
    return found


def _all_fields(task_type: TaskType | None) -> dict[str, Any]:
    """All fields of a type; its callback's as `callback.success.url` and so on."""
    if task_type is None:
        return {}
    values = fields_of(task_type)
    for part, settings in task_type.callback.items():
        values |= {f"callback.{part}.{name}": value for name, value in settings.items()}
    return values


def _without_secret(field: str, value: Any) -> Any:
    return REDACTED if field.endswith(".sk") and value is not None else value


# Its effects on the tasks there are

_MAY_FAIL = OPEN - {State.WAITING, State.NOTIFYING}  # in those two states the work is done


class UnfinishedTask(NamedTuple):
    """What an edit of its type may affect in a task that has not ended."""

    id: int
    status: State
    error_count: int
    max_error_count: int | None
    timeout_seconds: float | None
    lane: str
    category: str


@dataclass(frozen=True, slots=True)
class EditEffects:
    """What an edit would mean for the tasks of a type that have not ended.

    `given_up`: ids whose next failure would be their last, which it is not now; `spared`: the other way round.
    `retimed`: how many get the new timeout with their next execution; what runs keeps its deadline. `stay`: how many
    wait in another lane or category than new tasks will, and stay there.
    """

    states: Mapping[State, int]
    given_up: tuple[int, ...] = ()
    spared: tuple[int, ...] = ()
    retimed: int = 0
    stay: int = 0


def effects_of_edit(before: TaskType, after: TaskType, tasks: Iterable[UnfinishedTask]) -> EditEffects:
    """The effects on `tasks` if the rules of their type, now `before`, became `after`."""
    states: Counter[State] = Counter()
    given_up, spared, retimed, stay = [], [], 0, 0
    moved = (before.lane, before.category) != (after.lane, after.category)
    for task in tasks:
        states[task.status] += 1
        if task.status not in _MAY_FAIL:
            continue
        was_last, is_last = (_next_failure_ends(task, rules) for rules in (before, after))
        given_up += [task.id] if is_last and not was_last else []
        spared += [task.id] if was_last and not is_last else []
        retimed += task.timeout_seconds is None and before.timeout_seconds != after.timeout_seconds
        stay += moved and (task.lane, task.category) == (before.lane, before.category)
    return EditEffects(states, tuple(sorted(given_up)), tuple(sorted(spared)), retimed, stay)


def _next_failure_ends(task: UnfinishedTask, rules: TaskType) -> bool:
    retries = rules.retry.retries if task.max_error_count is None else task.max_error_count
    return task.error_count + 1 > retries
