"""The schedule record, what a caller may ask for, and the task that a tick makes. Pure."""

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from headgate.core.cron import Cron, Missed, Overlap, cron_of
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State
from headgate.core.task import NewTask, check_name, check_new_task

METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
MAX_URL = 2000
# Every field of a task is one of these: a column of the schedules' table, an option of a schedule, or a field that
# schedules may not set, since it is of one task alone or would keep a tick from making its own.
COLUMNS = ("type", "ext", "tenant_id", "creator", "category")
OPTIONS = (
    "name", "lane", "priority", "mutex", "rate_key", "agent_id", "unique_key", "max_error_count", "timeout_seconds",
    "on_child_failure",
)  # fmt: skip
NOT_IN_A_SCHEDULE = (
    "start_time", "delay_seconds", "parent_id", "retry_of", "correlation_id", "unique_seconds", "debounce_seconds",
    "debounce_longest_seconds", "debounce_replace",
)  # fmt: skip
_BLANK = NewTask("")
ENDED = FINAL | {State.DEAD, State.NOTIFYING}  # states in which what a tick began has ended
GOOD_ENDS = frozenset({State.SUCCEEDED, State.NOTIFYING, State.PARTIAL, State.RESOLVED})


class ScheduleStatus(StrEnum):
    """Only an `online` schedule fires."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class LogMode(StrEnum):
    """What is kept of each tick."""

    NONE = "none"
    TRIGGER = "trigger_log"  # only that it fired
    TRANS = "trans_log"  # also how what it began ended


class Result(StrEnum):
    """What a line of the log says."""

    EXECUTING = "executing"
    SUCCESS = "success"
    FAILURE = "failure"


class Endpoint(NamedTuple):
    """Where a tick calls, in place of making a task."""

    url: str
    method: str = "POST"
    by_tenant: bool = False  # a key of one tenant said so, and no operator: it may lead to fewer places

    @property
    def host(self) -> str:
        """The host, with a port if one is given: calls to it wait in one queue."""
        return urlsplit(self.url).netloc.lower()

    def instead_of(self, before: "Endpoint | None") -> "Endpoint":
        """This endpoint in the place of another. What is not edited keeps its owner."""
        return self if before is None or (before.url, before.method) != (self.url, self.method) else before


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """What a caller asks for. `task` is made at every tick; with `http` only its type, ext and owner matter."""

    task: NewTask
    cron_expressions: str
    timezone: str = "UTC"
    log: LogMode = LogMode.TRANS
    missed: Missed = Missed.SKIP
    overlap: Overlap = Overlap.ALLOW
    http: Endpoint | None = None
    code: str | None = None  # the program's name for it; a person's schedule has none

    @property
    def cron(self) -> Cron:
        """`Invalid` on a machine that does not know its zone, or if it was stored before its expression was refused."""
        return cron_of(self.cron_expressions, self.timezone)

    @property
    def options(self) -> dict[str, Any]:
        """What it says about its tasks that is not the default."""
        return {name: value for name in OPTIONS if (value := getattr(self.task, name)) != getattr(_BLANK, name)}


@dataclass(frozen=True, slots=True)
class Schedule:
    """One row, as it was when read. `version` moves with every edit, `next_tick` with every tick.

    Every tick up to `done_until` was dealt with, whatever clock and expression come later.
    """

    id: int
    definition: NewSchedule
    status: ScheduleStatus
    version: int
    edited: bool
    next_tick: datetime | None
    done_until: datetime | None
    create_date: datetime
    update_date: datetime

    @property
    def tenant_id(self) -> int:
        return self.definition.task.tenant_id


class TickLog(NamedTuple):
    """One line of a schedule's log. `tick` None: a person triggered it."""

    id: int
    periodic_task_id: int
    tenant_id: int
    result: Result
    error_info: str | None
    tick: datetime | None
    task_id: int | None
    create_date: datetime
    update_date: datetime


def check_schedule(new: NewSchedule) -> None:
    """Raise `Invalid`, naming the field, unless `new` may be stored as it is."""
    check_new_task(new.task)
    cron_of(new.cron_expressions, new.timezone)
    for field in NOT_IN_A_SCHEDULE:
        if getattr(new.task, field) != getattr(_BLANK, field):
            raise Invalid(f"{field} cannot be set on a schedule: each tick sets its own")
    if new.code is not None:
        check_name("code", new.code)
    if new.http is not None:
        _check_endpoint(new.http)


def first_tick(definition: NewSchedule, now: datetime, done_until: datetime | None) -> datetime | None:
    """The first tick of a schedule that goes online now: after all ticks that were ever dealt with."""
    return definition.cron.following(now if done_until is None else max(now, done_until))


def task_for_tick(schedule: Schedule, tick: datetime | None) -> NewTask:
    """The task of a tick, or (None) of a trigger by hand. With `Overlap.QUEUE` all of a schedule have one mutex."""
    task = schedule.definition.task
    mutex = task.mutex
    if mutex is None and schedule.definition.overlap is Overlap.QUEUE:
        mutex = f"periodic:{schedule.id}"
    return task._replace(mutex=mutex, correlation_id=f"periodic:{schedule.id}:{tick_text(tick)}")


def tick_text(tick: datetime | None) -> str:
    """A tick as text."""
    return "by-hand" if tick is None else tick.isoformat().replace("+00:00", "Z")


def call_body(schedule_id: int, type_code: str, tick: datetime | None, ext: str) -> bytes:
    """What an endpoint is sent: which schedule calls, for which tick (null: by hand), and its ext."""
    fields = {"periodic_task_id": schedule_id, "type": type_code, "tick": tick and tick_text(tick)}
    return (json.dumps(fields, ensure_ascii=False)[:-1] + f', "ext": {ext}}}').encode()


def _check_endpoint(http: Endpoint) -> None:
    if http.method not in METHODS:
        raise Invalid(f"http.method must be one of {', '.join(METHODS)}")
    if len(http.url) > MAX_URL or any(ord(letter) <= 32 or ord(letter) >= 127 for letter in http.url):
        raise Invalid(f"http.url must have at most {MAX_URL} characters, all printable ASCII")
    try:
        parts = urlsplit(http.url)
        named = parts.hostname and parts.port != 0
    except ValueError:
        named = False
    if not named or parts.scheme not in ("http", "https"):
        raise Invalid("http.url must be a complete address: https://host/path")
    if "@" in parts.netloc:
        raise Invalid("http.url must not contain a user name or a password")
