"""What ticks began: tasks, whose ends the log records, and calls, each made once at most.

A run has a row while it is watched; the transaction that deletes the row writes how the run ended.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from headgate.core.schedule import ENDED, GOOD_ENDS, Endpoint, Result
from headgate.core.states import State
from headgate.core.task import clip
from headgate.store.db.statement import Db, Row, Statement, moment_or_none

LOST = "the process that made the call was lost; whether it arrived is not known, and it is not made again"
STOPPED = "taken offline before the call was made"
CHANGED = "the schedule no longer makes a call"
REMOVED = "the schedule was removed"
FIRST_TENANT = -(2**63)  # before every tenant's number


class CallShare(NamedTuple):
    """A limited number of the calls of a tenant to a host."""

    tenant_id: int
    host: str
    most: int


class HttpCall(NamedTuple):
    """A call to make, once: `run_id` and `caller` are what its end is told under."""

    run_id: int
    caller: str
    tenant_id: int
    schedule_id: int
    type: str
    tick: datetime | None
    ext: str
    http: Endpoint


# Tasks

# Looked up one by one: a join may be planned, while the table is empty, as a walk over all of it.
TASK_RUNS = Statement(
    """
    SELECT r.id, r.task_id,
           coalesce((SELECT status FROM headgate_task WHERE id = r.task_id),
                    (SELECT status FROM headgate_task_his WHERE id = r.task_id)),
           coalesce((SELECT error_info FROM headgate_task WHERE id = r.task_id),
                    (SELECT error_info FROM headgate_task_his WHERE id = r.task_id))
      FROM headgate_periodic_run r WHERE r.task_id IS NOT NULL AND r.id > :after ORDER BY r.id LIMIT :limit
    """
)
_END_NAMES = ("id", "result", "error_info")
END = Statement(
    sqlite="DELETE FROM headgate_periodic_run WHERE id {in ids} RETURNING id, log_id",
    postgres="""
    DELETE FROM headgate_periodic_run WHERE id IN (
           SELECT id FROM headgate_periodic_run WHERE id {in ids} ORDER BY id FOR UPDATE)
    RETURNING id, log_id
    """,
)
END_LOG = Statement(
    sqlite="""
    UPDATE headgate_periodic_task_log SET result = :result, error_info = :error_info, update_date = :now
     WHERE id = :id AND result = 'executing'
    """,
    postgres="""
    UPDATE headgate_periodic_task_log l SET result = o.result, error_info = o.error_info, update_date = {now}
      FROM unnest(:id::bigint[], :result::text[], :error_info::text[]) AS o(id, result, error_info)
     WHERE l.id = o.id AND l.id = ANY(:id::bigint[]) AND l.result = 'executing'
    """,
)


Ended = dict[int, str | None]  # runs that are over, each with why it is no success


def look(db: Db, after: int, limit: int) -> tuple[Ended, int | None]:
    """The runs of a page whose task has ended; and where to continue, or None at the end."""
    rows = db.rows(TASK_RUNS, after=after, limit=limit)
    ended = {
        run_id: _error_of(task_id, status, error_info)
        for run_id, task_id, status, error_info in rows
        if status is None or status in ENDED
    }
    return ended, rows[-1][0] if len(rows) == limit else None


def _error_of(task_id: int, status: str | None, error_info: str | None) -> str | None:
    if status is None:
        return f"task {task_id} has been purged, so its result is unknown"
    if State(status) in GOOD_ENDS:
        return None
    return f"task {task_id} is {status}" + (f": {error_info}" if error_info else "")


def end(db: Db, ended: Ended) -> int:
    """Take the runs away and write how each ended; returns how many runs this call closed."""
    return _end(db, db.rows(END, ids=sorted(ended)), ended)


def _end(db: Db, gone: Sequence[Row], ended: Ended) -> int:
    ends = [
        (log_id, *((Result.SUCCESS.value, None) if error is None else (Result.FAILURE.value, clip(error))))
        for run_id, log_id in gone
        for error in [ended[run_id]]
        if log_id is not None
    ]
    if ends:
        db.many(END_LOG, _END_NAMES, sorted(ends))
    return len(gone)


# Calls

_WAITING = "r.task_id IS NULL AND r.caller IS NULL"
# Tenants whose calls wait, and the hosts of a tenant's calls, each hopping from one to the next. The hosts are a ring.
WAITING_TENANTS = Statement(
    f"""
    WITH RECURSIVE hop(tenant_id, number) AS (
        SELECT (SELECT r.tenant_id FROM headgate_periodic_run r WHERE {_WAITING} AND r.tenant_id > :after
                 ORDER BY r.tenant_id LIMIT 1), 1
        UNION ALL
        SELECT (SELECT r.tenant_id FROM headgate_periodic_run r WHERE {_WAITING} AND r.tenant_id > hop.tenant_id
                 ORDER BY r.tenant_id LIMIT 1), hop.number + 1
          FROM hop WHERE hop.tenant_id IS NOT NULL AND hop.number < :limit)
    SELECT tenant_id FROM hop WHERE tenant_id IS NOT NULL
    """
)
_HOST = f"SELECT r.host FROM headgate_periodic_run r WHERE {_WAITING} AND r.tenant_id = :tenant_id"
WAITING_HOSTS = Statement(
    f"""
    WITH RECURSIVE hop(host, first, number) AS (
        SELECT start.host, start.host, 1
          FROM (SELECT coalesce(({_HOST} AND r.host > :after ORDER BY r.host LIMIT 1),
                                ({_HOST} ORDER BY r.host LIMIT 1)) AS host) start
        UNION ALL
        SELECT coalesce(({_HOST} AND r.host > hop.host ORDER BY r.host LIMIT 1), ({_HOST} ORDER BY r.host LIMIT 1)),
               hop.first, hop.number + 1
          FROM hop WHERE (hop.number = 1 OR hop.host <> hop.first) AND hop.host IS NOT NULL AND hop.number < :limit)
    SELECT host FROM hop WHERE number = 1 AND host IS NOT NULL OR host <> first ORDER BY number
    """
)
# A schedule whose calls are to queue has one at a time, the oldest first. A tick's call is made while it is online.
_TO_BE_MADE = """
    SELECT r.id FROM headgate_periodic_run r JOIN headgate_periodic_task p ON p.id = r.periodic_task_id
     WHERE r.task_id IS NULL AND r.caller IS NULL AND r.tenant_id = :tenant_id AND r.host = :host
       AND p.http IS NOT NULL AND (r.tick IS NULL OR p.status = 'online')
       AND (p.overlap <> 'queue' OR NOT EXISTS (
            SELECT 1 FROM headgate_periodic_run o
             WHERE o.periodic_task_id = r.periodic_task_id AND o.id < r.id AND o.task_id IS NULL))
     ORDER BY r.tenant_id, r.host, r.id LIMIT :limit
