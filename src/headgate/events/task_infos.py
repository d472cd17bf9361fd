"""What events tell of their tasks: looked up once, since none of it ever changes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import NotFound
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
    """What listeners can filter on, of an event's task; `fields` are those of its pack. None of it ever changes."""

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

    def of(self, task_ids: Iterable[int]) -> dict[int, TaskInfo | None]:
        """What is known of each task; None for one that is gone."""
        with self._lock:
            wanted = set(task_ids)
            found = {task_id: self._known[task_id] for task_id in wanted if task_id in self._known}
        missing = sorted(wanted - found.keys(), reverse=True)
        while missing:
            learnt = self._look_up(missing)
            found |= learnt
            missing = [task_id for task_id in missing if task_id not in found]
        with self._lock:
            self._known |= found
            for task_id in found:
                self._known.move_to_end(task_id)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return {task_id: found[task_id] for task_id in wanted}

    def _look_up(self, missing: Sequence[int]) -> dict[int, TaskInfo | None]:
        """The newest of those missing, and what lies beside it: ids of new tasks follow each other."""
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
