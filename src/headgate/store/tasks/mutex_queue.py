"""The lines of the mutexes: locked by stripe, then put in order by `core.mutex.rearrange`."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from zlib import crc32

from headgate.core.mutex import QueuePlace, rearrange
from headgate.core.states import State
from headgate.store.db.database import Database
from headgate.store.db.indexes import LINE_STATES
from headgate.store.db.statement import SPACE, Db, Statement

Key = tuple[int, str]  # tenant_id, mutex

STRIPES = 1024

# Transaction-level advisory locks: they cost no write and work behind a pooler. SQLite has one writer anyway.
LOCK_STRIPES = Statement(
    sqlite="SELECT 1",
    postgres=f"SELECT pg_advisory_xact_lock({SPACE}, stripe) FROM unnest(:stripes::int[]) AS stripe",
)
# A state that is a parameter leaves the planner but one index, the line's: named, it may take the whole ready index.
# OFFSET 0 makes it look key by key: it would rather read all lines once and compare.
# A parent that waits holds its mutex if it ran; one that was cancelled before its start never had it.
HOLDERS = Statement(
    sqlite=f"""
    SELECT k.tenant_id, k.mutex, t.status, coalesce(t.root_id, t.id)
      FROM (SELECT value ->> 0 AS tenant_id, value ->> 1 AS mutex FROM json_each(:keys)) k
      CROSS JOIN headgate_task t ON t.tenant_id = k.tenant_id AND t.mutex = k.mutex AND t.mutex IS NOT NULL
       AND t.exec_id IS NOT NULL
    UNION ALL
    SELECT k.tenant_id, k.mutex, t.status, coalesce(t.root_id, t.id)
      FROM (SELECT value ->> 0 AS tenant_id, value ->> 1 AS mutex FROM json_each(:keys)) k
      CROSS JOIN headgate_task t ON t.tenant_id = k.tenant_id AND t.mutex = k.mutex AND t.mutex IS NOT NULL
       AND t.status = 'waiting' AND t.status IN {LINE_STATES} AND t.scheduling_time IS NOT NULL
    """,
    postgres=f"""
    SELECT t.tenant_id, t.mutex, t.status, coalesce(t.root_id, t.id)
      FROM unnest(:tenants::bigint[], :mutexes::text[]) AS k(tenant_id, mutex)
      CROSS JOIN LATERAL (SELECT * FROM headgate_task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                             AND t.exec_id IS NOT NULL
                          UNION ALL
                          SELECT * FROM headgate_task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                             AND t.status = :waiting AND t.status IN {LINE_STATES}
                             AND t.scheduling_time IS NOT NULL
                          OFFSET 0) t
    """,
)
HEADS = Statement(
    sqlite=f"""
    SELECT k.tenant_id, k.mutex, t.priority, t.id, t.stream_id, coalesce(t.root_id, t.id), t.seq
      FROM (SELECT value ->> 0 AS tenant_id, value ->> 1 AS mutex FROM json_each(:keys)) k
      CROSS JOIN headgate_task t ON t.tenant_id = k.tenant_id AND t.mutex = k.mutex AND t.mutex IS NOT NULL
       AND t.status = 'queued' AND t.status IN {LINE_STATES}
    """,
    postgres=f"""
    SELECT t.tenant_id, t.mutex, t.priority, t.id, t.stream_id, coalesce(t.root_id, t.id), t.seq
      FROM unnest(:tenants::bigint[], :mutexes::text[]) AS k(tenant_id, mutex)
      CROSS JOIN LATERAL (SELECT * FROM headgate_task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                             AND t.status = :queued AND t.status IN {LINE_STATES}
                          OFFSET 0) t
    """,
)
# The first of each stream, hopping from stream to stream: a hundred thousand behind one key are not read.
FIRST_BLOCKED = Statement(
    sqlite=f"""
    WITH RECURSIVE hop(tenant_id, mutex, stream_id) AS (
        SELECT k.tenant_id, k.mutex,
               (SELECT t.stream_id FROM headgate_task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                   AND t.mutex IS NOT NULL AND t.status = 'blocked' AND t.status IN {LINE_STATES}
                 ORDER BY t.stream_id LIMIT 1)
          FROM (SELECT value ->> 0 AS tenant_id, value ->> 1 AS mutex FROM json_each(:keys)) k
        UNION ALL
        SELECT h.tenant_id, h.mutex,
               (SELECT t.stream_id FROM headgate_task t WHERE t.tenant_id = h.tenant_id AND t.mutex = h.mutex
                   AND t.mutex IS NOT NULL AND t.status = 'blocked' AND t.status IN {LINE_STATES}
                   AND t.stream_id > h.stream_id
                 ORDER BY t.stream_id LIMIT 1)
          FROM hop h WHERE h.stream_id IS NOT NULL
    )
    SELECT h.tenant_id, h.mutex, t.priority, t.id, t.stream_id, coalesce(t.root_id, t.id), t.seq
      FROM hop h
      CROSS JOIN headgate_task t ON t.id = (
           SELECT f.id FROM headgate_task f WHERE f.tenant_id = h.tenant_id AND f.mutex = h.mutex
              AND f.mutex IS NOT NULL
              AND f.status = 'blocked' AND f.status IN {LINE_STATES}
              AND f.stream_id = h.stream_id
            ORDER BY f.priority, f.id LIMIT 1)
     WHERE h.stream_id IS NOT NULL
    """,
    postgres="""
    WITH RECURSIVE hop(tenant_id, mutex, stream_id) AS (
        SELECT k.tenant_id, k.mutex,
               (SELECT t.stream_id FROM headgate_task t WHERE t.tenant_id = k.tenant_id AND t.mutex = k.mutex
                   AND t.status = 'blocked' ORDER BY t.stream_id LIMIT 1)
          FROM unnest(:tenants::bigint[], :mutexes::text[]) AS k(tenant_id, mutex)
        UNION ALL
        SELECT h.tenant_id, h.mutex,
               (SELECT t.stream_id FROM headgate_task t WHERE t.tenant_id = h.tenant_id AND t.mutex = h.mutex
                   AND t.status = 'blocked' AND t.stream_id > h.stream_id ORDER BY t.stream_id LIMIT 1)
          FROM hop h WHERE h.stream_id IS NOT NULL
    )
    SELECT h.tenant_id, h.mutex, t.priority, t.id, t.stream_id, coalesce(t.root_id, t.id), t.seq
      FROM hop h
      CROSS JOIN LATERAL (SELECT * FROM headgate_task f WHERE f.tenant_id = h.tenant_id AND f.mutex = h.mutex
                             AND f.status = 'blocked' AND f.stream_id = h.stream_id
                           ORDER BY f.priority, f.id LIMIT 1) t
     WHERE h.stream_id IS NOT NULL
    """,
)
_MEMBER = (
    """t.root_id = :root_id AND t.root_id IS NOT NULL AND t.status = 'blocked' AND coalesce(t.mutex, '') = :mutex"""
)
# The same for one family: however many of its members wait, the first of each stream is read.
_HOPS = f"""
    WITH RECURSIVE hop(stream_id) AS (
        SELECT (SELECT t.stream_id FROM headgate_task t WHERE {_MEMBER} ORDER BY t.stream_id LIMIT 1)
        UNION ALL
        SELECT (SELECT t.stream_id FROM headgate_task t WHERE {_MEMBER} AND t.stream_id > h.stream_id
                 ORDER BY t.stream_id LIMIT 1)
          FROM hop h WHERE h.stream_id IS NOT NULL
    )
    SELECT m.tenant_id, m.mutex, m.priority, m.id, m.stream_id, m.root_id, m.seq