"""
TAKE = Statement(
    sqlite=f"""
    UPDATE headgate_periodic_run SET caller = :caller WHERE id IN ({_TO_BE_MADE}) RETURNING id, periodic_task_id, tick
    """,
    postgres=f"""
    WITH found AS MATERIALIZED ({_TO_BE_MADE} FOR UPDATE OF r SKIP LOCKED)
    UPDATE headgate_periodic_run r SET caller = :caller::uuid FROM found WHERE r.id = found.id
    RETURNING r.id, r.periodic_task_id, r.tick
    """,
)
ENDPOINTS = Statement(
    "SELECT id, tenant_id, type, ext, http, http_by_tenant FROM headgate_periodic_task WHERE id {in ids}"
)
UNDER_WAY = Statement(
    "SELECT id, caller FROM headgate_periodic_run WHERE task_id IS NULL AND caller IS NOT NULL ORDER BY id LIMIT :limit"
)
END_CALL = Statement(
    "DELETE FROM headgate_periodic_run WHERE id = :id AND caller = :caller AND task_id IS NULL RETURNING id, log_id"
)
DROP_WAITING = Statement(
    """
    DELETE FROM headgate_periodic_run
     WHERE periodic_task_id = :id AND task_id IS NULL AND caller IS NULL AND (tick IS NOT NULL OR :by_hand_too)
    RETURNING id, log_id
    """
)
READDRESS = Statement(
    """
    UPDATE headgate_periodic_run SET host = :host
     WHERE periodic_task_id = :id AND task_id IS NULL AND caller IS NULL AND host <> :host
    """
)
FORGET = Statement("DELETE FROM headgate_periodic_run WHERE periodic_task_id = :id RETURNING id, log_id")


def waiting(db: Db, after: int, tenants: int, hosts: int, last_hosts: Mapping[int, str]) -> dict[int, list[str]]:
    """A page of the tenants whose calls wait, behind `after`; of each, some hosts of its calls, behind its last one."""
    found = [tenant_id for (tenant_id,) in db.rows(WAITING_TENANTS, after=after, limit=tenants)]
    if len(found) < tenants:
        first = db.rows(WAITING_TENANTS, after=FIRST_TENANT, limit=tenants)
        found += [tenant_id for (tenant_id,) in first if tenant_id <= after][: tenants - len(found)]
    answers = {
        tenant_id: db.send(WAITING_HOSTS, tenant_id=tenant_id, after=last_hosts.get(tenant_id, ""), limit=hosts)
        for tenant_id in found
    }
    return {tenant_id: [host for (host,) in answer.rows()] for tenant_id, answer in answers.items()}


def take(db: Db, caller: str, shares: Sequence[CallShare]) -> list[HttpCall]:
    """Take calls for this caller, for good: no other caller ever makes them."""
    answers = [
        db.send(TAKE, caller=caller, tenant_id=share.tenant_id, host=share.host, limit=share.most) for share in shares
    ]
    taken = [row for answer in answers for row in answer.rows()]
    ids = sorted({schedule_id for _, schedule_id, _ in taken})
    schedules = {row[0]: row[1:] for row in db.rows(ENDPOINTS, ids=ids)} if ids else {}
    return [
        HttpCall(run_id, caller, tenant_id, schedule_id, code, moment_or_none(tick), ext, endpoint_of(http, by_tenant))
        for run_id, schedule_id, tick in sorted(taken, key=lambda row: row[0])
        for tenant_id, code, ext, http, by_tenant in [schedules[schedule_id]]
    ]


def endpoint_of(http: str, by_tenant: bool) -> Endpoint:
    method, _, url = http.partition(" ")
    return Endpoint(url, method, bool(by_tenant))


def readdress(db: Db, schedule_id: int, host: str) -> None:
    """Let the calls of a schedule that have not begun wait in the queue of another host."""
    db.send(READDRESS, id=schedule_id, host=host)


def end_call(db: Db, run_id: int, caller: str, error: str | None) -> bool:
    """Write how a call ended; False if it was given up for lost before."""
    return bool(_end(db, db.rows(END_CALL, id=run_id, caller=caller), {run_id: error}))


def drop_waiting(db: Db, schedule_id: int, reason: str, *, by_hand_too: bool) -> None:
    """Drop calls that have not begun: those of ticks, and with `by_hand_too` those of triggers by hand."""
    gone = db.rows(DROP_WAITING, id=schedule_id, by_hand_too=by_hand_too)
    _end(db, gone, {row[0]: reason for row in gone})


def forget(db: Db, schedule_id: int, reason: str) -> None:
    """Stop watching the runs of a schedule."""
    gone = db.rows(FORGET, id=schedule_id)
    _end(db, gone, {row[0]: reason for row in gone})
