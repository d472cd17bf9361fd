"""What executions used of their machine: kept for each task as of its last execution that could be measured."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.usage import Usage
from headgate.store.claim.contract import Outcome
from headgate.store.db.database import Database
from headgate.store.db.statement import Db, Row, Statement

_NAMES = ("task_id", "attempt", "cpu_seconds", "memory_bytes", "read_bytes", "written_bytes")
_INSTEAD = f"""
    ON CONFLICT (task_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])}
"""
KEEP = Statement(
    sqlite=f"""
    INSERT INTO headgate_task_usage (task_id, attempt, cpu_seconds, memory_bytes, read_bytes, written_bytes)
    VALUES (:task_id, :attempt, :cpu_seconds, :memory_bytes, :read_bytes, :written_bytes)
    {_INSTEAD}
    """,
    postgres=f"""
    INSERT INTO headgate_task_usage (task_id, attempt, cpu_seconds, memory_bytes, read_bytes, written_bytes)
    SELECT * FROM unnest(:task_id::bigint[], :attempt::int[], :cpu_seconds::float8[],
                         :memory_bytes::bigint[], :read_bytes::bigint[], :written_bytes::bigint[])
    {_INSTEAD}
    """,
)
OF_TASK = Statement(
    "SELECT attempt, cpu_seconds, memory_bytes, read_bytes, written_bytes FROM headgate_task_usage"
    " WHERE task_id = :task_id"
)


class Measured(NamedTuple):
    """What which of a task's executions used."""

    attempt: int
    usage: Usage


def keep_usage(db: Db, outcomes: Sequence[Outcome]) -> None:
    """Keep what executions used that were measured; of two reports on one task, the first counts."""
    used = {
        execution.id: (execution.attempt, usage)
        for execution, _, usage, _ in reversed(outcomes)
        if usage is not None
    }  # fmt: skip
    rows: list[Row] = [
        (task_id, attempt, usage.cpu_seconds, usage.memory_bytes, usage.read_bytes, usage.written_bytes)
        for task_id, (attempt, usage) in sorted(used.items())
    ]
    if rows:
        db.many(KEEP, _NAMES, rows)


class Usages:
    """What tasks used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, task_id: int) -> Measured | None:
        """What the task's last execution used that could be measured; None if none was."""
        rows = self._database.read(lambda db: db.rows(OF_TASK, task_id=task_id))
        return Measured(rows[0][0], Usage(*rows[0][1:])) if rows else None
