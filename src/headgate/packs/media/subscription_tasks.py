"""The tasks of a subscription: found by the argument that names it, whatever their mutex is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.packs import LAST_ID, Db, Noun, State, Statement, moment_or_none, reads

MOST_READ = 2000  # rows, to see whether they are as they are asked for
MOST_LOOKED_BACK = 20  # requests of a subscription, to find one that has ended
MOST_ERROR = 1000  # characters of an error, to find its first line

# These are the words of the indexes `headgate_media_task…`: only a statement that has them is led along one.
_OF_REQUESTS = "t.type IN ('expected_total', 'parse', 'list_fetch', 'download')"
_OPEN = """t.status IN ('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting', 'paused', 'retrying',
                        'notifying')"""
_UNENDED = f"{_OPEN} AND t.status <> 'notifying'"  # one that has succeeded is not undone
_SQLITE = "json_extract(t.ext, '$.subscription_id')"
_POSTGRES = r"""substring(t.ext FROM '"subscription_id"\s*:\s*(\d{1,19})\s*[,}]')::numeric"""


def _statement(text: str) -> Statement:
    """A statement with SUBSCRIPTION for the one that a task names, and THIS for the one that is asked for."""
    return Statement(
        sqlite=text.replace("SUBSCRIPTION", _SQLITE).replace("THIS", ":subscription_id"),
        postgres=text.replace("SUBSCRIPTION", f"({_POSTGRES})").replace("THIS", ":subscription_id::numeric"),
    )


OPEN_COUNTS = _statement(
    f"""
    SELECT SUBSCRIPTION, t.tenant_id, t.type, t.status, count(*), min(t.id) FROM headgate_task t
     WHERE {_OF_REQUESTS} AND {_OPEN} AND SUBSCRIPTION {{in ids numeric}}
     GROUP BY SUBSCRIPTION, t.tenant_id, t.type, t.status
    """
)
OPEN_IDS = _statement(
    f"""
    SELECT t.id FROM headgate_task t
     WHERE {_OF_REQUESTS} AND {_UNENDED} AND SUBSCRIPTION = THIS AND t.tenant_id = :tenant_id
       AND NOT t.cancel_requested
     ORDER BY t.id DESC LIMIT :limit
    """
)
OF_DELETED = _statement(
    f"""
    SELECT DISTINCT s.id FROM headgate_media_subscription s
      JOIN headgate_task t ON SUBSCRIPTION = s.id AND t.tenant_id = s.tenant_id
     WHERE s.deleted_at IS NOT NULL AND {_OF_REQUESTS} AND {_UNENDED} AND NOT t.cancel_requested
     ORDER BY s.id LIMIT :limit
    """
)
_NEWEST = f"""
    SELECT t.id, t.tenant_id, t.type, t.lane, t.status FROM TABLE t
     WHERE t.id + 0 > 0 AND {_OF_REQUESTS} AND SUBSCRIPTION = THIS AND t.id < :cursor
     ORDER BY t.id DESC LIMIT :most
"""
NEWEST = {table: _statement(_NEWEST.replace("TABLE", table)) for table in ("headgate_task", "headgate_task_his")}
# `s.id + 0`: SQLite leads no column, which has an affinity, along the index of an expression, which has none.
REMOVABLE = _statement(
    f"""
    SELECT s.id FROM headgate_media_subscription s
     WHERE s.deleted_at IS NOT NULL AND s.deleted_at <= {{now - :seconds}}
       AND NOT EXISTS (SELECT 1 FROM headgate_task t
                        WHERE SUBSCRIPTION = s.id + 0 AND t.tenant_id = s.tenant_id AND {_OF_REQUESTS} AND {_UNENDED})
     ORDER BY s.id LIMIT 1
    """
)
_LAST_ENDED = f"""
    (SELECT max(t.id) FROM (
        SELECT t.id, t.tenant_id, t.status FROM TABLE t
         WHERE t.id + 0 > 0 AND {_OF_REQUESTS} AND SUBSCRIPTION = s.id + 0
         ORDER BY t.id DESC LIMIT :most) t
      WHERE t.tenant_id = s.tenant_id AND NOT ({_OPEN}))
