"""What is left of a story, for the checker: the store as its tables tell it, and the ledger."""

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from headgate.core.schedule import tick_text
from headgate.simulation.evidence import Evidence, LedgerEntry, Row, ScheduleLogLine, Submission, TaskRecord
from headgate.store.events.feed import Cursor
from headgate.store.store import open_store
from tests.kept import kept
from tests.stories.ledger import Ledger

SKEW_SECONDS = 0.05  # the system's clocks drift apart a little while a story is told
PAGE = 1000
_COLUMNS = (
    "id, tenant_id, type, status, lane, mutex, rate_key, parent_id, root_id, seq, attempt, exec_id, worker_id, "
    "{finished_at}, {start_time}, retry_of, agent_id, correlation_id, error_count, lost_count"
)
_TASKS = f"SELECT {_COLUMNS} FROM headgate_task UNION ALL SELECT {_COLUMNS} FROM headgate_task_his"
# In the order of ids: who waited for another's commit has the higher one.
_EVENTS = (
    "SELECT id, task_id, seq, {at}, kind, before, after, actor, exec_id, detail FROM headgate_task_event ORDER BY id"
)
_LINES = (
    "SELECT {l.create_date}, l.periodic_task_id, {l.tick}, l.result, l.task_id, p.log = 'trans_log'"
    " FROM headgate_periodic_task_log l JOIN headgate_periodic_task p ON p.id = l.periodic_task_id ORDER BY l.id"
)
_COUNTS = """
SELECT status, count(*)
  FROM (SELECT status FROM headgate_task UNION ALL SELECT status FROM headgate_task_his) t GROUP BY 1
"""


def rows(url: str, text: str) -> list[Any]:
    """What a statement finds, past the store."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)) as connection:
            return connection.execute(text).fetchall()
    return kept(url).execute(text).fetchall()


def collected(url: str, ledger: Ledger | None = None, submits: Iterable[Submission] = ()) -> Evidence:
    """All that is left of a story that began with an empty store and has come to its end."""
    epoch = time.time() - time.monotonic()  # of the ledger's clock
    tasks = rows(url, _in_seconds(url, _TASKS))
    events = rows(url, _in_seconds(url, _EVENTS))
    types = rows(url, "SELECT code, config FROM headgate_task_metadata")
    keys = rows(url, "SELECT key, task_ids FROM headgate_idempotency")
    return Evidence(
        rows=[Row._make((*row[:3], row[3] - epoch, *row[3:8], _text(row[8]), row[9])) for row in events],
        tasks=[TaskRecord._make((*row[:11], _text(row[11]), *row[12:])) for row in tasks],
        ledger=[] if ledger is None else fenced(ledger),
        submissions=tuple(submits),
        keys={key: tuple(json.loads(task_ids)) for key, task_ids in keys},
        feed_ids=_event_ids(url),
        uses={code: tuple(json.loads(config)["uses"]) for code, config in types},
        timeouts={code: 60 * json.loads(config)["timeout"] for code, config in types},  # it has minutes
        counted=dict(rows(url, _COUNTS)),
        ended_at=time.time(),
        skew=SKEW_SECONDS,
        log_lines=[_line(row, epoch) for row in rows(url, _in_seconds(url, _LINES))],
    )


def _line(row: Any, epoch: float) -> ScheduleLogLine:
    at, schedule_id, tick, result, task_id, trans = row
    text = None if tick is None else tick_text(datetime.fromtimestamp(tick, UTC))
    return ScheduleLogLine(at - epoch, schedule_id, text, result, task_id, bool(trans))


def _in_seconds(url: str, text: str) -> str:
    """The statement, with each time as seconds since the epoch."""
    form = "{} / 1e6" if url.startswith("sqlite") else "extract(epoch FROM {})::float8"
    return re.sub(r"\{([\w.]+)\}", lambda found: form.format(found[1]), text)


def fenced(ledger: Ledger) -> list[LedgerEntry]:
    """The lines, as an outside system takes them that knows the attempts: no effect of one older than the newest.

    A handler that was stopped or failed has ended.
    """
    newest: dict[int, int] = {}
    found = []
    for line in sorted(ledger.entries("start", "effect", "end", "stopped", "error", "died")):
        newest[line.task_id] = max(line.attempt, newest.get(line.task_id, 0))
        accepted = line.what != "effect" or line.attempt == newest[line.task_id]
        what = "end" if line.what == "stopped" else line.what
        found.append(LedgerEntry(line.at / 1e9, what, line.task_id, line.exec_id, line.attempt, accepted))
        if what == "error":
            found.append(found[-1]._replace(what="end"))
    return found


def made(task_ids: Sequence[int]) -> Submission:
    """A call that was answered with these tasks."""
    return Submission(None, "made", tuple(task_ids), len(task_ids))


def _event_ids(url: str) -> list[int]:
    """The feed, from its beginning."""
    event_ids: list[int] = []
    cursor = Cursor()
    with open_store(url) as store:
        while page := store.events.after(cursor, PAGE):
            happenings, cursor = page
            if not happenings:
                return event_ids
            event_ids += [one.id for one in happenings]
    return event_ids


def _text(exec_id: object) -> str | None:
    return None if exec_id is None else str(exec_id)
