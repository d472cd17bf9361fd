"""Who acts, and the audit rows that are not written together with a task's own row."""

import json
from typing import Any

from headgate.store.db.statement import Db, Statement

PERSON = "person"  # the actor if none is given
SYSTEM = "system"


class Actor(str):
    """Who acts, as the audit names them, and where they act from: an address, or the name of a machine."""

    address: str | None

    def __new__(cls, name: str, address: str | None = None) -> "Actor":
        actor = super().__new__(cls, name)
        actor.address = address or None
        return actor


RECORD_SYSTEM = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, detail)
    VALUES (NULL, 0, 0, {now}, :kind, :actor, :detail)
    """
)

RECORD_TASK = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, detail)
    VALUES (:task_id, :tenant_id, 0, {now}, :kind, :actor, :detail)
    """
)


def record_system(db: Db, kind: str, actor: str, detail: str) -> None:
    """Note an act upon the system itself: a lane, a resource, a limit, a type."""
    if found := address_of(actor):
        detail = json.dumps(json.loads(detail) | found, ensure_ascii=False)
    db.send(RECORD_SYSTEM, kind=kind, actor=actor, detail=detail)


def record_task(db: Db, task_id: int, tenant_id: int, kind: str, actor: str, detail: str) -> None:
    """Note something about a task that is no transition (seq 0)."""
    db.send(RECORD_TASK, task_id=task_id, tenant_id=tenant_id, kind=kind, actor=actor, detail=detail)


def address_of(actor: str) -> dict[str, Any]:
    """What the detail of an act says of where its actor acts from."""
    address = getattr(actor, "address", None)
    return {} if address is None else {"address": address}


def changed(**sides: tuple[Any, Any]) -> dict[str, Any]:
    """What the detail of an act says of each value that it changes: what it was, and what it is."""
    found = {name: {"old": old, "new": new} for name, (old, new) in sides.items() if old != new}
    return {"changes": found} if found else {}
