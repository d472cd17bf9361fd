"""The public door for packs: what is built upon the engine for one trade imports nothing of Headgate but this.

`headgate.packs.web` is the other half of it, for routes. It loads the web framework, so that a pack names the module of
its routes and does not import it. `headgate.packs.cli` is for commands, `headgate.packs.outward` for programs that ask
addresses which users name.
"""

from headgate.app import Tasks
from headgate.client import Call
from headgate.core.errors import HeadgateError, Invalid, NotFound, Refused, StaleExecution, Unavailable
from headgate.core.retry import DiskSpaceError, Fatal, Retry, RetryPolicy, exponential, fixed, never, sequence
from headgate.core.states import FINAL, State, View, states_of_word, status_word
from headgate.core.task import DEFAULT_PRIORITY, NewTask, Task, TaskType
from headgate.duties.duty import Duty
from headgate.outward.address import Allowed, checked_target
from headgate.outward.sealing import Seals, Unopened
from headgate.pack import EventField, Lane, Pack, Page, Resource, read_settings
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.pages import LAST_ID, MOST_PER_PAGE, every, page_size
from headgate.store.db.statement import Db, Row, Statement, insert_rows, moment, moment_or_none
from headgate.store.events.audit import PERSON, record_system
from headgate.store.execution.fence import fence
from headgate.store.reading.lists import Filter
from headgate.store.store import Store
from headgate.worker.context import Context, context
from headgate.worker.run import Snooze

__all__ = [
    "DEFAULT_PRIORITY",
    "FINAL",
    "LAST_ID",
    "MOST_PER_PAGE",
    "PERSON",
    "Allowed",
    "Call",
    "Context",
    "Database",
    "Db",
    "DiskSpaceError",
    "Duty",
    "EventField",
    "Fatal",
    "Filter",
    "HeadgateError",
    "Invalid",
    "Lane",
    "NewTask",
    "NotFound",
    "Noun",
    "Pack",
    "Page",
    "Refused",
    "Resource",
    "Retry",
    "RetryPolicy",
    "Row",
    "Seals",
    "Snooze",
    "StaleExecution",
    "State",
    "Statement",
    "Store",
    "Task",
    "TaskType",
    "Tasks",
    "Unavailable",
    "Unopened",
    "View",
    "checked_target",
    "context",
    "every",
    "exponential",
    "fence",
    "fixed",
    "insert_rows",
    "moment",
    "moment_or_none",
    "never",
    "page_size",
    "read_settings",
    "reads",
    "record_system",
    "sequence",
    "states_of_word",
    "status_word",
    "writes",
]
