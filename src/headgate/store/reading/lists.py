"""Lists of tasks, live and in history, newest first. Whatever the filter, a page reads a bounded number of rows.

Every filter that selects few tasks has an index (`reading/list_plan.py`). With several filters at once, or one without
an index (`q`), a page reads up to a fixed number of rows: it returns the matches among them, which may be none, and the
cursor to continue from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from headgate.core.states import State
from headgate.core.task import Task, check_name
from headgate.store.catalog.catalog import Catalog
from headgate.store.db.indexes import TABLES
from headgate.store.db.pages import LAST_ID, Page, check_page_size
from headgate.store.db.statement import Db, PendingRows, Statement
from headgate.store.reading.list_plan import Way, along, ways
from headgate.store.tasks.rows import read_page

MOST_READ = 2000  # rows read to check whether they match
MOST_ENTRIES = 25_000  # of indexes that say all that is asked for


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks to list; None is any. `errored` selects tasks that have (or have not) failed before.

    For states in `fresh` only tasks that have not failed before match; for states in `failed`, only tasks that have.
    `q` is a part of the name, the type or the parameters (`ext`, as it is written), A to Z in either case. Times of
    creation are assumed to rise with the ids: tasks created after the clock was set back may be passed over.
    """

    tenant_id: int | None = None
    status: tuple[State, ...] | None = None
    errored: bool | None = None
    fresh: tuple[State, ...] | None = None
    failed: tuple[State, ...] | None = None
    type: str | None = None
    lane: str | None = None
    category: str | None = None
    creator: int | None = None
    mutex: str | None = None
    parent_id: int | None = None
    agent_id: str | None = None
    correlation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    q: str | None = None


# A status is written so that no index on it applies: only the chosen way is to be used.
_CONDITIONS = {
    "tenant_id": "tenant_id = :tenant_id",
    "status": "coalesce(status, '') {in status text}",
    "errored": "(error_count > 0) = :errored",
    "fresh": "NOT (error_count > 0 AND coalesce(status, '') {in fresh text})",
    "failed": "NOT (error_count = 0 AND coalesce(status, '') {in failed text})",
    "type": "type = :type",
    "lane": "lane = :lane",
    "category": "category = :category",
    "creator": "creator = :creator",
    "mutex": "mutex = :mutex",
    "parent_id": "parent_id = :parent_id",
    "agent_id": "agent_id = :agent_id",
    "correlation_id": "correlation_id = :correlation_id",
    "created_after": "create_date >= :created_after",
    "created_before": "create_date < :created_before",
    "q": "lower((coalesce(name, '') || ' ' || type || ' ' || ext){as_bytes}) LIKE :q ESCAPE '!'",
}
# Both databases ignore the case of these letters and no others, whatever the locale.
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

Span = tuple[int, int]  # the first id, and the one after the last


def find(db: Db, catalog: Catalog, wanted: Filter, cursor: int | None, limit: int) -> Page[Task]:
    """A page of tasks, live ones and history alike; every statement of it is to see the same moment."""
    check_page_size(limit, "tasks")
    values = _values(wanted)
    chosen = ways(db, catalog, values)
    spans = {table: _span(db, table, wanted, LAST_ID if cursor is None else cursor) for table in TABLES}
    left = _left(db, chosen, spans, limit)
    if left is not None:
        spans = {table: (max(since, left + 1), before) for table, (since, before) in spans.items()}
    ids = _matching(db, chosen, spans, values, limit + 1)
    items = read_page(db, ids[:limit])
    if len(items) < len(ids):
        return Page(items, items[-1].id)
    return Page(items, None if left is None else left + 1)


def _values(wanted: Filter) -> dict[str, Any]:
    values = {name: value for name in _CONDITIONS if (value := getattr(wanted, name)) is not None}
    for name in {"status", "fresh", "failed"} & values.keys():
        values[name] = [state.value for state in values[name]]
    for name, value in values.items():
        if isinstance(value, str):
            check_name(name, value, empty=True)
    if "q" in values:
        values["q"] = sought(values["q"])
    return values


