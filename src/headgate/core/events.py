"""What happened, as records with ids: audit row and outbox row in one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple


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


class Heading(NamedTuple):
    """The kind, task and type of an event, without its detail; `type` is None if its task is gone."""

    id: int
    task_id: int | None
    tenant_id: int
    kind: str
    type: str | None


# The kinds of event that happen to tasks, as the audit names them.
TASK_KINDS = frozenset({
    "submitted", "due", "came_forward", "sent_back", "scheduled", "started", "progress", "completed",
    "completed_with_errors", "waiting", "retrying", "failed", "dead_lettered", "giving_up", "snoozed", "given_back",
    "compensated", "lease_lost", "overdue", "cancel_requested", "cancelled", "pause_requested", "paused", "resumed",
    "prioritized", "rescheduled", "debounced", "retried", "resolved", "discarded", "edited", "adopted", "notified",
    "undeliverable", "redelivery_asked", "refused",
})  # fmt: skip

# What happens to the system itself; packs may have more.
SYSTEM_KINDS = frozenset({
    "paused", "resumed", "capacity_changed", "rate_changed", "limit_reset", "lane_removed", "resource_removed",
    "rate_limit_removed", "weight_changed", "type_changed", "type_removed", "periodic_added",
    "periodic_changed", "periodic_removed", "periodic_online", "periodic_offline", "periodic_triggered",
    "ticks_missed", "copied", "signed_in", "signed_out", "key_created", "key_revoked", "listener_removed",
    "worker_lost", "compensation_triggered", "purged", "retention",
})  # fmt: skip

# What people do to tasks, and what the system does to them by itself; `headgate_task_event_act` holds no others.
ACT_KINDS = (
    "cancel_requested", "cancelled", "pause_requested", "paused", "resumed", "prioritized", "rescheduled", "retried",
    "resolved", "discarded", "redelivery_asked", "undeliverable", "lease_lost", "overdue", "compensated", "failed",
    "dead_lettered",
)  # fmt: skip
# The object of an act upon the system: the first of these that its detail names.
_OBJECTS = {
    "key": "key", "worker": "worker", "periodic_task": "schedule", "listener": "listener", "task": "task",
    "lane": "lane", "resource": "resource", "tenant": "tenant", "type": "type",
    "name": "rate_limit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did, or the system by itself: to a task, or to the system itself.

    `object` is `task:5`, `lane:mail` and so on; `changes` has what each value was (`old`) and is (`new`).
    """

    id: int
    at: datetime
    kind: str
    actor: str
    address: str | None
    object: str
    tenant_id: int | None
    before: str | None
    after: str | None
    changes: Mapping[str, Any]
    reason: str | None
    detail: Mapping[str, Any]


def detail_of(text: str | None) -> dict[str, Any]:
    """The detail of an event; what is no JSON object stands under `text`."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"text": value}


def act_of(event: AuditEvent) -> Act:
    """An event as an act."""
    detail = detail_of(event.detail)
    changes = detail.pop("changes", None) or detail.pop("edit", None) or {}
    address, reason = detail.pop("address", None), detail.pop("remark", None) or detail.get("reason")
    subject = f"task:{event.task_id}"
    if event.task_id is None:
        named = (f"{noun}:{detail[name]}" for name, noun in _OBJECTS.items() if name in detail)
        subject = detail.pop("object", None) or next(named, "system")  # a pack names it itself
        if event.kind in ("paused", "resumed") and "key" in detail:  # not one of the API's
            subject = f"rate_key:{detail['key']}"
        elif "everything" in detail or detail.get("lane") == "*":  # as it was written once
            subject = "everything"
    tenant_id = None if event.task_id is None else event.tenant_id
    return Act(
        event.id, event.at, event.kind, event.actor, address, subject, tenant_id, event.before, event.after, changes,
        reason, detail,
    )  # fmt: skip
