"""Headgate runs background tasks: each starts when every gate is open."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.app import Headgate
    from headgate.client import Call, Ended, Task, TaskFailed
    from headgate.core.errors import Deadlock, HeadgateError, Invalid, NotFound, Refused, Unavailable
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
_MODULES = {
    "headgate.app": ["Headgate"],
    "headgate.client": ["Call", "Ended", "Task", "TaskFailed"],
    "headgate.core.errors": ["Deadlock", "HeadgateError", "Invalid", "NotFound", "Refused", "Unavailable"],
    "headgate.core.retry": ["Fatal", "Retry", "exponential", "fixed", "never", "sequence"],
    "headgate.core.states": ["State"],
    "headgate.events.listeners": ["Event"],
    "headgate.worker.context": ["Context", "context"],
    "headgate.worker.run": ["Snooze"],
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for: a command that only starts a process needs none of them."""
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = getattr(importlib.import_module(module), name)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
