"""A task's row, read: live or in history."""

from collections.abc import Iterable, Iterator
from typing import Any

from headgate.core.errors import NotFound
from headgate.core.states import State
from headgate.core.task import Task
from headgate.store.db.columns import RECORD, TASK
from headgate.store.db.pages import fitting
from headgate.store.db.statement import Db, Row, Statement, moment_or_none

SELECTED = ", ".join(RECORD)
BATCH = 10  # tasks that are read at once: each may hold half a megabyte of text

_MADE: dict[str, Any] = {
    "timestamptz": moment_or_none,
    "bool": bool,
    "uuid": lambda value: None if value is None else str(value),
}
_CONVERTED = [(name, _MADE[TASK[name].type]) for name in RECORD if TASK[name].type in _MADE] + [("status", State)]


def task_of(row: Row) -> Task:
    """The record of a row that was selected by `SELECTED`."""
    values = dict(zip(RECORD, row, strict=True))
    for name, make in _CONVERTED:
        values[name] = make(values[name])
    return Task(**values)


READ = Statement(
    f"""
    SELECT {SELECTED} FROM headgate_task WHERE id = :id
    UNION ALL
    SELECT {SELECTED} FROM headgate_task_his WHERE id = :id AND NOT EXISTS (SELECT 1 FROM headgate_task WHERE id = :id)
    """
)
_WANTED = "(SELECT value AS wanted FROM json_each(:ids))"
READ_MANY = Statement(  # otherwise SQLite scans a table that was small when last analyzed
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
        raise NotFound.of("no-task", task_id=task_id)
    return found[0]


def read_many(db: Db, ids: list[int], tenant_id: int | None = None) -> dict[int, Task]:
    """The tasks among `ids` that there are, live or in history, by id."""
    found = [task_of(row) for row in db.rows(READ_MANY, ids=ids)]
    return {task.id: task for task in found if tenant_id in (None, task.tenant_id)}


def read_page(db: Db, ids: list[int], tenant_id: int | None = None) -> list[Task]:
    """The tasks of a page, in this order: all of `ids` that there are, or as many of the first as fit."""
    return fitting(_read_in_batches(db, ids, tenant_id), _text_bytes)


def _read_in_batches(db: Db, ids: list[int], tenant_id: int | None) -> Iterator[Task]:
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        found = read_many(db, batch, tenant_id)
        yield from (found[task_id] for task_id in batch if task_id in found)


def _text_bytes(task: Task) -> int:
    texts = (task.ext, task.result, task.error_info, task.progress)
    return sum(len(text.encode()) for text in texts if text is not None)


def hold(db: Db, ids: Iterable[int]) -> list[Task]:
    """The live tasks among `ids`, locked until the commit."""
    return [task_of(row) for row in db.rows(HOLD, ids=sorted(ids))]
