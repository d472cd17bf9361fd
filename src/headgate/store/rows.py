"""A task's row, read: the columns in order, and the record made of them."""

from typing import Any

from headgate.core.errors import NotFound
from headgate.core.states import State
from headgate.core.task import Task
from headgate.store.sql import Db, Row, Statement, moment, moment_or_none

COLUMNS = (
    "id", "tenant_id", "type", "creator", "start_time", "status", "executing_deadline", "exec_id", "error_count",
    "error_info", "category", "remark", "ext", "result", "exec_time", "create_date", "update_date", "name", "lane",
    "priority", "mutex", "rate_key", "agent_id", "unique_key", "parent_id", "root_id", "retry_of", "correlation_id",
    "attempt", "lost_count", "progress", "worker_id", "scheduling_time", "started_at", "finished_at",
    "max_error_count", "timeout_seconds", "cancel_requested", "pause_requested", "has_children", "skip_callback", "seq",
    "on_child_failure", "gave_up", "children_since",
)  # fmt: skip
SELECTED = ", ".join(COLUMNS)

_MADE: dict[str, Any] = {
    "start_time": moment,
    "status": State,
    "executing_deadline": moment_or_none,
    "exec_id": lambda value: None if value is None else str(value),
    "create_date": moment,
    "update_date": moment,
    "scheduling_time": moment_or_none,
    "started_at": moment_or_none,
    "finished_at": moment_or_none,
    "cancel_requested": bool,
    "pause_requested": bool,
    "has_children": bool,
    "skip_callback": bool,
    "gave_up": bool,
}
_AT = [(COLUMNS.index(name), make) for name, make in _MADE.items()]


def task_of(row: Row) -> Task:
    """The record of a row that was selected by `SELECTED`."""
    values = list(row)
    for index, make in _AT:
        values[index] = make(values[index])
    return Task(*values)


READ = Statement(
    f"""
    SELECT {SELECTED} FROM headgate_task WHERE id = :id
    UNION ALL
    SELECT {SELECTED} FROM headgate_task_his WHERE id = :id AND NOT EXISTS (SELECT 1 FROM headgate_task WHERE id = :id)
    """
)
_WANTED = "(SELECT value AS wanted FROM json_each(:ids))"
READ_MANY = Statement(  # SQLite would go through a table that was small when somebody counted
    sqlite=f"""
    SELECT {SELECTED} FROM {_WANTED} CROSS JOIN headgate_task_his WHERE id = wanted
    UNION ALL
    SELECT {SELECTED} FROM {_WANTED} CROSS JOIN headgate_task WHERE id = wanted
    """,
    postgres=f"""
    SELECT {SELECTED} FROM headgate_task_his WHERE id {{in ids}}
    UNION ALL
    SELECT {SELECTED} FROM headgate_task WHERE id {{in ids}}
    """,
)
HOLD = Statement(
    sqlite=f"SELECT {SELECTED} FROM headgate_task WHERE id {{in ids}} ORDER BY id",
    postgres=f"SELECT {SELECTED} FROM headgate_task WHERE id {{in ids}} ORDER BY id FOR NO KEY UPDATE",
)
MUTEXES = Statement("SELECT tenant_id, mutex FROM headgate_task WHERE id {in ids} AND mutex IS NOT NULL")


def read(db: Db, task_id: int, tenant_id: int | None = None) -> Task:
    """The task, from the live table or from history; another tenant's is as absent as one that never was."""
    found = [task_of(row) for row in db.rows(READ, id=task_id)]
    if not found or tenant_id not in (None, found[0].tenant_id):
        raise NotFound(f"no task {task_id}")
    return found[0]


def read_many(db: Db, ids: list[int], tenant_id: int | None = None) -> dict[int, Task]:
    """The tasks among `ids` that there are, live or in history, by id."""
    found = [task_of(row) for row in db.rows(READ_MANY, ids=ids)]
    return {task.id: task for task in found if tenant_id in (None, task.tenant_id)}


def hold(db: Db, ids: list[int]) -> list[Task]:
    """The live tasks among `ids`, locked until the commit."""
    return [task_of(row) for row in db.rows(HOLD, ids=sorted(ids))]
