"""What is declared in RabbitMQ, and what messages say. The store is the truth: a message only points to it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from headgate.core.events import AuditEvent, detail_of
from headgate.core.queues import cut, escape
from headgate.core.task import Execution, Task

TASKS = "headgate.tasks"  # direct: to the queue of a lane and type
EVENTS = "headgate.events"  # topic: task.<kind>.<type>
DEAD = "headgate.dead"  # fanout, and the queue behind it: final failures, and unusable messages
MENDING = "headgate.mending"  # exclusive, always empty: held by who declares a broken queue again
EXCHANGES = {TASKS: "direct", EVENTS: "topic", DEAD: "fanout"}

DELIVERY_LIMIT = 20
MOST_MESSAGES = 100_000
EXPIRES_SECONDS = 30 * 60
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")

# RabbitMQ's defaults change between releases: everything that matters is set here.
TASK_QUEUE: Mapping[str, Any] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": DELIVERY_LIMIT,
    "x-max-length": MOST_MESSAGES,
    "x-overflow": "reject-publish",
    "x-dead-letter-exchange": DEAD,
    "x-dead-letter-strategy": "at-least-once",
    "x-expires": EXPIRES_SECONDS * 1000,
}
# Its messages are copies for other programs: if they are not consumed, the oldest are dropped.
DEAD_QUEUE: Mapping[str, Any] = {
    "x-queue-type": "quorum",
    "x-max-length": MOST_MESSAGES,
    "x-overflow": "drop-head",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message to be published; one that is `mandatory` comes back if no queue takes it."""

    exchange: str
    routing_key: str
    message_id: str
    correlation_id: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    mandatory: bool = False


def task_message(execution: Execution, submitted_at: datetime, queue: str) -> Message:
    """The message that starts a task: its id and exec_id, without its arguments."""
    headers = {
        "task_id": execution.id,
        "tenant_id": execution.tenant_id,
        "user": execution.creator,
        "type": execution.type,
        "lane": execution.lane,
        "attempt": execution.attempt,
        "submitted_at": submitted_at.isoformat(),
        "x-retry-count": execution.error_count,
    }
    traced = _with_trace(headers, execution.correlation_id)
    return Message(TASKS, queue, execution.exec_id, execution.correlation_id, traced, mandatory=True)


def delivered_task(message_id: Any, task_id: Any) -> tuple[int, str] | None:
    """The task and exec_id that a message names; None if it names none."""
    if type(task_id) is not int or not isinstance(message_id, str) or not 0 < task_id < 1 << 63:
        return None
    return task_id, message_id


def event_message(event: AuditEvent, type_code: str, *, mandatory: bool = False) -> Message:
    """An event of a task. It may be published more than once, each time under the same message id."""
    key = _event_key(event.kind, type_code)
    headers = {"event_id": event.id, "kind": event.kind, "task_id": event.task_id, "tenant_id": event.tenant_id}
    traced = _with_trace(headers | {"type": type_code}, event.correlation_id)
    return Message(EVENTS, key, f"event-{event.id}", event.correlation_id, traced, _body(event, type_code), mandatory)


@lru_cache(1024)
def _event_key(kind: str, type_code: str) -> str:
    return cut(f"task.{kind}.{escape(type_code, keep='.')}")


def dead_message(event: AuditEvent, type_code: str, task: Task | None) -> Message:
    """A final failure; `task` is None if the store no longer has it."""
    headers: dict[str, Any] = {
        "event_id": event.id,
        "task_id": event.task_id,
        "tenant_id": event.tenant_id,
        "type": type_code,
        "reason": str(detail_of(event.detail).get("reason") or ""),
    }
    if task is not None:
        headers |= {
            "user": task.creator, "submitted_at": task.create_date.isoformat(), "x-retry-count": task.error_count,
        }  # fmt: skip
    traced = _with_trace(headers, event.correlation_id)
    return Message(
        DEAD, "task", f"dead-{event.id}", event.correlation_id, traced, _body(event, type_code), mandatory=True
    )


def _body(event: AuditEvent, type_code: str) -> bytes:
    said = {
        "id": event.id, "kind": event.kind, "task_id": event.task_id, "type": type_code, "time": event.at.isoformat(),
        "tenant_id": event.tenant_id, "correlation_id": event.correlation_id, "before": event.before,
        "after": event.after, "actor": event.actor, "detail": detail_of(event.detail),
    }  # fmt: skip
    return msgspec.json.encode(said)


def _with_trace(headers: dict[str, Any], correlation_id: str | None) -> dict[str, Any]:
    if correlation_id is None or not _TRACE_ID.fullmatch(correlation_id):
        return headers
    return headers | {"trace_id": correlation_id}
