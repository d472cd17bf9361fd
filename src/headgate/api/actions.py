"""Actions of people on one task or on many: done, or, in a dry run, foreseen."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headgate.api.principal import Principal
from headgate.api.shapes import Id
from headgate.core.errors import HeadgateError, Refused
from headgate.core.machine import (
    CancelRequested,
    Discarded,
    Event,
    PauseRequested,
    Prioritized,
    Resolved,
    Resumed,
    RetryAsked,
    decide,
)
from headgate.core.states import FINAL
from headgate.core.task import Task
from headgate.store.base import Store

MOST_IN_ACTION = 200
Ids = Annotated[list[Id], Meta(min_length=1, max_length=MOST_IN_ACTION)]
RemarkText = Annotated[str, Meta(min_length=1, max_length=4000)]


class Done(msgspec.Struct):
    """What became of one of them: its state, or why not. In a dry run: its state now, and why it would be refused.

    `changes`: what an edit changes of it, each field with what it was (`old`) and what it is (`new`).
    """

    id: int
    status: str | None = None
    problem: str | None = None
    changes: dict[str, Any] | UnsetType = UNSET


def acted(store: Store, who: Principal, action: str, task_id: int, **about: Any) -> Task:
    task: Task = getattr(store, action)(task_id, actor=who.actor, tenant_id=who.tenant_id, **about)
    return task


def done(store: Store, who: Principal, action: str, about: dict[str, Any], *, dry_run: bool) -> Callable[[int], Done]:
    """What does one action, or foresees it, to a task."""
    if dry_run:
        return lambda task_id: foreseen(store, who, action, task_id)
    return lambda task_id: Done(task_id, acted(store, who, action, task_id, **about).status.value)


def each(ids: Iterable[int], do: Callable[[int], Done]) -> list[Done]:
    """What became of each; one that is refused holds up none of the rest."""
    return [_told(do, task_id) for task_id in ids]


def _told(do: Callable[[int], Done], task_id: int) -> Done:
    try:
        return do(task_id)
    except HeadgateError as error:
        return Done(task_id, problem=str(error))


ASKED: dict[str, Event] = {
    "cancel": CancelRequested(), "pause": PauseRequested(), "resume": Resumed(), "retry": RetryAsked(),
    "resolve": Resolved(""), "discard": Discarded(), "prioritize": Prioritized(0),
}  # fmt: skip


def foreseen(store: Store, who: Principal, action: str, task_id: int) -> Done:
    """The task as it is, and why the action would be refused, as the state machine says."""
    task = store.get(task_id, who.tenant_id)
    if not (action == "retry" and task.status in FINAL):  # that makes a copy
        try:
            decide(task, ASKED[action], store.type_of(task.type))
        except Refused as error:
            return Done(task_id, task.status.value, str(error))
    return Done(task_id, task.status.value)
