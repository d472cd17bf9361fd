"""What people look at of callbacks: a task's own with their attempts, lists over all tasks, counts."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import NamedTuple

from headgate.core.callbacks import CallbackKind, Delivery
from headgate.core.task import check_name
from headgate.store.db.pages import LAST_ID, MOST_PER_PAGE, Page, check_page_size
from headgate.store.db.statement import Db, Row, Statement, moment, moment_or_none

MOST_ATTEMPTS_SHOWN = 100
SETTLED_SECONDS = 5.0
MOST_READ = 5000  # rows, to see whether they are as they are asked for


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt: the status of its answer, or None and why there was none."""

    id: int
    at: datetime
    host: str
    status: int | None
    seconds: float
    error: str
    body: str


@dataclass(frozen=True, slots=True)
class CallbackRecord:
    """A callback as it stands; `attempts` counts since it was last asked for, `due_at` is that of the next."""

    id: int
    webhook_id: str
    task_id: int
    tenant_id: int
    type: str
    kind: CallbackKind
    seq: int  # of the transition that asked for it
    status: Delivery
    attempts: int
    due_at: datetime | None
    host: str | None
    last_status: int | None
    last_error: str | None
    created_at: datetime
    update_date: datetime
    delivered_at: datetime | None
    tries: list[DeliveryAttempt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which callbacks to list; None is any."""

    tenant_id: int | None = None
    status: Delivery | None = None
    kind: CallbackKind | None = None
    type: str | None = None
    host: str | None = None
    lines: tuple[tuple[str, CallbackKind], ...] = ()  # that go to this host, by type and kind


@dataclass(frozen=True, slots=True)
class Deliverables:
    """How many there are of what is not done with: 10,001 stands for anything above 10,000."""

    pending: int
    undeliverable: int
    oldest: datetime | None  # of the pending


class AttemptTiming(NamedTuple):
    """An attempt, for whoever counts."""

    id: int
    status: int | None
    seconds: float


_COLUMNS = (
    "id, webhook_id, task_id, tenant_id, type, kind, seq, status, attempts, due_at, host, last_status, last_error,"
    " created_at, update_date, delivered_at"
)
OF_TASK = Statement(
    f"SELECT {_COLUMNS} FROM headgate_callback_delivery WHERE task_id = :task_id ORDER BY id DESC LIMIT {MOST_PER_PAGE}"
)
TRIES = Statement(
    f"""
    SELECT delivery_id, id, at, host, status, seconds, error, body
      FROM headgate_callback_attempt WHERE task_id = :task_id
     ORDER BY id DESC LIMIT {MOST_ATTEMPTS_SHOWN}
    """
)


def of_task(db: Db, task_id: int, delivery_id: int | None = None) -> list[CallbackRecord]:
    """A task's callbacks, newest first, each with its attempts, newest first."""
    tries: dict[int, list[DeliveryAttempt]] = defaultdict(list)
    for owner, number, at, *rest in db.rows(TRIES, task_id=task_id):
        tries[owner].append(DeliveryAttempt(number, moment(at), *rest))
    rows = db.rows(OF_TASK, task_id=task_id)
    return [_sent(row, tries[row[0]]) for row in rows if delivery_id in (None, row[0])]


def _sent(row: Row, tries: list[DeliveryAttempt]) -> CallbackRecord:
    number, webhook_id, task_id, tenant_id, type_code, kind, seq, status, attempts, due_at, host, code, error = row[:13]
    created_at, update_date, delivered_at = row[13:]
    state = Delivery(status)
    return CallbackRecord(
        number, webhook_id, task_id, tenant_id, type_code, CallbackKind(kind), seq, state, attempts,
        moment(due_at) if state is Delivery.PENDING else None, host, code, error, moment(created_at),
        moment(update_date), moment_or_none(delivered_at), tries,
    )  # fmt: skip


# A callback that was never sent has no host yet: it belongs to where its type says it is to go.
_CONDITIONS = {
    "tenant_id": "tenant_id = :tenant_id",
    "status": "",  # which the span says
    "kind": "kind = :kind",
    "type": "type = :type",
    "host": "(host = :host OR (host IS NULL AND kind || ' ' || type {in lines text}))",
}


# One status, by its index. PostgreSQL is asked for an order that only this index has: as an equality it would rather
# walk the primary key past everything that has another. SQLite does not seek by pairs as soon as there is another
# condition, and is told the name.
_EVERY = "FROM headgate_callback_delivery WHERE id < :cursor AND id > :floor{and_so} ORDER BY id DESC"
_SQLITE, _POSTGRES = (
    f"FROM headgate_callback_delivery {index} WHERE {span}{{and_so}} ORDER BY status DESC, id DESC"
    for index, span in (
        ("INDEXED BY headgate_callback_delivery_status", "status = :status AND id < :cursor AND id > :floor"),
        ("", "(status, id) < (:status, :cursor) AND (status, id) > (:status, :floor)"),
    )
)


def _among(names: tuple[str, ...], what: str, end: str) -> Statement:
    and_so = "".join(f" AND {_CONDITIONS[name]}" for name in names if name != "status")
    sqlite, postgres = (_SQLITE, _POSTGRES) if "status" in names else (_EVERY, _EVERY)
    return Statement(
        sqlite=f"SELECT {what} {sqlite.format(and_so=and_so)} {end}",
        postgres=f"SELECT {what} {postgres.format(and_so=and_so)} {end}",
    )


@cache
def _list(names: tuple[str, ...]) -> Statement:
    return _among(names, _COLUMNS, "LIMIT :limit")


# What a page does not look at any more.
FLOOR = _among((), "id", "LIMIT 1 OFFSET :reach")
FLOOR_OF_STATUS = _among(("status",), "id", "LIMIT 1 OFFSET :reach")


def find(db: Db, wanted: DeliveryFilter, cursor: int | None, limit: int) -> Page[CallbackRecord]:
    """A page of callbacks, newest first; it reads a bounded number of rows, whatever is asked for."""
    check_page_size(limit, "callbacks")
    values: dict[str, object] = {name: value for name in _CONDITIONS if (value := getattr(wanted, name)) is not None}
    names = tuple(values)
    for name in ("type", "host"):
        if name in values:
            check_name(name, str(values[name]), empty=True)
    if "host" in values:
        values["lines"] = [f"{kind} {type_code}" for type_code, kind in wanted.lines]
    last = LAST_ID if cursor is None else cursor
    floor = 0 if set(names) <= {"status"} else _floor(db, last, wanted.status)
    rows = db.rows(_list(names), cursor=last, floor=floor, limit=limit + 1, **values)
    items = [_sent(row, []) for row in rows[:limit]]
    if len(rows) > limit:
        return Page(items, items[-1].id)
    return Page(items, floor + 1 if floor else None)


def _floor(db: Db, cursor: int, status: Delivery | None) -> int:
    statement = FLOOR if status is None else FLOOR_OF_STATUS
    found = db.rows(statement, cursor=cursor, floor=0, reach=MOST_READ, status=status and status.value)
    return int(found[0][0]) if found else 0


COUNT = Statement(
    "SELECT count(*) FROM (SELECT 1 FROM headgate_callback_delivery WHERE status = :status LIMIT :most) found"
)
# Of the newest undeliverable ones, so that no tenant's answer costs more than that of all.
UNDELIVERABLE = Statement(
    """
    SELECT count(*), coalesce(sum(CASE WHEN CAST(:tenant_id AS bigint) IS NULL OR tenant_id = :tenant_id
                                   THEN 1 ELSE 0 END), 0)
      FROM (SELECT tenant_id FROM headgate_callback_delivery
             WHERE status = 'undeliverable' ORDER BY id DESC LIMIT :most) found
    """
)
OLDEST = Statement("SELECT created_at FROM headgate_callback_delivery WHERE status = 'pending' ORDER BY id LIMIT 1")
# What commits late has a lower id than what is seen already: the newest are looked at when they have settled.
ATTEMPTS = Statement(
    """
    SELECT id, status, seconds FROM headgate_callback_attempt WHERE id > :after AND at < {now - :seconds}
     ORDER BY id LIMIT :limit
    """
)
LAST_ATTEMPT = Statement("SELECT coalesce(max(id), 0) FROM headgate_callback_attempt")
