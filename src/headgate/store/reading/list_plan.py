"""Ways to the tasks of a list: which index to use, and which places in it to read.

Decided here and not by the planner, which keeps one plan for all values and prefers any index ordered by id, however
many rows it must read there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from headgate.core.states import FINAL, HELD, State
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import READY_STREAMS
from headgate.store.db.indexes import BY_KEY, BY_STATUS, CHILDREN, LIVE, PAST, READY, RUNNING, TABLES, WHOLE, Index
from headgate.store.db.statement import Db, Row, Statement

MOST_PLACES = 500  # of one index
MOST_HELD = 5000  # tasks that run: they are looked at all


@dataclass(frozen=True, slots=True)
class Way:
    """An index, the places in it to look into, and what is still to be asked of the rows found there."""

    index: Index
    places: Sequence[Row]
    names: tuple[str, ...]


# What the tasks of a stream have in common.
_OF_STREAMS = ("tenant_id", "type", "lane", "category", "agent_id")


def ways(db: Db, catalog: Catalog, values: dict[str, Any]) -> list[Way]:
    """Where the tasks are that have these values: everywhere they can be, and none in two places."""
    names = tuple(values)
    states = {State(status) for status in values.get("status", State)}
    if "parent_id" in values:
        places = [(values["parent_id"], state.value) for state in states]
        rest = tuple(name for name in names if name not in ("parent_id", "status"))
        return [Way(CHILDREN[table], places, rest) for table in TABLES]
    key = next((name for _, name in BY_KEY if name in values and (name, values[name]) != ("creator", 0)), None)
    if key is not None:
        rest = tuple(name for name in names if name != key)
        return [Way(BY_KEY[table, key], [(values[key],)], rest) for table in TABLES]
    common = {name: values[name] for name in _OF_STREAMS if name in values}
    streams = [stream.id for stream in catalog.streams.values() if _has(stream, common)]
    if len(streams) == len(catalog.streams) and "status" not in values:
        return [_whole(table, names) for table in TABLES]
    # The tenant is checked once more: whatever a stream says, no tenant sees another's tasks.
    rest = tuple(name for name in names if name == "tenant_id" or name not in ("status", *_OF_STREAMS))
    live = _live(db, states, streams, names, rest)
    past = _by_status(db, PAST, states & FINAL, streams, rest)
    return [*(live or [_whole(LIVE, names)]), past or _whole(PAST, names)]


def _has(stream: Stream, common: dict[str, Any]) -> bool:
    return all(getattr(stream, name) == value for name, value in common.items())


def _whole(table: str, names: tuple[str, ...]) -> Way:
    return Way(WHOLE[table], [()], names)


def _live(
    db: Db, states: set[State], streams: list[int], names: tuple[str, ...], rest: tuple[str, ...]
) -> list[Way] | None:
    """The ways to live tasks; None if there are too many places to look into."""
    found = [_by_status(db, LIVE, states - {State.QUEUED, *HELD}, streams, rest)]
    if State.QUEUED in states:
        found.append(_queued(db, streams, rest))
    if states & HELD:
        found.append(None if db.rows(MANY_RUN, most=MOST_HELD) else Way(RUNNING, [()], names))
    known = [way for way in found if way is not None]
    return known if len(known) == len(found) else None


STATES = {
    table: Statement(
        f"""
        WITH RECURSIVE hop(status) AS (
            SELECT (SELECT t.status FROM {table} t WHERE {index.only}
                     ORDER BY t.status DESC, t.stream_id DESC, t.id DESC LIMIT 1)
            UNION ALL
            SELECT (SELECT t.status FROM {table} t WHERE {index.only} AND t.status < h.status
                     ORDER BY t.status DESC, t.stream_id DESC, t.id DESC LIMIT 1)
              FROM hop h WHERE h.status IS NOT NULL
        )
        SELECT status FROM hop WHERE status IS NOT NULL
        """
    )
    for table, index in BY_STATUS.items()
}
STREAMS = {
    table: Statement(
        f"""
        WITH RECURSIVE hop(stream_id) AS (
            SELECT (SELECT t.stream_id FROM {table} t WHERE {index.only} AND t.status = :status
                     ORDER BY t.status DESC, t.stream_id DESC, t.id DESC LIMIT 1)
            UNION ALL
            SELECT (SELECT t.stream_id FROM {table} t
                     WHERE {index.only} AND t.status = :status AND t.stream_id < h.stream_id
                     ORDER BY t.status DESC, t.stream_id DESC, t.id DESC LIMIT 1)
              FROM hop h WHERE h.stream_id IS NOT NULL
        )
        SELECT stream_id FROM hop WHERE stream_id IS NOT NULL LIMIT :most
        """
    )
    for table, index in BY_STATUS.items()
}


def _by_status(db: Db, table: str, states: set[State], streams: list[int], rest: tuple[str, ...]) -> Way | None:
    """Of few streams all are places to look into; of many those that have something in these states."""
    there = {status for (status,) in db.rows(STATES[table])}
    present = sorted(there & {state.value for state in states})
    if len(present) * len(streams) <= MOST_PLACES:
        return Way(BY_STATUS[table], list(product(present, streams)), rest)
    wanted, places = set(streams), []
    for status in present:
        found = db.rows(STREAMS[table], status=status, most=MOST_PLACES + 1)
        places += [(status, stream_id) for (stream_id,) in found if stream_id in wanted]
        if len(found) > MOST_PLACES or len(places) > MOST_PLACES:
            return None
    return Way(BY_STATUS[table], places, rest)


# From the high end: what was claimed was the oldest of its priority, and may be in the way there for a while.
PRIORITIES = Statement(
    """
    WITH RECURSIVE hop(stream_id, priority) AS (
        SELECT s.id, (SELECT t.priority FROM headgate_task t WHERE t.stream_id = s.id AND t.status = 'queued'
                       ORDER BY t.stream_id DESC, t.priority DESC, t.id DESC LIMIT 1)
          FROM headgate_stream s WHERE s.id {in streams}
        UNION ALL
        SELECT h.stream_id, (SELECT t.priority FROM headgate_task t
                              WHERE t.stream_id = h.stream_id AND t.priority < h.priority AND t.status = 'queued'
                              ORDER BY t.stream_id DESC, t.priority DESC, t.id DESC LIMIT 1)
          FROM hop h WHERE h.priority IS NOT NULL
    )
    SELECT stream_id, priority FROM hop WHERE priority IS NOT NULL LIMIT :most
    """
)
MANY_RUN = Statement(f"SELECT 1 FROM headgate_task WHERE {RUNNING.only} ORDER BY lane, claim_no LIMIT 1 OFFSET :most")


def _queued(db: Db, streams: list[int], rest: tuple[str, ...]) -> Way | None:
    if len(streams) > MOST_PLACES:
        wanted = set(streams)
        streams = [stream_id for (stream_id,) in db.rows(READY_STREAMS) if stream_id in wanted]
    if len(streams) > MOST_PLACES:
        return None
    places = db.rows(PRIORITIES, streams=streams, most=MOST_PLACES + 1)
    return Way(READY, places, rest) if len(places) <= MOST_PLACES else None


@cache
def along(index: Index, end: str, conditions: tuple[str, ...] = ()) -> Statement:
    """The ids in each place of an index (`:at_COLUMN` …), from `:since` to before `:before`, the highest first.

    PostgreSQL is asked for the order that only this index has, and sees no more of the conditions than that half of the
    rows may meet them: where it expects next to none, it prefers reading the table. SQLite is told the index's name. A
    condition may say `{as_bytes}` behind a text of which the locale is to know nothing.
    """
    condition = " AND ".join(conditions) or "true"
    names = [name for name, _ in index.columns]
    task_id = "t.id" if index.in_order else "t.id + 0"  # which no index has
    row = ", ".join([*(f"t.{name}" for name in names), task_id])
    order = ", ".join(f"{part} DESC" for part in row.split(", "))
    at = "".join(f"p.at_{name}, " for name in names)
    lists = ", ".join(f":at_{name}::{kind}[]" for name, kind in index.columns)
    places = f"unnest({lists}) AS p({', '.join(f'at_{name}' for name in names)})" if names else "(SELECT 1) AS p"
    return Statement(
        sqlite=f"""
        SELECT id FROM {index.table} {f"INDEXED BY {index.name}" if index.name else "NOT INDEXED"}
         WHERE {"".join(f"{name} = :at_{name} AND " for name in names)} id >= :since AND id < :before
           AND {index.only} AND {condition.replace("{as_bytes}", "")}
         ORDER BY id DESC {end}
        """,
        postgres=f"""
        SELECT found.id FROM {places} CROSS JOIN LATERAL (
               SELECT t.id FROM {index.table} t
                WHERE ({row}) >= ({at}:since) AND ({row}) < ({at}:before)
                  AND {index.only} AND CASE WHEN {condition.replace("{as_bytes}", ' COLLATE "C"')} THEN true END
                ORDER BY {order} {end}) found
         ORDER BY found.id DESC
        """,
    )
