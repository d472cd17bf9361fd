"""Subscriptions: who follows the feed across restarts, the place of each, and which process has its lease."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import NotFound
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.statement import Db, Row, Statement, moment, moment_or_none
from headgate.store.events.audit import PERSON, record_system
from headgate.store.events.counting import add_calls
from headgate.store.events.feed import Cursor, newest

UNUSED_SECONDS = 7 * 86400.0  # then a subscription keeps nothing from being removed

ADD = Statement(
    """
    INSERT INTO headgate_subscription (name, place, floor, used_at) VALUES (:name, :place, :floor, {now})
    ON CONFLICT (name) DO NOTHING
    """
)
LEASE = Statement(
    """
    UPDATE headgate_subscription SET holder = :holder, lease_until = {now + :seconds}, used_at = {now}
     WHERE name = :name AND (holder IS NULL OR holder = :holder OR lease_until <= {now})
    RETURNING place, tries
    """
)
EXISTS = Statement("SELECT 1 FROM headgate_subscription WHERE name = :name")
SAVE = Statement(
    """
    UPDATE headgate_subscription
       SET place = :place, floor = :floor, tries = :tries, used_at = {now}, handled = handled + :handled,
           failed = failed + :failed, skipped = skipped + :skipped
     WHERE name = :name AND holder = :holder
    RETURNING 1
    """
)
RELEASE = Statement(
    """
    UPDATE headgate_subscription SET holder = NULL, lease_until = NULL, used_at = {now}
     WHERE name = :name AND holder = :holder
    """
)
ALL = Statement(
    """
    SELECT s.name, s.place, s.tries, CASE WHEN s.lease_until > {now} THEN s.holder END, s.used_at,
           s.handled, s.failed, s.skipped, s.used_at > {now - :unused},
           (SELECT e.at FROM headgate_task_event e WHERE e.id >= s.floor ORDER BY e.id LIMIT 1)
      FROM headgate_subscription s ORDER BY s.name
    """
)
REMOVE = Statement("DELETE FROM headgate_subscription WHERE name = :name RETURNING place")
FLOOR = Statement("SELECT min(floor) FROM headgate_subscription WHERE used_at > {now - :unused}")


@dataclass(frozen=True, slots=True)
class Lease:
    """A subscription leased by this process: its place, and how often handling of the next event was begun in vain."""

    place: Cursor
    tries: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """How a subscription is doing. `waiting_since` is when the first event it has not handled happened.

    One that is not `in_use` was not used for a week: what it has not handled may be removed.
    """

    name: str
    place: Cursor
    tries: int
    holder: str | None
    used_at: datetime
    handled: int
    failed: int
    skipped: int
    in_use: bool
    waiting_since: datetime | None

    def lag_seconds(self, now: datetime) -> float:
        """How long the first event that it has not handled has been waiting."""
        return 0.0 if self.waiting_since is None else max((now - self.waiting_since).total_seconds(), 0.0)


class Subscriptions(Noun):
    """Every subscription, by name. One process at a time has it; any may take it over when its lease is over."""

    @writes
    def lease(self, db: Db, name: str, holder: str, seconds: float) -> Lease | None:
        """Take it, or have it for `seconds` more; None while another holder has it. A new one begins with the next
        event."""
        rows = db.rows(LEASE, name=name, holder=holder, seconds=seconds)
        if not rows and not db.rows(EXISTS, name=name):
            place = newest(db)
            db.send(ADD, name=name, place=str(place), floor=place.floor)
            rows = db.rows(LEASE, name=name, holder=holder, seconds=seconds)
        return Lease(Cursor.parse(rows[0][0]), rows[0][1]) if rows else None

    @writes
    def save(
        self,
        db: Db,
        name: str,
        holder: str,
        lease: Lease,
        *,
        handled: Sequence[str] = (),
        failed: Sequence[str] = (),
        skipped: Sequence[str] = (),
    ) -> bool:
        """Write its new place and count the events by kind; writes nothing and returns False if this holder has lost
        the lease."""
        saved = db.rows(
            SAVE, name=name, holder=holder, place=str(lease.place), floor=lease.place.floor, tries=lease.tries,
            handled=len(handled), failed=len(failed), skipped=len(skipped),
        )  # fmt: skip
        outcomes = {"handled": handled, "failed": failed, "skipped": skipped}
        if saved:
            add_calls(db, name, Counter((kind, outcome) for outcome, kinds in outcomes.items() for kind in kinds))
        return bool(saved)

    @writes
    def release(self, db: Db, name: str, holder: str) -> None:
        """Let another process have it at once."""
        db.send(RELEASE, name=name, holder=holder)

    @reads
    def all(self, db: Db) -> list[Subscription]:
        """Every subscription, by name."""
        return [_subscription(row) for row in db.rows(ALL, unused=UNUSED_SECONDS)]

    @writes
    def remove(self, db: Db, name: str, *, actor: str = PERSON) -> None:
        """Forget it: it keeps nothing from being removed. A process that still uses it begins anew."""
        if not db.rows(REMOVE, name=name):
            raise NotFound.of("no-listener", listener=name)
        record_system(db, "listener_removed", actor, json.dumps({"listener": name}))


def lowest_floor(db: Db) -> int | None:
    """The first event that a subscription in use may not have handled; None if none is in use."""
    floor: int | None = db.rows(FLOOR, unused=UNUSED_SECONDS)[0][0]
    return floor


def _subscription(row: Row) -> Subscription:
    name, place, tries, holder, used_at, handled, failed, skipped, in_use, waiting_since = row
    return Subscription(
        name, Cursor.parse(place), tries, holder, moment(used_at), handled, failed, skipped, bool(in_use),
        moment_or_none(waiting_since),
    )  # fmt: skip
