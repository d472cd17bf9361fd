"""Streams that nothing refers to any more are removed; a task that is still submitted to one is moved to another.

Ids are never used twice, so what a process knows of a stream stays true after its removal. A process that has not seen
the removal yet may submit a task under the old id: `repair` moves it to the stream that its key has now.
"""

from collections.abc import Collection, Iterator, Mapping

from headgate.core.limits import bucket_of
from headgate.core.states import FINAL, HELD, State
from headgate.store.catalog.streams import STREAM, add_streams, digest_of
from headgate.store.catalog.version import bump_removal
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.indexes import BY_STATUS, LIVE, PAST, READY, RUNNING
from headgate.store.db.statement import Db, Statement

# Each along the index that has such tasks, and asked one by one: a planner may turn NOT EXISTS into one look at the
# whole table.
_UNUSED = f"""
    (SELECT 1 FROM headgate_task t WHERE {READY.only} AND t.stream_id = s.id LIMIT 1) IS NULL
    AND (SELECT 1 FROM headgate_task t WHERE {RUNNING.only} AND t.lane = s.lane AND t.stream_id = s.id LIMIT 1) IS NULL
    AND (SELECT 1 FROM headgate_task t
          WHERE {BY_STATUS[LIVE].only} AND t.status {{in states text}} AND t.stream_id = s.id LIMIT 1) IS NULL
    AND (SELECT 1 FROM headgate_task_his t
          WHERE {BY_STATUS[PAST].only} AND t.status {{in final text}} AND t.stream_id = s.id LIMIT 1) IS NULL
"""
PAGE = Statement("SELECT id FROM headgate_stream WHERE id > :after ORDER BY id LIMIT :limit")
UNUSED = Statement(f"SELECT s.id FROM headgate_stream s WHERE s.id {{in ids}} AND {_UNUSED}")
REMOVE = Statement(
    f"DELETE FROM headgate_stream AS s WHERE s.id {{in ids}} AND {_UNUSED} RETURNING tenant_id, rate_key"
)
KEYS = Statement("SELECT DISTINCT tenant_id, rate_key FROM headgate_stream WHERE rate_key <> ''")
REMOVE_BUCKETS = Statement("DELETE FROM headgate_rate_limit WHERE tenant_id IS NOT NULL AND name {in names text}")


def _hop(only: str) -> Statement:
    """The streams that have tasks in a state, one after the other, and whether each is there."""
    first = f"SELECT t.stream_id FROM headgate_task t WHERE {only} AND t.stream_id > "
    return Statement(
        f"""
        WITH RECURSIVE hop(stream_id, number) AS (
            SELECT ({first} :after ORDER BY t.stream_id LIMIT 1), 1
            UNION ALL
            SELECT ({first} h.stream_id ORDER BY t.stream_id LIMIT 1), h.number + 1
              FROM hop h WHERE h.stream_id IS NOT NULL AND h.number < :limit
        )
        SELECT h.stream_id, s.id IS NULL FROM hop h LEFT JOIN headgate_stream s ON s.id = h.stream_id
         WHERE h.stream_id IS NOT NULL
        """
    )


def _tasks(only: str, order: str) -> Statement:
    """In the order of their index: by id, a planner walks over the primary key."""
    return Statement(
        f"""
        SELECT id, priority, tenant_id, lane, type, category, rate_key, agent_id FROM headgate_task
         WHERE {only} AND stream_id = :stream_id ORDER BY {order} LIMIT :limit {{lock FOR NO KEY UPDATE}}
        """
    )


_STOPPED = f"{BY_STATUS[LIVE].only} AND status = :status"
HOP_QUEUED, HOP_STOPPED = _hop(READY.only), _hop(_STOPPED)
QUEUED, STOPPED = _tasks(READY.only, "stream_id, priority, id"), _tasks(_STOPPED, "status, stream_id, id")
RUNNING_TASKS = _tasks(RUNNING.only, "lane, claim_no")
HELD_STREAMS = Statement(
    f"""
    SELECT DISTINCT t.stream_id, s.id IS NULL FROM headgate_task t LEFT JOIN headgate_stream s ON s.id = t.stream_id
     WHERE {RUNNING.only}
    """
)
MOVE = Statement("UPDATE headgate_task SET stream_id = :stream_id WHERE id {in ids}")

