"""Subscriptions: lists on a site that somebody wants to have here."""

import json
from dataclasses import dataclass
from datetime import datetime

from headgate.packs import (
    LAST_ID,
    PERSON,
    Db,
    Invalid,
    NotFound,
    Noun,
    Row,
    Statement,
    fence,
    moment,
    moment_or_none,
    page_size,
    reads,
    record_system,
    writes,
)
from headgate.packs.media.addresses import check_url
from headgate.packs.media.subscription_tasks import REMOVABLE

MOST_NAME = 255
MOST_TOTAL = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Subscription:
    """One list. `expected_total` is what the site says; `listed_at` is when its items were last fetched to the end."""

    id: int
    tenant_id: int
    name: str
    url: str
    requires_cookie: bool
    created_at: datetime
    deleted_at: datetime | None
    expected_total: int | None
    expected_at: datetime | None
    listed_at: datetime | None


_COLUMNS = """
    id, tenant_id, name, url, requires_cookie, created_at, deleted_at, expected_total, expected_at, listed_at
"""
CREATE = Statement(
    f"""
    INSERT INTO headgate_media_subscription (tenant_id, name, url, requires_cookie, created_at)
    VALUES (:tenant_id, :name, :url, :requires_cookie, {{now}})
    RETURNING {_COLUMNS}
    """
)
GET = Statement(f"SELECT {_COLUMNS} FROM headgate_media_subscription WHERE id = :id")
LIST = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_subscription
     WHERE deleted_at IS NULL AND id < :cursor AND (:everyones OR tenant_id = :tenant_id) ORDER BY id DESC LIMIT :limit
    """
)
MARK_DELETED = Statement(
    "UPDATE headgate_media_subscription SET deleted_at = {now} WHERE id = :id AND deleted_at IS NULL RETURNING 1"
)
SET_EXPECTED_TOTAL = Statement(
    """
    UPDATE headgate_media_subscription SET expected_total = :total, expected_at = {now}
     WHERE id = :id AND tenant_id = :tenant_id
    """
)
MARK_LISTED = Statement(
    "UPDATE headgate_media_subscription SET listed_at = {now} WHERE id = :id AND tenant_id = :tenant_id"
)
REMOVE_ITEMS = Statement(
    """
    DELETE FROM headgate_media_item
     WHERE id IN (SELECT id FROM headgate_media_item WHERE subscription_id = :id ORDER BY id LIMIT :limit) RETURNING 1
    """
)
REMOVE = Statement("DELETE FROM headgate_media_subscription WHERE id = :id AND deleted_at IS NOT NULL")


class Subscriptions(Noun):
    """All subscriptions. Those of another tenant, and deleted ones, count as absent."""

    def create(
        self, tenant_id: int, name: str, url: str, *, requires_cookie: bool = False, actor: str = PERSON
    ) -> Subscription:
        """A new subscription to the list at `url`."""
        check_url(url)
        if not name.strip() or len(name) > MOST_NAME or "\0" in name:
            raise Invalid(f"name: use 1 to {MOST_NAME} characters")
        return self._create(tenant_id, name.strip(), url, requires_cookie, actor)

    @writes
    def _create(self, db: Db, tenant_id: int, name: str, url: str, requires_cookie: bool, actor: str) -> Subscription:
        [row] = db.rows(CREATE, tenant_id=tenant_id, name=name, url=url, requires_cookie=requires_cookie)
        subscription = _subscription(row)
        _record(db, "subscription_created", subscription, actor)
        return subscription

    @reads
    def get(self, db: Db, subscription_id: int, tenant_id: int | None = None) -> Subscription:
        """The subscription; `NotFound` if it was deleted."""
        found = _read(db, subscription_id, tenant_id)
        if found.deleted_at is not None:
            raise _no_subscription(subscription_id)
        return found

    @reads
    def deleted(self, db: Db, subscription_id: int) -> Subscription:
        """A subscription that may have been deleted."""
        return _read(db, subscription_id, None)

    @reads
    def find(
        self, db: Db, tenant_id: int | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> list[Subscription]:
        """A page of subscriptions, a tenant's or everybody's, newest first."""
        wanted = {"everyones": tenant_id is None, "tenant_id": tenant_id, "cursor": cursor or LAST_ID}
        return [_subscription(row) for row in db.rows(LIST, **wanted, limit=page_size(limit))]

    @writes
    def mark_deleted(
        self, db: Db, subscription_id: int, tenant_id: int | None = None, *, actor: str = PERSON
    ) -> Subscription:
        """Delete it: from now on nothing begins for it. Deleting it again changes nothing."""
        found = _read(db, subscription_id, tenant_id)
        if db.rows(MARK_DELETED, id=subscription_id):
            _record(db, "subscription_deleted", found, actor)
        return _read(db, subscription_id, tenant_id)

    @writes
    def remove_deleted(self, db: Db, seconds: float, *, limit: int) -> int:
        """Remove up to `limit` items of a subscription deleted that long ago that has no open task, and after its
        last item the subscription itself. Returns how many rows were removed."""
        found = db.rows(REMOVABLE, seconds=seconds)
        if not found:
            return 0
        removed = len(db.rows(REMOVE_ITEMS, id=found[0][0], limit=limit))
        if removed < limit:
            db.send(REMOVE, id=found[0][0])
            removed += 1
        return removed

    # for an execution

    @writes
    def set_expected_total(self, db: Db, subscription_id: int, total: int, *, task_id: int, exec_id: str) -> None:
        """Record how many items the site says its list has."""
        if not 0 <= total <= MOST_TOTAL:
            raise Invalid(f"total must be between 0 and {MOST_TOTAL:,}")
        db.send(SET_EXPECTED_TOTAL, id=subscription_id, total=total, tenant_id=fence(db, task_id, exec_id))

    @writes
    def mark_listed(self, db: Db, subscription_id: int, *, task_id: int, exec_id: str) -> None:
        """Its list was fetched to the end."""
        db.send(MARK_LISTED, id=subscription_id, tenant_id=fence(db, task_id, exec_id))


def _read(db: Db, subscription_id: int, tenant_id: int | None) -> Subscription:
    rows = db.rows(GET, id=subscription_id)
    if not rows or tenant_id not in (None, rows[0][1]):
        raise _no_subscription(subscription_id)
    return _subscription(rows[0])


def _record(db: Db, kind: str, subscription: Subscription, actor: str) -> None:
    detail = {"object": f"subscription:{subscription.id}", "title": subscription.name}
    record_system(db, kind, actor, json.dumps(detail | {"tenant_id": subscription.tenant_id}))


def _no_subscription(subscription_id: int) -> NotFound:
    return NotFound(f"no subscription {subscription_id}")


def _subscription(row: Row) -> Subscription:
    subscription_id, tenant_id, name, url, requires_cookie, created_at, deleted_at, total, expected_at, listed_at = row
    return Subscription(
        subscription_id, tenant_id, name, url, bool(requires_cookie), moment(created_at), moment_or_none(deleted_at),
        total, moment_or_none(expected_at), moment_or_none(listed_at),
    )  # fmt: skip
