"""Events: the audit of tasks and of the system, read in the order of ids; nothing is skipped for committing late."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import Invalid
from headgate.core.events import AuditEvent, Heading
from headgate.store.db.database import Noun, reads, writes
from headgate.store.db.pages import LAST_ID
from headgate.store.db.partitions import drop_partitions, make_partitions
from headgate.store.db.statement import Db, Row, Statement, moment, moment_or_none
from headgate.store.events.audit import SYSTEM, record_system

AUDIT_COLUMNS = "e.id, e.task_id, e.tenant_id, e.seq, e.at, e.kind, e.before, e.after, e.actor, e.exec_id, e.detail"
_JOINED = f"""
    SELECT {AUDIT_COLUMNS}, coalesce((SELECT t.correlation_id FROM headgate_task t WHERE t.id = e.task_id),
                                (SELECT h.correlation_id FROM headgate_task_his h WHERE h.id = e.task_id))
                               AS correlation_id
      FROM headgate_task_event e
"""
_HEADING = """
    SELECT e.id, e.task_id, e.tenant_id, e.kind, coalesce((SELECT t.type FROM headgate_task t WHERE t.id = e.task_id),
                                                     (SELECT h.type FROM headgate_task_his h WHERE h.id = e.task_id))
      FROM headgate_task_event e
"""


def _newer(select: str) -> Statement:
    return Statement(f"{select} WHERE e.id > :after ORDER BY e.id LIMIT :limit")


def _late(select: str) -> Statement:
    return Statement(
        postgres=f"""
        SELECT f.* FROM unnest(:firsts::bigint[], :lasts::bigint[]) AS gap(first, last)
          CROSS JOIN LATERAL ({select} WHERE e.id BETWEEN gap.first AND gap.last) f
         ORDER BY f.id
        """
    )


NEWER, LATE = _newer(_JOINED), _late(_JOINED)
NEWER_HEADINGS, LATE_HEADINGS = _newer(_HEADING), _late(_HEADING)
SOME = Statement(f"{_JOINED} WHERE e.id {{in ids}} ORDER BY e.id")
OF_TASK = Statement(
    f"""
    {_JOINED} WHERE e.task_id = :task_id AND e.id > :after AND (:progress OR e.kind <> 'progress')
     ORDER BY e.id LIMIT :limit
    """
)
LAST = Statement("SELECT id FROM headgate_task_event ORDER BY id DESC LIMIT :limit")
# Only transactions that run now can still fill a gap: it is over when all of them have ended, those below XMIN.
XMIN = Statement(sqlite="SELECT 0", postgres="SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
# Above every transaction that has begun to write. A snapshot's own xmax is not: it is one past the last that has ended,
# and those that run may be above it.
NEXT = Statement(sqlite="SELECT 0", postgres="SELECT pg_current_xact_id()::text::bigint")
LAST_ACT = Statement("SELECT max(at) FROM headgate_task_event WHERE task_id IS NULL AND kind = :kind")
MOST_GAPS = 10_000
MOST_IN_GAPS = 50_000  # ids in the gaps of a cursor that somebody brings: all of them are looked up at once


@dataclass(frozen=True, slots=True)
class Gap:
    """Ids that were handed out and not seen; `xmax` is the first transaction that cannot own one of them."""

    first: int
    last: int
    xmax: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The highest id seen, and what may still come below it."""

    high: int = 0
    gaps: tuple[Gap, ...] = ()

    @property
    def floor(self) -> int:
        """The first id that may still come."""
        return min([self.high + 1, *(gap.first for gap in self.gaps)])

    def __str__(self) -> str:
        return ";".join([str(self.high), *(f"{gap.first}-{gap.last}@{gap.xmax}" for gap in self.gaps)])

    @staticmethod
    def parse(text: str) -> "Cursor":
        """The cursor that `str` wrote; `Invalid` for anything else."""
        try:
            high, *gaps = text.split(";")
            parts = [gap.replace("@", "-").split("-") for gap in gaps]
            return Cursor(int(high), tuple(Gap(int(first), int(last), int(xmax)) for first, last, xmax in parts))
        except ValueError:
            raise Invalid("not an event cursor") from None


def cursors_after(before: Cursor, events: Sequence[AuditEvent], after: Cursor) -> list[Cursor]:
    """The cursor behind each event of a page that was read from `before` and ended at `after`."""
    found = []
    late = before.gaps
    for event in events:
        if event.id <= before.high:  # it filled a gap; the others stay open, even if their transactions have ended
            late = subtract_gaps(late, [Gap(event.id, event.id, 0)])
            found.append(Cursor(before.high, late))
        else:
            found.append(Cursor(event.id, tuple(gap for gap in after.gaps if gap.last < event.id)))
    return [*found[:-1], after] if found else []


def subtract_gaps(gaps: Sequence[Gap], others: Sequence[Gap]) -> tuple[Gap, ...]:
    """What is left of gaps when others are taken out of them."""
    left = list(gaps)
    for other in others:
        left = [part for gap in left for part in _cut(gap, other)]
    return tuple(left)


def _cut(gap: Gap, other: Gap) -> list[Gap]:
    if other.last < gap.first or gap.last < other.first:
        return [gap]
    parts = [Gap(gap.first, other.first - 1, gap.xmax), Gap(other.last + 1, gap.last, gap.xmax)]
    return [part for part in parts if part.first <= part.last]


def gap_around(place: Cursor, event_id: int) -> Gap | None:
    """The gap that an id lies in."""
    return next((gap for gap in place.gaps if gap.first <= event_id <= gap.last), None)


