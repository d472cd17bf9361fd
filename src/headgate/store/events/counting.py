"""Counting: everything that metrics count is taken by one server, so that the counters of several add up.

One row holds the place up to which everything is counted. A server reads on from there, then moves the row if it has
not moved since: of two servers that read the same events, one moves it and counts. No server waits, and writers of
events take no part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.events import AuditEvent
from headgate.core.usage import Usage
from headgate.store.callbacks.deliveries import Deliveries
from headgate.store.callbacks.report import LAST_ATTEMPT, AttemptTiming
from headgate.store.db.database import Database, Noun, reads, writes
from headgate.store.db.statement import Db, Statement, insert_rows, moment
from headgate.store.events.feed import Cursor, Events, newest

UNASKED_SECONDS = 3600.0  # then counting begins anew: there may be millions of events to go through

PLACE = Statement("SELECT place, attempt FROM headgate_counted WHERE at > {now - :unasked}")
BEGIN = Statement(
    """
    INSERT INTO headgate_counted (one, place, attempt, at) VALUES (1, :place, :attempt, {now})
    ON CONFLICT (one) DO UPDATE SET place = excluded.place, attempt = excluded.attempt, at = excluded.at
     WHERE headgate_counted.at <= {now - :unasked}
    """
)
MOVE = Statement("UPDATE headgate_counted SET place = :after, at = {now} WHERE place = :before RETURNING 1")
MOVE_ATTEMPT = Statement("UPDATE headgate_counted SET attempt = :after WHERE attempt = :before RETURNING 1")
_CALLS = {"listener": "text", "kind": "text", "outcome": "text", "count": "bigint"}
ADD_CALLS = insert_rows(
    "headgate_uncounted",
    _CALLS,
    end="ON CONFLICT (listener, kind, outcome) DO UPDATE SET count = headgate_uncounted.count + excluded.count",
)
TAKE_CALLS = Statement("DELETE FROM headgate_uncounted RETURNING listener, kind, outcome, count")


# The event that ends a run does not always name its execution: a parent that waits has none any more.
_STARTED = """
    (SELECT s.at FROM headgate_task_event s
      WHERE s.task_id = {task_id} AND s.seq > 0 AND s.seq < {seq} AND s.kind = 'started' ORDER BY s.seq DESC LIMIT 1)
"""
# The task's last attempt, but for those that were claimed since.
_ATTEMPT = """
    coalesce((SELECT t.attempt FROM headgate_task t WHERE t.id = {task_id}),
             (SELECT h.attempt FROM headgate_task_his h WHERE h.id = {task_id}))
    - (SELECT count(*) FROM headgate_task_event c
        WHERE c.task_id = {task_id} AND c.seq > {seq}
          AND (c.kind = 'scheduled' OR (c.kind = 'started' AND c.before <> 'scheduling')))
"""


def _of_end(figure: str) -> Statement:
    return Statement(
        sqlite=f"SELECT :id, {figure.format(task_id=':task_id', seq=':seq')}",
        postgres=f"""
        SELECT o.id, {figure.format(task_id="o.task_id", seq="o.seq")}
          FROM unnest(:id::bigint[], :task_id::bigint[], :seq::int[]) AS o(id, task_id, seq)
        """,
    )


_END = ("id", "task_id", "seq")
STARTED = _of_end(_STARTED)
ATTEMPT = _of_end(_ATTEMPT)
_FIGURES = "cpu_seconds, memory_bytes, read_bytes, written_bytes"
USED = Statement(
    f"""
    SELECT task_id, attempt, {_FIGURES} FROM headgate_task_usage WHERE task_id {{in ids}}
    UNION ALL
    SELECT task_id, attempt, {_FIGURES} FROM headgate_task_attempt WHERE task_id {{in ids}} AND cpu_seconds IS NOT NULL
    """
)


@dataclass(frozen=True, slots=True)
class Page:
    """Events, and the cursors before and behind them."""

    before: Cursor
    after: Cursor
    events: list[AuditEvent]


def add_calls(db: Db, listener: str, calls: Mapping[tuple[str, str], int]) -> None:
    """Leave (kind, outcome) of a listener's calls for the next server that counts."""
    if calls:
        db.each(ADD_CALLS, tuple(_CALLS), [(listener, *key, count) for key, count in sorted(calls.items())])


class Counting(Noun):
    """What metrics have not counted yet. Whatever one server takes here, no other gets."""

    def __init__(self, database: Database, events: Events, deliveries: Deliveries) -> None:
        super().__init__(database)
        self._events = events
        self._deliveries = deliveries

    @writes
    def begin(self, db: Db) -> None:
        """Count what happens from now on, unless a server counts already."""
        [[attempt]] = db.rows(LAST_ATTEMPT)
        db.send(BEGIN, place=str(newest(db)), attempt=attempt, unasked=UNASKED_SECONDS)

    def next_events(self, limit: int) -> Page:
        """Events that no server has counted yet, oldest first. This server counts them only if `take` succeeds."""
        before, _ = self._place()
        events, after = self._events.after(before, limit)
        return Page(before, after, events)

    @writes
    def take(self, db: Db, page: Page) -> bool:
        """Make a page this server's; False if another server was quicker."""
        return bool(db.rows(MOVE, before=str(page.before), after=str(page.after)))

    def take_attempts(self, limit: int) -> list[AttemptTiming] | None:
        """Attempts to deliver callbacks, seconds after they ended; None if another server was quicker. Two
        transactions."""
        _, before = self._place()
        found = self._deliveries.attempts_after(before, limit)
        return found if not found or self._move_attempt(before, found[-1].id) else None

    @writes
    def take_calls(self, db: Db) -> dict[tuple[str, str, str], int]:
        """How often each listener ended a call about an event of a kind so (listener, kind, outcome)."""
        return {(listener, kind, outcome): count for listener, kind, outcome, count in db.rows(TAKE_CALLS)}

    @reads
    def started(self, db: Db, ends: Sequence[AuditEvent]) -> dict[int, datetime]:
        """When the runs began that ended with these events, by the event's id."""
        found = db.each(STARTED, _END, [(end.id, end.task_id, end.seq) for end in ends]).rows() if ends else []
        return {event_id: moment(at) for event_id, at in found if at is not None}

    @reads
    def used(self, db: Db, ends: Sequence[AuditEvent]) -> dict[int, Usage]:
        """What the runs used that ended with these events, by the event's id; most are not measured."""
        rows = db.rows(USED, ids=sorted({end.task_id for end in ends})) if ends else []
        used = {(task_id, attempt): Usage(*figures) for task_id, attempt, *figures in rows}
        measured = {task_id for task_id, _ in used}
        candidates = {end.id: end.task_id for end in ends if end.task_id in measured}
        if not candidates:
            return {}
        attempts = db.each(ATTEMPT, _END, [(end.id, end.task_id, end.seq) for end in ends if end.id in candidates])
        found = {event_id: used.get((candidates[event_id], attempt)) for event_id, attempt in attempts.rows()}
        return {event_id: usage for event_id, usage in found.items() if usage is not None}

    def _place(self) -> tuple[Cursor, int]:
        found = self._database.read(lambda db: db.rows(PLACE, unasked=UNASKED_SECONDS))
        if not found:
            self.begin()
            found = self._database.read(lambda db: db.rows(PLACE, unasked=UNASKED_SECONDS))
        return Cursor.parse(found[0][0]), found[0][1]

    @writes
    def _move_attempt(self, db: Db, before: int, after: int) -> bool:
        return bool(db.rows(MOVE_ATTEMPT, before=before, after=after))
