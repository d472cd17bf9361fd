"""Headgate runs background tasks: each starts when every gate is open."""

from headgate.app import Headgate
from headgate.client import Call, Deadlock, Ended, Task, TaskFailed
from headgate.core.errors import HeadgateError, Invalid, NotFound, Refused, Unavailable
from headgate.core.retry import Fatal, Retry, exponential, fixed, never, sequence
from headgate.core.states import State
from headgate.events.listeners import Event
from headgate.worker.context import Context, context
from headgate.worker.run import Snooze

__version__ = "0.1.0"
__all__ = [
    "Call",
    "Context",
    "Deadlock",
    "Ended",
    "Event",
    "Fatal",
    "Headgate",
    "HeadgateError",
    "Invalid",
    "NotFound",
    "Refused",
    "Retry",
    "Snooze",
    "State",
    "Task",
    "TaskFailed",
    "Unavailable",
    "context",
    "exponential",
    "fixed",
    "never",
    "sequence",
]