_ALL = sorted(State)
_FINAL = sorted(FINAL)
Places = Mapping[State, int]  # in each state, the stream behind which to look next


class Streams(Noun):
    """Streams that are not used any more, page by page."""

    @reads
    def unused(self, db: Db, *, after: int = 0, limit: int = 500) -> tuple[Collection[int], Collection[int]]:
        """The next streams by id, and those of them that no task refers to, in history neither."""
        ids = [stream_id for (stream_id,) in db.rows(PAGE, after=after, limit=limit)]
        found = db.rows(UNUSED, ids=ids, states=_ALL, final=_FINAL) if ids else []
        return ids, {stream_id for (stream_id,) in found}

    @writes
    def remove(self, db: Db, ids: Collection[int]) -> int:
        """Remove those streams that are still unused, with the buckets that only they had; how many."""
        bump_removal(db)  # first: a transaction that is making a stream has committed, or waits
        removed = db.rows(REMOVE, ids=sorted(ids), states=_ALL, final=_FINAL)
        keys = {(tenant_id, rate_key) for tenant_id, rate_key in removed if rate_key}
        if left := keys - {tuple(row) for row in db.rows(KEYS)} if keys else set():
            db.send(REMOVE_BUCKETS, names=sorted(bucket_of(*key) for key in left))
        return len(removed)

    def repair(self, places: Places | None = None, *, limit: int = 500) -> Places:
        """Move tasks whose stream was removed to the stream of their key; where to continue, empty after a round."""
        orphaned, ahead = self._database.read(lambda db: _look(db, places or dict.fromkeys(State, 0), limit))
        for state, stream_id in orphaned:
            self._move(state, stream_id, limit)
        return ahead

    @writes
    def _move(self, db: Db, state: State, stream_id: int, limit: int) -> None:
        statement = QUEUED if state is State.QUEUED else RUNNING_TASKS if state in HELD else STOPPED
        by_key: dict[tuple[int, str, str, str, str, str], list[tuple[int, int]]] = {}
        rows = db.rows(statement, stream_id=stream_id, status=state.value, limit=limit)
        for task_id, priority, tenant_id, lane, type_code, category, rate_key, agent_id in rows:
            key = (tenant_id, lane, type_code, category, rate_key or "", agent_id or "")
            by_key.setdefault(key, []).append((priority, task_id))
        if by_key:
            add_streams(db, sorted(by_key))
        for key, tasks in by_key.items():
            [[new_id]] = db.rows(STREAM, digest=digest_of(key))
            db.send(MOVE, stream_id=new_id, ids=[task_id for _, task_id in tasks])
            if state is State.QUEUED:
                db.news.wake(new_id, *min(tasks))


def _look(db: Db, places: Places, limit: int) -> tuple[list[tuple[State, int]], Places]:
    orphaned: list[tuple[State, int]] = []
    ahead: dict[State, int] = {}
    for state in places:
        rows = list(_streams_in(db, state, places[state], limit))
        orphaned += [(state, stream_id) for stream_id, is_gone in rows if is_gone]
        if state not in HELD and len(rows) == limit:
            ahead[state] = rows[-1][0]
    return orphaned, ahead


def _streams_in(db: Db, state: State, after: int, limit: int) -> Iterator[tuple[int, bool]]:
    if state is State.QUEUED:
        rows = db.rows(HOP_QUEUED, after=after, limit=limit)
    elif state not in HELD:
        rows = db.rows(HOP_STOPPED, after=after, limit=limit, status=state.value)
    else:  # all that runs, at once: for the first of the states
        rows = db.rows(HELD_STREAMS) if state is State.RUNNING else []
    return ((stream_id, bool(is_gone)) for stream_id, is_gone in rows)
