"""What is counted and measured every few seconds: what waits, for people to look at, and how long tasks take.

All of it is read beside other work and then stored in a short transaction, so that a count of millions delays nothing.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headgate.core.forecast import Pace
from headgate.store.db.statement import Db, Row, Statement, insert_rows, moment, moment_or_none

RECENT = 100  # executions that a pace is made of
MOST_MEASURED = 2_000  # a turn; of more than that the newest
FIRST_LOOK_SECONDS = 3600.0
LONG = 20  # longest line that is counted afresh on request
MOST_LINES = 2_000
LAST_PRIORITY = 32  # beyond it, and below as many under zero, priorities are counted together

_COUNT = """
SELECT tenant_id, lane, stream_id, status, CASE WHEN status = 'queued' THEN {band} END,
       count(*), min(create_date), min(id), max(id)
  FROM headgate_task WHERE finished_at IS NULL GROUP BY 1, 2, 3, 4, 5
"""
COUNT = Statement(
    sqlite=_COUNT.replace("{band}", "min(max(priority, -:last), :last)"),
    postgres=_COUNT.replace("{band}", "least(greatest(priority, -:last::bigint), :last::bigint)"),
)
LAST_MEASURED = Statement("SELECT max(at) FROM headgate_run_time")
_ENDED = "exec_time IS NOT NULL AND status <> 'cancelled'"
_MEASURED = "lane, type, exec_time, attempt, finished_at, id, has_children, started_at"
FINISHED = Statement(
    f"""
    SELECT {_MEASURED} FROM (
        SELECT {_MEASURED} FROM (
            SELECT {_MEASURED} FROM headgate_task
             WHERE finished_at IS NOT NULL AND finished_at > coalesce(:since, {{now - :seconds}}) AND {_ENDED}
             ORDER BY finished_at DESC LIMIT :limit) live
        UNION ALL
        SELECT {_MEASURED} FROM (
            SELECT {_MEASURED} FROM headgate_task_his
             WHERE finished_at > coalesce(:since, {{now - :seconds}}) AND {_ENDED}
             ORDER BY finished_at DESC LIMIT :limit) past) ended
     ORDER BY finished_at DESC LIMIT :limit
    """
)
# The run time of a parent includes its children's; its place in the lane was free when it began to wait for them.
BEGAN_TO_WAIT = Statement(
    "SELECT task_id, max(at) FROM headgate_task_event WHERE task_id {in ids} AND kind = 'waiting' GROUP BY task_id"
)
RUN_TIMES = Statement("SELECT lane, type, recent FROM headgate_run_time")
PUT_RUN_TIME = Statement(
    """
    INSERT INTO headgate_run_time (lane, type, recent, at) VALUES (:lane, :type, :recent, :at)
    ON CONFLICT (lane, type) DO UPDATE SET recent = excluded.recent, at = excluded.at
    """
)
ONE_AT_A_TIME = Statement(sqlite="SELECT 1", postgres="SELECT 1 FROM headgate_lane WHERE name = '*' FOR NO KEY UPDATE")
CLEAR = Statement("DELETE FROM headgate_sample")
_COUNTED = {"tenant_id": "bigint", "lane": "text", "status": "text", "count": "bigint", "oldest": "timestamptz"}
ADD = insert_rows("headgate_sample", _COUNTED, now=["at"])
CLEAR_LINES = Statement("DELETE FROM headgate_sample_line")
_LINE = dict.fromkeys(("stream_id", "priority", "count", "first_id", "last_id"), "bigint")
ADD_LINE = insert_rows("headgate_sample_line", _LINE, now=["at"])


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read: (tenant, lane, status, count, oldest), the long lines, and what finished since the last time."""

    counts: list[Row]
    lines: list[Row]
    finished: list[Row]
    since: datetime | None


def read_sample(db: Db) -> Sample:
    """Count everything that is not finished, and look at what finished lately."""
    [[since]] = db.rows(LAST_MEASURED)
    finished = _finished(db, since)
    counts: dict[Row, Row] = {}
    lines: list[Row] = []
    for tenant_id, lane, stream_id, status, priority, count, oldest, first_id, last_id in db.rows(
        COUNT, last=LAST_PRIORITY
    ):
        key = (tenant_id, lane, status)
        *_, before, since_when = counts.get(key, (*key, 0, oldest))
        counts[key] = (*key, before + count, min(oldest, since_when))
        if priority is not None and count > LONG:
            lines.append((stream_id, priority, count, first_id, last_id))
    longest = sorted(lines, key=lambda line: -line[2])[:MOST_LINES]
    return Sample(list(counts.values()), longest, finished, moment_or_none(since))


def _finished(db: Db, since: Any) -> list[Row]:
    """What finished lately: lane, type, how long its handler ran, attempts, when."""
    rows = db.rows(FINISHED, since=since, seconds=FIRST_LOOK_SECONDS, limit=MOST_MEASURED)
    parents = [row[5] for row in rows if row[6]]
    waited = {row[0]: row[1] for row in db.rows(BEGAN_TO_WAIT, ids=parents)} if parents else {}
    found: list[Row] = []
    for lane, kind, seconds, attempts, at, task_id, _, started in rows:
        if task_id in waited:
            seconds = max((moment(waited[task_id]) - moment(started)).total_seconds(), 0.0)
        found.append((lane, kind, seconds, attempts, at))
    return found


def keep_sample(db: Db, sample: Sample) -> None:
    """Put a sample in the place of the last one. What finished is taken once, however many look at once."""
    db.send(ONE_AT_A_TIME)
    [[since]] = db.rows(LAST_MEASURED)
    if sample.finished and moment_or_none(since) == sample.since:
        for lane, kind, recent, at in _recent(db, sample.finished):
            db.send(PUT_RUN_TIME, lane=lane, type=kind, recent=recent, at=at)
    db.send(CLEAR)
    db.each(ADD, tuple(_COUNTED), sample.counts)
    db.send(CLEAR_LINES)
    db.each(ADD_LINE, tuple(_LINE), sample.lines)


def _recent(db: Db, finished: list[Row]) -> list[Row]:
    """The newest of each kind, with those known before behind them."""
    newest: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    times: dict[tuple[str, str], Any] = {}
    for lane, kind, seconds, attempts, at in finished:
        newest[lane, kind].append((round(seconds, 6), attempts))
        times.setdefault((lane, kind), at)
    known = {(lane, kind): json.loads(recent) for lane, kind, recent in db.rows(RUN_TIMES)}
    return [(*key, json.dumps([*recent, *known.get(key, [])][:RECENT]), times[key]) for key, recent in newest.items()]


def measured(db: Db) -> dict[tuple[str, str], Pace]:
    """How long tasks of each (lane, type) took lately."""
    found = {}
    for lane, kind, recent in db.rows(RUN_TIMES):
        pairs = json.loads(recent)
        seconds = tuple(seconds for seconds, _ in pairs)
        found[lane, kind] = Pace(seconds, sum(attempts for _, attempts in pairs) / len(pairs))
    return found
