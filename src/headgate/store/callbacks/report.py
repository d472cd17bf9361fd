"""What people look at of callbacks: a task's own with their attempts, lists over all tasks, counts."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import NamedTuple

from headgate.core.callbacks import CallbackKind, Delivery, Hold
from headgate.core.task import check_name
from headgate.store.callbacks.holds import Queue, read_holds, sender_seen
from headgate.store.db.pages import EXACT_UP_TO, LAST_ID, MOST_PER_PAGE, Page, check_page_size
from headgate.store.db.statement import Db, Row, Statement, clock, moment, moment_or_none

MOST_ATTEMPTS_SHOWN = 100
SETTLED_SECONDS = 5.0
MOST_READ = 5000  # rows read to check whether they match


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
    """A callback as it stands; `attempts` counts since it was last asked for, `due_at` is that of the next.

    Until `receiver_rests_until` nothing is sent to its receiver, whatever is due.
    """

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
    receiver_rests_until: datetime | None = None
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

    pending: int  # the blocked among them
    undeliverable: int
    oldest: datetime | None  # of the pending
    blocked: int
    blocked_hosts: tuple[str, ...]
    sender_seen: datetime | None  # when a process that sends them last said so


class AttemptTiming(NamedTuple):
    """The outcome and duration of an attempt, for metrics."""

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
    rows = [row for row in db.rows(OF_TASK, task_id=task_id) if delivery_id in (None, row[0])]
    return _records(db, rows, tries)


def _records(db: Db, rows: list[Row], tries: dict[int, list[DeliveryAttempt]]) -> list[CallbackRecord]:
    is_owed = any(row[7] == Delivery.PENDING for row in rows)
    holds, now = (read_holds(db), clock(db)) if is_owed else ({}, None)
    return [_record(row, holds.get((row[4], CallbackKind(row[5]))), now, tries.get(row[0], [])) for row in rows]


def _record(row: Row, hold: Hold | None, now: datetime | None, tries: list[DeliveryAttempt]) -> CallbackRecord:
    number, webhook_id, task_id, tenant_id, type_code, kind, seq, status, attempts, due_at, host, code, error = row[:13]
    created_at, update_date, delivered_at = row[13:]
    state, due, rests_until = Delivery(status), None, None
    if state is Delivery.PENDING:
        due = moment(due_at)
        if hold is not None:
            host, error = host or hold.host, error or hold.reason
            if hold.blocked:
                state, error = Delivery.BLOCKED, hold.reason
            elif now is not None and hold.until > now:
                rests_until = hold.until
    return CallbackRecord(
        number, webhook_id, task_id, tenant_id, type_code, CallbackKind(kind), seq, state, attempts, due, host, code,
        error, moment(created_at), moment(update_date), moment_or_none(delivered_at), rests_until, tries,
    )  # fmt: skip


# A callback that was never sent has no host yet: it belongs to where its type says it is to go.
_CONDITIONS = {
    "tenant_id": "tenant_id = :tenant_id",
    "status": "",  # which the span says
    "kind": "kind = :kind",
    "type": "type = :type",
    "host": "(host = :host OR (host IS NULL AND kind || ' ' || type {in lines text}))",
    "blocked": "kind || ' ' || type {in blocked text}",  # what is blocked is stored as pending
    "unblocked": "NOT (kind || ' ' || type {in blocked text})",
}


# One status, by its index. The order asked of PostgreSQL is one that only this index has: for an equality it would walk
# the primary key past all other rows. SQLite does not seek by pairs once there is another condition, so the index is
# named.
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
    blocked = [] if wanted.status not in _OWED else _names(_blocked(db))
    if wanted.status is Delivery.BLOCKED and not blocked:
        return Page([], None)
    values = _conditions(wanted, blocked)
    names, status = tuple(values), values.get("status")
    values |= {"lines": _names(wanted.lines), "blocked": blocked}
    last = LAST_ID if cursor is None else cursor
    floor = 0 if set(names) <= {"status"} else _floor(db, last, status)
    rows = db.rows(_list(names), cursor=last, floor=floor, limit=limit + 1, **values)
    items = _records(db, rows[:limit], {})
    if len(rows) > limit:
        return Page(items, items[-1].id)
    return Page(items, floor + 1 if floor else None)


_OWED = (Delivery.PENDING, Delivery.BLOCKED)


def _conditions(wanted: DeliveryFilter, blocked: list[str]) -> dict[str, object]:
    """What to ask of each row, by the names in `_CONDITIONS`."""
    filters = {name: getattr(wanted, name) for name in ("tenant_id", "status", "kind", "type", "host")}
    values: dict[str, object] = {name: value for name, value in filters.items() if value is not None}
    for name in ("type", "host"):
        if name in values:
            check_name(name, str(values[name]), empty=True)
    if wanted.status in _OWED:
        values["status"] = Delivery.PENDING.value
        if blocked:
            values["blocked" if wanted.status is Delivery.BLOCKED else "unblocked"] = blocked
    return values


def _blocked(db: Db) -> dict[Queue, Hold]:
    return {queue: hold for queue, hold in read_holds(db).items() if hold.blocked}


def _names(queues: Iterable[Queue]) -> list[str]:
    return [f"{kind} {type_code}" for type_code, kind in queues]


def _floor(db: Db, cursor: int, status: object) -> int:
    statement = FLOOR if status is None else FLOOR_OF_STATUS
    found = db.rows(statement, cursor=cursor, floor=0, reach=MOST_READ, status=status)
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
COUNT_QUEUE = Statement(
    """
    SELECT count(*) FROM (SELECT 1 FROM headgate_callback_delivery
                           WHERE status = 'pending' AND type = :type AND kind = :kind LIMIT :most) found
    """
)
OLDEST = Statement("SELECT created_at FROM headgate_callback_delivery WHERE status = 'pending' ORDER BY id LIMIT 1")


def deliverables(db: Db) -> Deliverables:
    """How many callbacks are not done with, up to 10,001 of each kind, and who sends them."""
    pending, stuck = (
        int(db.rows(COUNT, status=status.value, most=EXACT_UP_TO + 1)[0][0])
        for status in (Delivery.PENDING, Delivery.UNDELIVERABLE)
    )
    oldest = db.rows(OLDEST)
    blocked = {
        (queue, hold.host): int(db.rows(COUNT_QUEUE, type=queue[0], kind=queue[1].value, most=EXACT_UP_TO + 1)[0][0])
        for queue, hold in _blocked(db).items()
    }
    return Deliverables(
        pending,
        stuck,
        moment(oldest[0][0]) if oldest else None,
        min(sum(blocked.values()), EXACT_UP_TO + 1),
        tuple(sorted({host for (_, host), count in blocked.items() if count})),
        sender_seen(db),
    )


# What commits late has a lower id than what is seen already: the newest are looked at when they have settled.
ATTEMPTS = Statement(
    """
    SELECT id, status, seconds FROM headgate_callback_attempt WHERE id > :after AND at < {now - :seconds}
     ORDER BY id LIMIT :limit
    """
)
LAST_ATTEMPT = Statement("SELECT coalesce(max(id), 0) FROM headgate_callback_attempt")


def undeliverable(db: Db, tenant_id: int | None) -> tuple[int, bool]:
    [[looked_at, found]] = db.rows(UNDELIVERABLE, tenant_id=tenant_id, most=EXACT_UP_TO + 1)
    return min(int(found), EXACT_UP_TO), looked_at <= EXACT_UP_TO
