"""Delivery queues that are held for now, and who sends callbacks at all."""

from datetime import datetime
from typing import NamedTuple

from headgate.core.callbacks import CallbackKind, Hold
from headgate.store.db.statement import Db, Row, Statement, moment

DUTY = "callbacks"
Queue = tuple[str, CallbackKind]  # the callbacks of one kind of one type


class NewHold(NamedTuple):
    """A queue that is held from now on, for at least `seconds`."""

    queue: Queue
    host: str
    seconds: float
    blocked: bool
    reason: str


HOLDS = Statement("SELECT type, kind, host, until, blocked, reason FROM headgate_callback_hold")
HOLD = Statement(
    """
    INSERT INTO headgate_callback_hold (type, kind, host, until, blocked, reason)
    VALUES (:type, :kind, :host, {now + :seconds}, :blocked, :reason)
    ON CONFLICT (type, kind) DO UPDATE
       SET host = excluded.host, until = excluded.until, blocked = excluded.blocked, reason = excluded.reason
    """
)
RELEASE = Statement("DELETE FROM headgate_callback_hold WHERE type = :type AND kind = :kind AND host = :host")
SAY_ALIVE = Statement(
    """
    INSERT INTO headgate_duty (name, at) VALUES (:name, {now}) ON CONFLICT (name) DO UPDATE SET at = excluded.at
    """
)
LAST_SEEN = Statement("SELECT at FROM headgate_duty WHERE name = :name")


def read_holds(db: Db) -> dict[Queue, Hold]:
    """Every queue that is held; those that are not, which are nearly all, have no row."""
    return holds_of(db.rows(HOLDS))


def holds_of(rows: list[Row]) -> dict[Queue, Hold]:
    return {
        (type_code, CallbackKind(kind)): Hold(host, moment(until), bool(blocked), reason)
        for type_code, kind, host, until, blocked, reason in rows
    }


UNSENT = Statement(
    """
    SELECT 1 FROM headgate_callback_delivery WHERE status = 'pending'
       AND NOT EXISTS (SELECT 1 FROM headgate_duty WHERE name = :name AND at >= {now - :seconds})
     LIMIT 1
    """
)


def sender_seen(db: Db) -> datetime | None:
    """When a process that sends callbacks last said so; None if none ever did."""
    found = db.rows(LAST_SEEN, name=DUTY)
    return moment(found[0][0]) if found else None
