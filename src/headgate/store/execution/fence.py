"""A fence for writes that are made for an execution: they happen while it owns its task, or not at all."""

from headgate.core.errors import StaleExecution
from headgate.store.db.statement import Db, Statement
from headgate.store.execution.handed import EXEC_ID

OWNED = Statement(
    sqlite="SELECT tenant_id FROM headgate_task WHERE id = :id AND exec_id = :exec_id AND status = :status",
    postgres="""
    SELECT tenant_id FROM headgate_task WHERE id = :id AND exec_id = :exec_id::uuid AND status = :status FOR SHARE
    """,
)


def fence(db: Db, task_id: int, exec_id: str) -> int:
    """Lock the task for this execution until the commit; returns the task's tenant.

    `StaleExecution` if the task no longer runs under it. Called first in a transaction: a replaced execution writes
    nothing.
    """
    found = db.rows(OWNED, id=task_id, exec_id=exec_id, status="running") if EXEC_ID.fullmatch(exec_id) else []
    if found:
        return int(found[0][0])
    raise StaleExecution.of("stale-execution", exec_id=exec_id, task_id=task_id, status=None)