class Events(Noun):
    """One row for each transition of a task, and for each act upon the system itself."""

    @reads
    def of(self, db: Db, task_id: int, *, after: int = 0, limit: int = 200, progress: bool = True) -> list[AuditEvent]:
        """What happened to a task, oldest first; with or without each report of its progress."""
        rows = db.rows(OF_TASK, task_id=task_id, after=after, limit=limit, progress=progress)
        return [event_of(row) for row in rows]

    @reads
    def after(self, db: Db, cursor: Cursor, limit: int = 500) -> tuple[list[AuditEvent], Cursor]:
        """Everything that happened after `cursor`, each event once; late commits come late, none is skipped."""
        rows, behind = _page(db, NEWER, LATE, cursor, limit)
        return [event_of(row) for row in rows], behind

    @reads
    def headings_after(self, db: Db, cursor: Cursor, limit: int) -> tuple[list[Heading], Cursor]:
        """The same as `after`, without what the events say; of a page, late ones first, then by id."""
        rows, behind = _page(db, NEWER_HEADINGS, LATE_HEADINGS, cursor, limit)
        return [Heading(*row) for row in rows], behind

    @reads
    def get_many(self, db: Db, ids: Sequence[int]) -> list[AuditEvent]:
        """Those of these events that are there, by id."""
        return [event_of(row) for row in db.rows(SOME, ids=list(ids))]

    @reads
    def last(self, db: Db) -> Cursor:
        """A cursor behind everything that is visible now; what is on its way will come."""
        return newest(db)

    def parse_cursor(self, text: str) -> Cursor:
        """The cursor that somebody brings; `Invalid` for one that this store cannot have given."""
        cursor = Cursor.parse(text)
        numbers = [cursor.high, *(number for gap in cursor.gaps for number in (gap.first, gap.last, gap.xmax))]
        backwards = any(gap.first > gap.last for gap in cursor.gaps)
        strange = bool(cursor.gaps) and self._database.one_writer  # which leaves none
        if strange or backwards or not all(0 <= number <= LAST_ID for number in numbers):
            raise Invalid("not an event cursor of this server")
        if sum(gap.last - gap.first + 1 for gap in cursor.gaps) > MOST_IN_GAPS:
            raise Invalid("the cursor is too old: start again without one")
        return cursor

    @writes
    def record(self, db: Db, kind: str, detail: str, *, actor: str = SYSTEM) -> None:
        """Note in the audit what was done to the system itself."""
        record_system(db, kind, actor, detail)

    @reads
    def last_act(self, db: Db, kind: str) -> datetime | None:
        """When something of this kind was last done to the system itself."""
        return moment_or_none(db.rows(LAST_ACT, kind=kind)[0][0])

    @writes
    def make_partitions(self, db: Db) -> list[str]:
        """Make room for the rows of the next days (PostgreSQL)."""
        return make_partitions(db)

    @writes
    def drop_partitions(self, db: Db, before: datetime) -> list[str]:
        """Drop a day before `before` of which nothing is left, if there is one (PostgreSQL)."""
        return drop_partitions(db, before)


def _page(db: Db, newer: Statement, late: Statement, cursor: Cursor, limit: int) -> tuple[list[Row], Cursor]:
    """The rows behind a cursor, and the cursor behind them."""
    # Which transactions have ended is read before the events, so that all they wrote is seen; which may still write
    # is read afterwards, so that none that took an id meanwhile is missed.
    before = db.send(XMIN)
    # Newer ones are read first: of two events of one task the second is not seen without the first.
    newer_rows = db.send(newer, after=cursor.high, limit=limit)
    firsts, lasts = [gap.first for gap in cursor.gaps], [gap.last for gap in cursor.gaps]
    late_rows = db.send(late, firsts=firsts, lasts=lasts) if cursor.gaps else None
    [[xmin]] = before.rows()
    filled = late_rows.rows() if late_rows else []
    rows = newer_rows.rows()
    seen = [row[0] for row in rows]
    gaps = _still_open(cursor.gaps, {row[0] for row in filled}, xmin)
    gaps += _new_gaps(db, cursor.high, seen)
    return [*filled, *rows], Cursor(max([cursor.high, *seen]), tuple(gaps[-MOST_GAPS:]))


def newest(db: Db) -> Cursor:
    """A cursor behind everything that is visible now; what is on its way will come."""
    ids = [row[0] for row in reversed(db.rows(LAST, limit=MOST_GAPS))]
    return Cursor(ids[-1], tuple(_new_gaps(db, ids[0], ids[1:]))) if ids else Cursor()


def _still_open(gaps: Sequence[Gap], filled: set[int], xmin: int) -> list[Gap]:
    left: list[Gap] = []
    for gap in gaps:
        if xmin >= gap.xmax:
            continue
        first = gap.first
        for number in [*sorted(n for n in filled if gap.first <= n <= gap.last), gap.last + 1]:
            if number > first:
                left.append(Gap(first, number - 1, gap.xmax))
            first = number + 1
    return left


def _new_gaps(db: Db, high: int, seen: Sequence[int]) -> list[Gap]:
    before = [high, *seen]
    missing = [(a + 1, b - 1) for a, b in zip(before, seen, strict=False) if b > a + 1]
    if not missing or db.one_writer:  # which commits in the order of the ids
        return []
    [[xmax]] = db.rows(NEXT)
    return [Gap(first, last, xmax) for first, last in missing]


def event_of(row: Row) -> AuditEvent:
    (event_id, task_id, tenant_id, seq, at, kind, before, after, actor, exec_id, detail, correlation_id) = row
    owner = None if exec_id is None else str(exec_id)
    return AuditEvent(
        event_id, task_id, tenant_id, seq, moment(at), kind, before, after, actor, owner, correlation_id, detail
    )
