"""The start queue of an agent, as arithmetic: when the next task that is assigned to it may leave the queue.

What is kept is the last start, a time and how long it holds up the next one. It is compared, never counted, so there
is nothing to drift.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

START_SECONDS = 5.0  # between two starts of one agent, unless it is set otherwise


@dataclass(frozen=True, slots=True)
class LastStart:
    """When a task was last handed to an agent, and for how many seconds that holds up the next."""

    at: datetime
    seconds: float

    def holds_until(self, now: datetime) -> datetime | None:
        """When the next may start; None if it may at once.

        A clock that was set back must not hold up an agent for that long: a start further in the future than its own
        seconds holds up nothing.
        """
        wait = timedelta(seconds=self.seconds)
        return self.at + wait if self.at - wait <= now < self.at + wait else None


def start_gate(tenant_id: int, agent_id: str) -> str:
    """The gate of an agent's start queue. Another tenant's agent of the same name has its own."""
    return f"start {agent_id} of tenant {tenant_id}"
