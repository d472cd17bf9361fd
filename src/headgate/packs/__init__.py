"""The public door for packs: what is built upon the engine for one trade imports nothing of Headgate but this.

`headgate.packs.web` is the other half of it, for routes. It loads the web framework, so that a pack names the module of
its routes and does not import it.
"""

from headgate.app import Tasks
from headgate.client import Call
from headgate.core.errors import HeadgateError, Invalid, NotFound, Refused, Unavailable
from headgate.core.retry import Fatal, Retry, RetryPolicy, exponential, fixed, never, sequence
from headgate.core.states import FINAL, State, View, states_of_word, status_word
from headgate.core.task import DEFAULT_PRIORITY, NewTask, Task, TaskType
from headgate.outward.sealing import Seals
from headgate.pack import EventField, Lane, Pack, Page, Resource, read_settings
from headgate.store.db.pages import MOST_PER_PAGE, every
from headgate.store.db.statement import Db, Row, Statement, moment, moment_or_none
from headgate.store.reading.lists import Filter
from headgate.store.store import Store
from headgate.worker.context import Context, context
from headgate.worker.run import Snooze

__all__ = [
    "DEFAULT_PRIORITY",
    "FINAL",
    "MOST_PER_PAGE",
    "Call",
    "Context",
    "Db",
    "EventField",
    "Fatal",
    "Filter",
    "HeadgateError",
    "Invalid",
    "Lane",
    "NewTask",
    "NotFound",
    "Pack",
    "Page",
    "Refused",
    "Resource",
    "Retry",
    "RetryPolicy",
    "Row",
    "Seals",
    "Snooze",
    "State",
    "Statement",
    "Store",
    "Task",
    "TaskType",
    "Tasks",
    "Unavailable",
    "View",
    "context",
    "every",
    "exponential",
    "fixed",
    "moment",
    "moment_or_none",
    "never",
    "read_settings",
    "sequence",
    "states_of_word",
    "status_word",
]