"""
FAMILY_BLOCKED = Statement(
    sqlite=f"""{_HOPS}
      FROM hop h
      CROSS JOIN headgate_task m
     WHERE h.stream_id IS NOT NULL
       AND m.id = (SELECT t.id FROM headgate_task t WHERE {_MEMBER} AND t.stream_id = h.stream_id
                    ORDER BY t.priority, t.id LIMIT 1)
    """,
    postgres=f"""{_HOPS}
      FROM hop h
     CROSS JOIN LATERAL (SELECT t.* FROM headgate_task t WHERE {_MEMBER} AND t.stream_id = h.stream_id
                          ORDER BY t.priority, t.id LIMIT 1) m
     WHERE h.stream_id IS NOT NULL
    """,
)
# The stripes' locks keep other transactions from changing these lines, so no answer is needed. But giving a parent a
# child raises the parent's `seq`, so on PostgreSQL only the state tells whether what was read still holds.
MOVE = Statement(
    sqlite="UPDATE headgate_task SET status = :after, update_date = :now, seq = seq + 1 WHERE id = :id AND seq = :seq",
    postgres="""
    WITH moved AS (
        UPDATE headgate_task t SET status = :after, update_date = {now}, seq = t.seq + 1
         WHERE t.id = ANY(:id::bigint[]) AND t.status = :before
        RETURNING t.id, t.tenant_id, t.seq
    )
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, before, after, actor)
    SELECT id, tenant_id, seq, {now}, :kind, :before, :after, :actor FROM moved
    """,
)


def stripe(key: Key) -> int:
    return crc32(f"{key[0]} {key[1]}".encode()) % STRIPES


def lock(db: Db, keys: Iterable[Key]) -> None:
    """Keep other transactions from changing these lines until the commit.

    Always taken before any task's row and always in this order, so that it cannot deadlock.
    """
    stripes = sorted({stripe(key) for key in keys})
    if stripes:
        db.send(LOCK_STRIPES, stripes=stripes)


def settle_queues(db: Db, keys: Collection[Key], actor: str = "system:line") -> None:
    """Put the lines of these mutexes in order. Their stripes must be locked."""
    if not keys:
        return
    parameters = _parameters(db, sorted(set(keys)))
    answers = (
        db.send(HOLDERS, **parameters, waiting=State.WAITING.value),
        db.send(HEADS, **parameters, queued=State.QUEUED.value),
        db.send(FIRST_BLOCKED, **parameters),
    )
    holders, heads, firsts = (answer.rows() for answer in answers)
    held = {(tenant_id, mutex) for tenant_id, mutex, status, _ in holders if status != "waiting"}
    families: dict[Key, set[int]] = defaultdict(set)
    for tenant_id, mutex, status, root_id in holders:
        if status == "waiting":
            families[tenant_id, mutex].add(root_id)
    queued, blocked = _by_key(heads), _by_key(firsts)
    for (tenant_id, mutex), roots in families.items():
        for root_id in roots:
            members = db.rows(FAMILY_BLOCKED, root_id=root_id, mutex=mutex)
            blocked[tenant_id, mutex] += _by_key(members)[tenant_id, mutex]
    back: list[tuple[int, QueuePlace]] = []
    forward: list[tuple[int, QueuePlace]] = []
    for key in {*queued, *blocked}:
        these, those = rearrange(key in held, families[key], queued[key], blocked[key])
        back += [(key[0], place) for place in these]
        forward += [(key[0], place) for place in those]
    _move(db, back, "sent_back", State.QUEUED, State.BLOCKED, actor)
    _move(db, forward, "came_forward", State.BLOCKED, State.QUEUED, actor)
    for _, place in forward:
        db.news.wake(place.stream_id, place.priority, place.id)


def _move(db: Db, places: list[tuple[int, QueuePlace]], kind: str, before: State, after: State, actor: str) -> None:
    if not places:
        return
    change = {"before": before.value, "after": after.value, "kind": kind}
    rows = sorted((place.id, place.seq, tenant_id) for tenant_id, place in places)
    db.many(MOVE, ("id", "seq"), [row[:2] for row in rows], **change, actor=actor)
    db.note(
        lambda: [
            (task_id, tenant_id, seq + 1, kind, before.value, after.value, None, None)
            for task_id, seq, tenant_id in rows
        ],
        actor,
    )


def first_blocked(db: Db, key: Key) -> list[int]:
    """The priority of the first blocked task of a line in each stream."""
    return [row[2] for row in db.rows(FIRST_BLOCKED, **_parameters(db, [key]))]


def _parameters(db: Db, keys: list[Key]) -> dict[str, list[object]]:
    """The keys as SQLite's text takes them, as pairs, or as PostgreSQL's does, as two lists."""
    if db.one_writer:
        return {"keys": list(keys)}
    return {"tenants": [key[0] for key in keys], "mutexes": [key[1] for key in keys]}


def _by_key(rows: Iterable[tuple[int, str, int, int, int, int, int]]) -> dict[Key, list[QueuePlace]]:
    found: dict[Key, list[QueuePlace]] = defaultdict(list)
    for tenant_id, mutex, *place in rows:
        found[tenant_id, mutex].append(QueuePlace(*place))
    return found


# Keys of mutexes behind which something waits, hopping from one to the next.
KEYS = Statement(
    f"""
    SELECT tenant_id, mutex FROM headgate_task
     WHERE mutex IS NOT NULL AND status IN {LINE_STATES}
       AND (tenant_id, mutex) > (:tenant_id, :mutex)
     ORDER BY tenant_id, mutex LIMIT 1
    """
)


class Mutexes:
    """The queues behind the mutexes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def repair(self, after: Key = (-(1 << 63), ""), limit: int = 200) -> Key | None:
        """Put a page of mutex queues in order after a bug or a crash; where to continue, or None at the end."""
        return self._database.write(lambda db: repair(db, after, limit))


def repair(db: Db, after: Key, limit: int) -> Key | None:
    keys: list[Key] = []
    while len(keys) < limit and (found := db.rows(KEYS, tenant_id=after[0], mutex=after[1])):
        after = (found[0][0], found[0][1])
        keys.append(after)
    lock(db, keys)
    settle_queues(db, keys)
    return after if len(keys) == limit else None
