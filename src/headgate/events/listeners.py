"""Listeners: functions of a program that are called with events, as `@app.on` declares them."""

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.events import TASK_KINDS, AuditEvent, detail_of
from headgate.core.task import check_name

PREFIX = "task."
TRIES = 10


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a task. It may come more than once, each time with the same `id`."""

    id: int
    kind: str
    task_id: int
    type: str
    time: datetime
    tenant_id: int
    correlation_id: str | None
    before: str | None
    after: str | None
    actor: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        """Why it happened, where that is known: `exhausted`, `fatal`, `overdue`, or what a person said."""
        reason = self.detail.get("reason")
        return None if reason is None else str(reason)


def event_for_listeners(event: AuditEvent, type_code: str) -> Event:
    assert event.task_id is not None
    return Event(
        event.id, event.kind, event.task_id, type_code, event.at, event.tenant_id, event.correlation_id, event.before,
        event.after, event.actor, detail_of(event.detail),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listener:
    """A function and the events it is called with. Processes share the events of one name, and its place in the feed.

    An event that was tried `tries` times in vain is skipped.
    """

    name: str
    function: Callable[[Event], Any]
    kinds: frozenset[str]
    types: frozenset[str]  # none: every type
    tries: int = TRIES

    @property
    def place(self) -> str:
        return f"{self.function.__module__}:{self.function.__qualname__}"

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def wants(self, event: AuditEvent, type_code: str | None) -> bool:
        if event.task_id is None or event.kind not in self.kinds:
            return False
        return not self.types or type_code in self.types


class Listeners:
    """The listeners of a program, by name."""

    def __init__(self) -> None:
        self._listeners: dict[str, Listener] = {}

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners.values())

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: Listener) -> None:
        known = self._listeners.get(listener.name)
        if known is not None and known.place != listener.place:
            raise Invalid(f"two listeners are named {listener.name}: rename one with @app.on(…, name=…)")
        self._listeners[listener.name] = listener


def declared_listener(
    function: Callable[[Event], Any], events: Sequence[str], types: Sequence[str], name: str | None, tries: int
) -> Listener:
    """The listener that `@app.on` declares, under the function's own name unless `name` gives another."""
    name = function.__name__ if name is None else name
    check_name("a listener's name", name)
    if name.startswith("headgate:"):
        raise Invalid(f"listener {name}: names that begin with headgate: are reserved")
    if isinstance(types, str):
        raise Invalid(f"listener {name}: types must be a list of task types: types=[{types!r}]")
    if type(tries) is not int or tries < 1:
        raise Invalid(f"listener {name}: tries must be a whole number of at least 1")
    if not events:
        raise Invalid(f"listener {name}: name at least one event: @app.on('task.failed')")
    kinds = frozenset(kind for each in events for kind in _kinds_of(name, each))
    return Listener(name, function, kinds, frozenset(types), tries)


def _kinds_of(name: str, text: str) -> frozenset[str]:
    if text == f"{PREFIX}*":
        return TASK_KINDS
    kind = text.removeprefix(PREFIX)
    if text.startswith(PREFIX) and kind in TASK_KINDS:
        return frozenset({kind})
    near = difflib.get_close_matches(kind, sorted(TASK_KINDS), 1)
    raise Invalid(f"listener {name}: no event {text!r}" + (f"; did you mean '{PREFIX}{near[0]}'?" if near else ""))
