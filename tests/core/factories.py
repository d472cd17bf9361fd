"""A whole task out of the few fields a test is about."""

from datetime import UTC, datetime
from typing import Any

from headgate.core.states import State
from headgate.core.task import Task

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


def a_task(status: State = State.QUEUED, **fields: Any) -> Task:
    """A task that is due, plain and in `status`, but for `fields`."""
    plain: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__)
    plain |= {
        "id": 1, "tenant_id": 0, "type": "scan", "creator": 0, "start_time": NOW, "status": status,
        "error_count": 0, "category": "", "ext": "{}", "create_date": NOW, "update_date": NOW, "lane": "default",
        "priority": 5, "attempt": 0, "lost_count": 0, "cancel_requested": False, "pause_requested": False,
        "has_children": False, "gave_up": False, "children_since": 0, "seq": 1,
    }  # fmt: skip
    return Task(**(plain | fields))
