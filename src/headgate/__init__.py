"""Headgate runs background tasks: each starts when every gate is open."""

from headgate.app import Headgate
from headgate.client import Ended, Task, TaskFailed
from headgate.core.errors import HeadgateError, Invalid
from headgate.core.retry import Fatal, Retry, exponential, fixed, never, sequence
from headgate.core.states import State
from headgate.worker.context import Context, context
from headgate.worker.run import Snooze

__version__ = "0.1.0"
__all__ = [
    "Context",
    "Ended",
    "Fatal",
    "Headgate",
    "HeadgateError",
    "Invalid",
    "Retry",
    "Snooze",
    "State",
    "Task",
    "TaskFailed",
    "context",
    "exponential",
    "fixed",
    "never",
    "sequence",
]
