"""What events tell of their tasks: looked up once, and again after a person's retry, which may have edited the task."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import NotFound
from headgate.core.events import AuditEvent
from headgate.core.task import Task
from headgate.store.db.pages import MOST_PER_PAGE
from headgate.store.store import Store

MOST_KNOWN = 20_000
FieldsOf = Callable[[Task], Mapping[str, Any]]
NO_FIELDS: Mapping[str, Any] = {}


def no_fields(task: Task) -> Mapping[str, Any]:
    return NO_FIELDS


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What listeners can filter on, of an event's task; `fields` are those of its pack."""

    type: str
    lane: str
    fields: Mapping[str, Any]


class TaskInfoCache:
    """The type and lane of the tasks that were looked up last."""

    def __init__(self, store: Store, fields_of: FieldsOf = no_fields, most: int = MOST_KNOWN) -> None:
        self._store = store
        self._fields_of = fields_of
        self._most = most
        self._known: OrderedDict[int, TaskInfo | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, events: Iterable[AuditEvent]) -> dict[int, TaskInfo | None]:
        """What is known of each event's task, by the task's id; None for one that is gone."""
        kinds = [(event.task_id, event.kind) for event in events if event.task_id is not None]
        wanted = {task_id for task_id, _ in kinds}
        edited = {task_id for task_id, kind in kinds if kind == "retried"}
        with self._lock:
            found = {task_id: self._known[task_id] for task_id in wanted - edited if task_id in self._known}
            for task_id in found:
                self._known.move_to_end(task_id)
        learnt: dict[int, TaskInfo | None] = {}
        missing = sorted(wanted - found.keys(), reverse=True)
        while missing:
            learnt |= self._look_up(missing)
            missing = [task_id for task_id in missing if task_id not in learnt]
        with self._lock:
            for task_id in learnt:
                self._known.pop(task_id, None)
            self._known |= learnt
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found | learnt

    def _look_up(self, missing: Sequence[int]) -> dict[int, TaskInfo | None]:
        """The newest missing task and its neighbours: ids of new tasks are consecutive."""
        first, rest = missing[0], missing[:MOST_PER_PAGE]
        span = first - rest[-1] + 1
        if len(rest) < 3 or span > 2 * len(rest) or span > MOST_PER_PAGE:
            try:
                return {first: self._task_info(self._store.tasks.get(first))}
            except NotFound:
                return {first: None}
        page = self._store.tasks.find(cursor=first + 1, limit=span).items
        known = {task.id: self._task_info(task) for task in page}
        return {task_id: known.get(task_id) for task_id in rest}

    def _task_info(self, task: Task) -> TaskInfo:
        return TaskInfo(task.type, task.lane, self._fields_of(task))