def sought(text: str) -> str:
    """A pattern that finds the text anywhere, for LIKE … ESCAPE '!' on what `lower` gave."""
    escaped = "".join(f"!{letter}" if letter in "!%_" else letter for letter in text.translate(_LOWER))
    return f"%{escaped}%"


def _left(db: Db, chosen: Sequence[Way], spans: dict[str, Span], limit: int) -> int | None:
    """The highest id that a page does not look at any more; None if it looks at all, or finds enough before."""
    chosen = [way for way in chosen if way.index.in_order]
    sifted = any(set(way.names) - {"tenant_id"} for way in chosen)
    places = sum(len(way.places) for way in chosen)
    reach = max(1, (MOST_READ if sifted else MOST_ENTRIES) // max(1, places))
    if limit < reach and not sifted:
        return None
    answers = [
        answer
        for way in chosen
        for answer in _in_each_place(db, along(way.index, "LIMIT 1 OFFSET :reach"), way, spans, reach=reach)
    ]
    return max((row[0] for answer in answers for row in answer.rows()), default=None)


def _matching(db: Db, chosen: Sequence[Way], spans: dict[str, Span], values: dict[str, Any], limit: int) -> list[int]:
    """The highest ids of tasks that are as they are asked for."""
    answers: list[PendingRows] = []
    for way in chosen:
        statement = along(way.index, "LIMIT :limit", tuple(_CONDITIONS[name] for name in way.names))
        parameters = {name: values[name] for name in way.names}
        answers += _in_each_place(db, statement, way, spans, limit=limit, **parameters)
    return sorted((row[0] for answer in answers for row in answer.rows()), reverse=True)[:limit]


def _in_each_place(
    db: Db, statement: Statement, way: Way, spans: dict[str, Span], **parameters: Any
) -> list[PendingRows]:
    """Ask in every place of a way: PostgreSQL in all of them at once."""
    since, before = spans[way.index.table]
    if not way.places or since >= before:
        return []
    names = [f"at_{name}" for name, _ in way.index.columns]
    return [db.each(statement, names, way.places, since=since, before=before, **parameters)]


# Times among the ids. By halves: whatever is up to `low` is earlier, whatever is above `high` is not.

UNSTEADY = timedelta(seconds=10)  # by so much may a task have been created before one with a lower id
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC) + UNSTEADY, datetime.max.replace(tzinfo=UTC) - UNSTEADY
_MIDDLE = "high - (high - low) / 2"
EARLIER = {
    table: Statement(
        f"""
        WITH RECURSIVE half(low, high) AS (
            SELECT (SELECT min(id) - 1 FROM {table}), (SELECT max(id) FROM {table})
            UNION ALL
            SELECT CASE WHEN {made} < :moment THEN {_MIDDLE} ELSE low END,
                   CASE WHEN {made} < :moment THEN high ELSE {_MIDDLE} - 1 END
              FROM half WHERE low < high
        )
        SELECT low FROM half WHERE low = high
        """
    )
    for table in TABLES
    for made in [f"(SELECT t.create_date FROM {table} t WHERE t.id <= {_MIDDLE} ORDER BY t.id DESC LIMIT 1)"]
}


def _span(db: Db, table: str, wanted: Filter, below: int) -> Span:
    """Where in a table the tasks can be that were created when they should."""
    since, before = 0, below
    if wanted.created_after is not None:
        since = _first_from(db, table, max(wanted.created_after, EARLIEST) - UNSTEADY)
    if wanted.created_before is not None:
        before = min(before, _first_from(db, table, min(wanted.created_before, LATEST) + UNSTEADY))
    return since, before


def _first_from(db: Db, table: str, moment: datetime) -> int:
    """The first id from which on tasks were created at that moment or later."""
    found = db.rows(EARLIER[table], moment=moment)
    return int(found[0][0]) + 1 if found else 0