"""
LAST_ENDED_IDS = _statement(
    f"""
    SELECT s.id, {_LAST_ENDED.replace("TABLE", "headgate_task")}, {_LAST_ENDED.replace("TABLE", "headgate_task_his")}
      FROM headgate_media_subscription s WHERE s.id {{in ids}}
    """
)
ENDED = [
    Statement(f"SELECT id, type, status, finished_at, substr(error_info, 1, :most) FROM {table} WHERE id {{in ids}}")
    for table in NEWEST
]


@dataclass(frozen=True, slots=True)
class OpenRequests:
    """The open requests of a subscription; the first of them runs, or is the next to."""

    first_id: int
    type: str
    status: State
    count: int


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A request that has ended; `error` is the first line of its last error."""

    id: int
    type: str
    status: State
    ended_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class TaskIds:
    """Ids of tasks, newest first, and the cursor of the next page (None at the end); few or none may be on a page."""

    ids: list[int]
    next_cursor: int | None


class SubscriptionTasks(Noun):
    """The requests of subscriptions, live and in history."""

    @reads
    def open_requests(
        self, db: Db, subscription_ids: Sequence[int], tenant_id: int | None = None
    ) -> Mapping[tuple[int, int], OpenRequests]:
        """The open requests of each of these subscriptions, by tenant and id, to keep other tenants' tasks apart."""
        found: dict[tuple[int, int], list[OpenRequests]] = {}
        for subscription, tenant, type_code, status, count, first_id in db.rows(OPEN_COUNTS, ids=[*subscription_ids]):
            if tenant_id in (None, tenant):
                part = OpenRequests(first_id, type_code, State(status), count)
                found.setdefault((tenant, int(subscription)), []).append(part)
        return {key: _summary(parts) for key, parts in found.items()}

    @reads
    def last_ended(self, db: Db, subscription_ids: Sequence[int]) -> Mapping[int, EndedRequest]:
        """The newest request of each of these that has ended, of its own tenant; it looks back at few of them."""
        newest = {
            subscription: max(live or 0, history or 0)
            for subscription, live, history in db.rows(LAST_ENDED_IDS, ids=[*subscription_ids], most=MOST_LOOKED_BACK)
        }
        ids = [task_id for task_id in newest.values() if task_id]
        rows = [row for statement in ENDED for row in db.rows(statement, ids=ids, most=MOST_ERROR)] if ids else []
        ended = {
            task_id: EndedRequest(task_id, kind, State(status), moment_or_none(at), error and error.partition("\n")[0])
            for task_id, kind, status, at, error in rows
        }
        return {subscription: ended[task_id] for subscription, task_id in newest.items() if task_id in ended}

    @reads
    def to_cancel(self, db: Db, subscription_id: int, tenant_id: int, *, limit: int) -> list[int]:
        """Open tasks without a request to stop, newest first, so that cancelling one does not start another of them."""
        return [row[0] for row in db.rows(OPEN_IDS, subscription_id=subscription_id, tenant_id=tenant_id, limit=limit)]

    @reads
    def deleted_with_tasks(self, db: Db, *, limit: int) -> list[int]:
        """Deleted subscriptions with an open task that has no request to stop."""
        return [row[0] for row in db.rows(OF_DELETED, limit=limit)]

    @reads
    def find(
        self,
        db: Db,
        subscription_id: int,
        tenant_id: int | None = None,
        *,
        lanes: Collection[str] | None = None,
        states: Collection[str] | None = None,
        type_code: str | None = None,
        cursor: int | None = None,
        limit: int = 50,
    ) -> TaskIds:
        """The tasks of a subscription that are as they are asked for; it looks at a bounded number of them."""
        wanted = {"subscription_id": subscription_id, "cursor": cursor or LAST_ID, "most": MOST_READ}
        rows = {row[0]: row for statement in NEWEST.values() for row in db.rows(statement, **wanted)}
        newest = sorted(rows.values(), reverse=True)[:MOST_READ]
        fitting = [
            task_id
            for task_id, tenant, kind, lane, status in newest
            if tenant_id in (None, tenant)
            and type_code in (None, kind)
            and (lanes is None or lane in lanes)
            and (states is None or status in states)
        ]
        if len(fitting) > limit:
            return TaskIds(fitting[:limit], fitting[limit - 1])
        return TaskIds(fitting, newest[-1][0] if len(newest) == MOST_READ else None)


def _summary(parts: Sequence[OpenRequests]) -> OpenRequests:
    """All of them under the one that goes first: what is under way, then the oldest."""
    under_way = (State.RUNNING, State.SCHEDULING, State.WAITING)
    first = min(parts, key=lambda part: (part.status not in under_way, part.first_id))
    return OpenRequests(first.first_id, first.type, first.status, sum(part.count for part in parts))
