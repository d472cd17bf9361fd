"""What people do to a task: decided by the state machine, written with its audit row."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from headgate.core.errors import Invalid, Refused
from headgate.core.machine import Change, Event, decide
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, Task
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.columns import SUBMITTED
from headgate.store.db.statement import Db, Statement, clock
from headgate.store.events.audit import address_of, changed
from headgate.store.tasks.mutex_queue import first_blocked
from headgate.store.tasks.rows import read
from headgate.store.tasks.transitions import happen, locked
from headgate.store.tasks.unique import SAME_KEY


def act(
    db: Db,
    catalog: Catalog,
    task_id: int,
    event: Callable[[Db, Task], Event],
    actor: str,
    tenant_id: int | None = None,
    detail: dict[str, Any] | None = None,
) -> Task:
    """Let `event` happen to a task, as the state machine says; the task as it is afterwards."""
    with locked(db, [task_id]) as found:
        if not found or tenant_id not in (None, found[0].tenant_id):
            task = read(db, task_id, tenant_id)  # raises, or it has gone to history: final
            raise Refused.of("task-ended", task_id=task.id, status=str(task.status))
        task, happening = found[0], event(db, found[0])
        change = decide(task, happening, catalog.type(task.type))
        if task.status is State.DEAD and change.status not in (*FINAL, State.DEAD):
            refuse_second(db, task, task.unique_key)
        happen(db, catalog, found, happening, actor, (detail or {}) | _detail(db, task, change) | address_of(actor))
        if task.has_children and change.has_children is False:
            db.send(NEW_LIFE, id=task.id)
    return read(db, task_id)


def _detail(db: Db, task: Task, change: Change) -> dict[str, Any]:
    """What the audit says of an act besides the states: the values it changes, and a person's remark."""
    start_time = change.start_time
    if change.kind == "rescheduled" and change.delay is not None:
        start_time = clock(db) + timedelta(seconds=change.delay)
    changes = changed(
        priority=(task.priority, task.priority if change.priority is None else change.priority),
        start_time=(_text(task.start_time), _text(start_time or task.start_time)),
    )
    return changes | ({"remark": change.remark} if change.remark else {})


def _text(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


# The children that the task has now belong to its previous life.
NEW_LIFE = Statement(
    """
    UPDATE headgate_task SET children_since = coalesce(
           (SELECT max(id) FROM (
                SELECT c.id FROM headgate_task c WHERE c.parent_id = :id AND c.parent_id IS NOT NULL
                UNION ALL
                SELECT h.id FROM headgate_task_his h WHERE h.parent_id = :id AND h.parent_id IS NOT NULL) children),
           children_since)
     WHERE id = :id
    """
)


def refuse_second(db: Db, task: Task, unique_key: str | None) -> None:
    """A task that comes back from `dead` may find its unique key taken by a newer one."""
    if unique_key is None:
        return
    if found := db.rows(SAME_KEY, tenant_id=task.tenant_id, type=task.type, unique_key=unique_key):
        raise Refused.of("unique-key-held", task_id=found[0][0])


FIRST_IN_LANE = Statement(
    sqlite="""
    SELECT min(t.priority) FROM headgate_stream s CROSS JOIN headgate_task t ON t.id = (
           SELECT f.id FROM headgate_task f WHERE f.stream_id = s.id AND f.status = 'queued'
            ORDER BY f.priority, f.id LIMIT 1)
     WHERE s.lane = :lane
    """,
    postgres="""
    SELECT min(t.priority) FROM headgate_stream s CROSS JOIN LATERAL (
           SELECT f.priority FROM headgate_task f WHERE f.stream_id = s.id AND f.status = 'queued'
            ORDER BY f.priority, f.id LIMIT 1) t
     WHERE s.lane = :lane
    """,
)


def head_of_lane(db: Db, task: Task) -> int:
    """A priority that goes before everything that could be claimed in the task's lane, and before its own line."""
    first = [row[0] for row in db.rows(FIRST_IN_LANE, lane=task.lane) if row[0] is not None]
    if task.mutex is not None:
        first += first_blocked(db, (task.tenant_id, task.mutex))
    if not first:
        return task.priority
    if min(first) <= -(1 << 63):
        raise Invalid("the head of this lane already has the highest priority")
    return int(min(task.priority, min(first) - 1))


def copy_of(task: Task) -> NewTask:
    """The new task that made `task`, once more; it has no parent."""
    submitted = {name: getattr(task, name) for name in SUBMITTED}
    return NewTask(**submitted | {"parent_id": None, "retry_of": task.id})
