"""Acts: what people did, and what the system did by itself; searched by actor, kind, object and time."""

from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.core.events import Act, act_of
from headgate.store.db.database import Noun, reads
from headgate.store.db.indexes import ACTS
from headgate.store.db.pages import LAST_ID, Page, check_page_size
from headgate.store.db.statement import Db, Statement, moment
from headgate.store.events.feed import AUDIT_COLUMNS, event_of

PAGE = 500
MOST_READ = 5000  # rows read to check whether they match
EVER = datetime(9000, 1, 1, tzinfo=UTC)
FIRST = datetime(1970, 1, 1, tzinfo=UTC)

BACKWARDS = Statement(
    f"""
    SELECT {AUDIT_COLUMNS}, NULL FROM headgate_task_event e
     WHERE {ACTS} AND (at, id) < (:at, :id) AND at <= :at AND at >= :since ORDER BY at DESC, id DESC LIMIT :limit
    """
)
TIME_OF = Statement("SELECT at FROM headgate_task_event WHERE id = :id")


@dataclass(frozen=True, slots=True)
class ActFilter:
    """Which acts; None is any. `object` may be a kind of object (`lane`), `actor` the beginning of a name."""

    actor: str | None = None
    kind: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tenant_id: int | None = None

    def matches(self, act: Act) -> bool:
        return (
            (
                self.actor is None
                or act.actor == self.actor
                or act.actor.startswith((f"{self.actor} ", f"{self.actor}:"))
            )
            and self.kind in (None, act.kind)
            and (self.object is None or self.object in (act.object, act.object.partition(":")[0]))
            and self.tenant_id in (None, act.tenant_id)
        )


class Acts(Noun):
    """Every act, newest first."""

    @reads
    def find(self, db: Db, wanted: ActFilter | None = None, *, cursor: int | None = None, limit: int = 50) -> Page[Act]:
        """A page of acts; it reads a bounded number of rows, and may have few, or none, and yet a `next_cursor`."""
        check_page_size(limit, "acts")
        wanted = wanted or ActFilter()
        at, last = wanted.until or EVER, LAST_ID
        if cursor is not None:
            times = db.rows(TIME_OF, id=cursor)
            if not times:  # removed meanwhile, and all that is older with it
                return Page([], None)
            at, last = min(moment(times[0][0]), at), cursor
        found: list[Act] = []
        for _ in range(MOST_READ // PAGE):
            rows = db.rows(BACKWARDS, at=at, id=last, since=wanted.since or FIRST, limit=PAGE)
            for row in rows:
                act = act_of(event_of(row))
                if wanted.matches(act):
                    found.append(act)
                if len(found) == limit:
                    return Page(found, act.id)
                at, last = act.at, act.id
            if len(rows) < PAGE:
                return Page(found, None)
        return Page(found, last)
