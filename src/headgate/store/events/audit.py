"""The audit rows that are not written together with a task's own row."""

from headgate.store.db.statement import Db, Statement

PERSON = "person"  # who did it, unless somebody says
SYSTEM = "system"

RECORD_SYSTEM = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, detail)
    VALUES (NULL, 0, 0, {now}, :kind, :actor, :detail)
    """
)


def record_system(db: Db, kind: str, actor: str, detail: str) -> None:
    """Note an act upon the system itself: a lane, a resource, a limit, a type."""
    db.send(RECORD_SYSTEM, kind=kind, actor=actor, detail=detail)
