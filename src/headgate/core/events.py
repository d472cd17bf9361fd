"""What happened, as records with ids: audit row and outbox row in one."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One transition of one task, or (task_id None) one act upon the system.

    `id` is unique for ever; `seq` counts a task's own rows without a gap, beginning with 1 at its creation.
    """

    id: int
    task_id: int | None
    tenant_id: int
    seq: int
    at: datetime
    kind: str
    before: str | None
    after: str | None
    actor: str
    exec_id: str | None
    correlation_id: str | None
    detail: str | None
