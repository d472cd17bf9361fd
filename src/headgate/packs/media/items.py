"""The items of a subscription's list: what the site lists, and which of it is in the library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headgate.packs import Db, Invalid, Noun, Row, Statement, fence, moment, moment_or_none, page_size, reads, writes

MOST_KEY = 200  # so that the unique key of a download has room for it
MOST_TITLE = 1000


class ItemState(StrEnum):
    """What is known of an item's file."""

    LISTED = "listed"  # it was never here
    DOWNLOADED = "downloaded"
    MISSING = "missing"  # it was here, and is gone
    BROKEN = "broken"  # it is here, and damaged


WANTED = (ItemState.LISTED, ItemState.MISSING, ItemState.BROKEN)  # what a download would fetch


@dataclass(frozen=True, slots=True)
class ListedItem:
    """An item as the site lists it; `key` is the site's own id of it."""

    key: str
    position: int
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is known here. `path` is below the library's folder."""

    id: int
    subscription_id: int
    key: str
    position: int
    title: str
    url: str
    state: ItemState
    path: str | None
    bytes: int | None
    listed_at: datetime
    downloaded_at: datetime | None


_NAMES = ("id", "subscription_id", "key", "position", "title", "url", "state", "path", "bytes")
_COLUMNS = ", ".join(f"i.{name}" for name in (*_NAMES, "listed_at", "downloaded_at"))
# A subscription that is not the tenant's gets no items.
PUT = Statement(
    """
    INSERT INTO headgate_media_item (subscription_id, key, position, title, url, state, listed_at)
    SELECT s.id, :key, :position, :title, :url, 'listed', {now} FROM headgate_media_subscription s
     WHERE s.id = :subscription_id AND s.tenant_id = :tenant_id
    ON CONFLICT (subscription_id, key) DO UPDATE
       SET position = excluded.position, title = excluded.title, url = excluded.url, listed_at = excluded.listed_at
    """
)
_THIS = """
    key = :key AND subscription_id = (SELECT s.id FROM headgate_media_subscription s
                                       WHERE s.id = :subscription_id AND s.tenant_id = :tenant_id)
"""
MARK_DOWNLOADED = Statement(
    f"""
    UPDATE headgate_media_item SET state = 'downloaded', path = :path, bytes = :bytes, downloaded_at = {{now}}
     WHERE {_THIS} RETURNING 1
    """
)
MARK = Statement(
    f"""
    UPDATE headgate_media_item SET state = :state
     WHERE state <> 'listed' AND {_THIS} RETURNING 1
    """
)
FIND = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_item i
     WHERE i.subscription_id = :subscription_id AND i.state {{in states text}} AND i.id > :after
     ORDER BY i.id LIMIT :limit
    """
)
BY_KEYS = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_item i JOIN headgate_media_subscription s ON s.id = i.subscription_id
     WHERE i.key {{in keys text}} AND s.tenant_id = :tenant_id AND s.deleted_at IS NULL ORDER BY i.id
    """
)
WITH_FILES = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_item i JOIN headgate_media_subscription s ON s.id = i.subscription_id
     WHERE i.path IS NOT NULL AND s.tenant_id = :tenant_id AND i.id > :after ORDER BY i.id LIMIT :limit
    """
)
COUNT = Statement(
    """
    SELECT subscription_id, state, count(*) FROM headgate_media_item
     WHERE subscription_id {in ids} GROUP BY subscription_id, state
    """
)


class Items(Noun):
    """The items of every subscription."""

    @writes
    def put_items(
        self, db: Db, subscription_id: int, page: Sequence[ListedItem], *, task_id: int, exec_id: str
    ) -> None:
        """Add a page of the list, all or nothing. What is known of a file stays."""
        for item in page:
            _check(item)
        tenant_id = fence(db, task_id, exec_id)
        for item in page:
            db.send(
                PUT, subscription_id=subscription_id, key=item.key, position=item.position,
                title=item.title[:MOST_TITLE], url=item.url, tenant_id=tenant_id,
            )  # fmt: skip

    @writes
    def mark_downloaded(
        self, db: Db, subscription_id: int, key: str, *, path: str, bytes: int, task_id: int, exec_id: str
    ) -> bool:
        """Its file is here, whole; False if the list has no such item."""
        where = {"subscription_id": subscription_id, "key": key, "tenant_id": fence(db, task_id, exec_id)}
        return bool(db.rows(MARK_DOWNLOADED, **where, path=path, bytes=bytes))

    @writes
    def mark_missing(self, db: Db, subscription_id: int, key: str, *, task_id: int, exec_id: str) -> bool:
        """Its file is gone; False if there was none."""
        return _mark(db, ItemState.MISSING, subscription_id, key, task_id, exec_id)

    @writes
    def mark_broken(self, db: Db, subscription_id: int, key: str, *, task_id: int, exec_id: str) -> bool:
        """Its file is damaged; False if there was none."""
        return _mark(db, ItemState.BROKEN, subscription_id, key, task_id, exec_id)

    @reads
    def find(
        self,
        db: Db,
        subscription_id: int,
        states: Sequence[ItemState] = tuple(ItemState),
        *,
        after: int = 0,
        limit: int = 200,
    ) -> list[Item]:
        """A page of items in these states, by id, behind `after`."""
        found = db.rows(
            FIND, subscription_id=subscription_id, states=[*states], after=after, limit=page_size(limit)
        )  # fmt: skip
        return [_item(row) for row in found]

    @reads
    def by_keys(self, db: Db, tenant_id: int, keys: Sequence[str]) -> list[Item]:
        """The items of a tenant that have one of these keys: one for each subscription that lists it."""
        return [_item(row) for row in db.rows(BY_KEYS, tenant_id=tenant_id, keys=[*keys])]

    @reads
    def with_files(self, db: Db, tenant_id: int, *, after: int = 0, limit: int = 200) -> list[Item]:
        """A page of a tenant's items that have, or had, a file, by id, behind `after`."""
        return [_item(row) for row in db.rows(WITH_FILES, tenant_id=tenant_id, after=after, limit=page_size(limit))]

    @reads
    def counts(self, db: Db, subscription_ids: Sequence[int]) -> Mapping[int, Mapping[ItemState, int]]:
        """How many items of each subscription are in each state."""
        found: dict[int, dict[ItemState, int]] = {each: dict.fromkeys(ItemState, 0) for each in subscription_ids}
        for subscription_id, state, count in db.rows(COUNT, ids=[*subscription_ids]):
            found[subscription_id][ItemState(state)] = count
        return found


def _mark(db: Db, state: ItemState, subscription_id: int, key: str, task_id: int, exec_id: str) -> bool:
    where = {"subscription_id": subscription_id, "key": key, "tenant_id": fence(db, task_id, exec_id)}
    return bool(db.rows(MARK, state=state, **where))


def _check(item: ListedItem) -> None:
    if not item.key or len(item.key) > MOST_KEY or "\0" in item.key + item.title + item.url:
        raise Invalid(f"an item's key must have 1 to {MOST_KEY} characters, and its texts no NUL")


def _item(row: Row) -> Item:
    *values, listed_at, downloaded_at = row
    named = dict(zip(_NAMES, values, strict=True))
    named["state"] = ItemState(named["state"])
    return Item(**named, listed_at=moment(listed_at), downloaded_at=moment_or_none(downloaded_at))
