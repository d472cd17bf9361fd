"""A task type as people edit it, in B's words: what an edit changes, and what it means for the tasks there are."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headgate.core.errors import Invalid
from headgate.core.retry import MAX_DELAY_SECONDS, Strategy
from headgate.core.states import OPEN, State
from headgate.core.task import MAX_SECONDS, TaskType

_RETRY = {
    "retry_strategy": "strategy", "retry_interval": "interval", "retry_sequence": "sequence",
    "initial_delay": "initial", "factor": "factor", "cap": "cap", "jitter": "jitter", "max_error_count": "retries",
}  # fmt: skip
_PLAIN = (
    "name", "category", "lane", "uses", "priority", "mutex", "rate_key", "unique_key", "defaults", "need_manual",
    "unknown_errors", "on_child_failure",
)  # fmt: skip
WORDS = (*_PLAIN[:9], *_RETRY, "timeout", *_PLAIN[9:])
VEIL = "(a secret)"  # what is told of one, old or new
_NUMBER = (int, float)
_TAKES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("priority", "max_error_count"), ((int,), "a whole number")),
    **dict.fromkeys(("retry_interval", "initial_delay", "factor", "cap", "jitter", "timeout"), (_NUMBER, "a number")),
    **dict.fromkeys(("mutex", "rate_key", "unique_key"), ((str, type(None)), "text, or null")),
    **dict.fromkeys(("uses", "retry_sequence"), ((list, tuple), "a list")),
    "defaults": ((dict,), "an object"),
    "need_manual": ((bool,), "true or false"),
}
_TEXT = ((str,), "text")
_MOST: dict[str, float] = {  # as over HTTP
    **dict.fromkeys(("retry_interval", "retry_sequence", "initial_delay", "cap"), MAX_DELAY_SECONDS),
    "timeout": MAX_SECONDS / 61,
    "factor": 1e6,
    "max_error_count": 2**31 - 1,
}
_LONGEST = {"uses": 50, "retry_sequence": 1000}


def seconds_of(minutes: float) -> float:
    """A timeout as it was before it was told in minutes: 31 s, and not a hair more."""
    return round(minutes * 60, 6)


def words_of(kind: TaskType) -> dict[str, Any]:
    """A type in B's words, flat, without its callback; `timeout` is in minutes."""
    said = {name: getattr(kind, name) for name in _PLAIN} | {
        word: getattr(kind.retry, name) for word, name in _RETRY.items()
    }
    said |= {"uses": list(kind.uses), "retry_sequence": list(kind.retry.sequence), "timeout": kind.timeout_seconds / 60}
    return {word: said[word] for word in WORDS}


def edited(kind: TaskType, said: Mapping[str, Any]) -> TaskType:
    """The type with some of its words said otherwise; `Invalid`, naming the word, if it cannot be."""
    for word, value in said.items():
        _check(word, value)
    plain = {name: said[name] for name in _PLAIN if name in said}
    if "uses" in plain:
        plain["uses"] = tuple(plain["uses"])
    if "timeout" in said:
        plain["timeout_seconds"] = seconds_of(said["timeout"])
    retry = {name: said[word] for word, name in _RETRY.items() if word in said}
    if "strategy" in retry:
        retry["strategy"] = _strategy(retry["strategy"])
    if "sequence" in retry:
        retry["sequence"] = tuple(retry["sequence"])
    return replace(kind, retry=replace(kind.retry, **retry), **plain)


def _check(word: str, value: Any) -> None:
    if word not in WORDS:
        near = difflib.get_close_matches(word, WORDS, 1)
        raise Invalid(f"a task type has no {word!r}" + (f"; did you mean {near[0]}?" if near else ""))
    types, told = _TAKES.get(word, _TEXT)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise Invalid(f"{word} is {told}")
    items: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    if word in _LONGEST:
        _check_list(word, items)
    if word in _MOST and any(item > _MOST[word] for item in items):
        raise Invalid(f"{word} is {_MOST[word]:g} at most")


def _check_list(word: str, items: Sequence[Any]) -> None:
    types, told = ((str,), "names") if word == "uses" else (_NUMBER, "numbers")
    if any(not isinstance(item, types) or isinstance(item, bool) for item in items):
        raise Invalid(f"{word} is a list of {told}")
    if len(items) > _LONGEST[word]:
        raise Invalid(f"{word} is a list of {_LONGEST[word]} {told} at most")


def _strategy(word: str) -> Strategy:
    try:
        return Strategy(word)
    except ValueError:
        raise Invalid(f"retry_strategy is one of {', '.join(Strategy)}") from None


# What an edit changes


def changes_of(before: TaskType | None, after: TaskType | None) -> dict[str, dict[str, Any]]:
    """Each word that differs, with what it was (`old`) and what it is (`new`). Secrets are never told.

    None is a type that is not there: of a new one the words that have no default are told, of one that goes all.
    """
    old, new = (_told(kind) for kind in (before, after))
    if before is None and after is not None:
        blank = _told(TaskType(after.code))
        return {word: {"new": _veiled(word, value)} for word, value in new.items() if value != blank.get(word)}
    if after is None:
        return {word: {"old": _veiled(word, value)} for word, value in old.items()}
    found = {}
    for word in (*old, *(word for word in new if word not in old)):
        if old.get(word) != new.get(word):
            sides = {"old": old.get(word), "new": new.get(word)}
            found[word] = {side: _veiled(word, value) for side, value in sides.items()}
    return found


def _told(kind: TaskType | None) -> dict[str, Any]:
    """All words of a type; its callback's as `callback.success.url` and so on."""
    if kind is None:
        return {}
    said = words_of(kind)
    for part, about in kind.callback.items():
        said |= {f"callback.{part}.{name}": value for name, value in about.items()}
    return said


def _veiled(word: str, value: Any) -> Any:
    return VEIL if word.endswith(".sk") and value is not None else value


# What it means for the tasks there are

_MAY_FAIL = OPEN - {State.WAITING, State.NOTIFYING}  # the work of those two is done


class Waiting(NamedTuple):
    """What of a task that has not ended an edit of its type may touch."""

    id: int
    status: State
    error_count: int
    max_error_count: int | None
    timeout_seconds: float | None
    lane: str
    category: str


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What an edit would mean for the tasks of a type that have not ended.

    `given_up`: their next failure would be their last, which it is not now, and `spared` the other way round; by id.
    `retimed`: so many get the new timeout with their next execution; what runs keeps its deadline. `stay`: so many
    wait in another lane or category than new tasks will, and stay there.
    """

    states: Mapping[State, int]
    given_up: tuple[int, ...] = ()
    spared: tuple[int, ...] = ()
    retimed: int = 0
    stay: int = 0


def foresee(before: TaskType, after: TaskType, tasks: Iterable[Waiting]) -> Foreseen:
    """What it would mean if tasks that live by the rules `before` lived by those `after`."""
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
    return Foreseen(states, tuple(sorted(given_up)), tuple(sorted(spared)), retimed, stay)


def _next_failure_ends(task: Waiting, rules: TaskType) -> bool:
    retries = rules.retry.retries if task.max_error_count is None else task.max_error_count
    return task.error_count + 1 > retries
