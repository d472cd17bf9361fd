"""What is left of a story, for the checker: the store as its tables tell it, and the ledger."""

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import psycopg

from headgate.core.schedule import told
from headgate.simulation.evidence import Entry, Evidence, Known, Line, Row, Wish
from headgate.store import open_store
from headgate.store.feed import Cursor
from tests.stories.ledger import Ledger

SKEW_SECONDS = 0.05  # the system's clocks drift apart a little while a story is told
PAGE = 1000
_COLUMNS = (
    "id, tenant_id, type, status, lane, mutex, rate_key, parent_id, root_id, seq, attempt, exec_id, worker_id, "
    "{finished_at}, {start_time}, retry_of, agent_id, correlation_id"
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
    with psycopg.connect(url) as connection:
        return connection.execute(text).fetchall()


def collected(url: str, ledger: Ledger | None = None, wishes: Iterable[Wish] = ()) -> Evidence:
    """All that is left of a story that began with an empty store and has come to its end."""
    epoch = time.time() - time.monotonic()  # of the ledger's clock
    tasks = rows(url, _in_seconds(url, _TASKS))
    events = rows(url, _in_seconds(url, _EVENTS))
    types = rows(url, "SELECT code, config FROM headgate_task_metadata")
    keys = rows(url, "SELECT key, task_ids FROM headgate_idempotency")
    return Evidence(
        rows=[Row._make((*row[:3], row[3] - epoch, *row[3:8], _text(row[8]), row[9])) for row in events],
        tasks=[Known._make((*row[:11], _text(row[11]), *row[12:])) for row in tasks],
        ledger=[] if ledger is None else fenced(ledger),
        wishes=tuple(wishes),
        keys={key: tuple(json.loads(task_ids)) for key, task_ids in keys},
        heard=_heard(url),
        uses={code: tuple(json.loads(config)["uses"]) for code, config in types},
        counted=dict(rows(url, _COUNTS)),
        ended_at=time.time(),
        skew=SKEW_SECONDS,
        lines=[_line(row, epoch) for row in rows(url, _in_seconds(url, _LINES))],
    )


def _line(row: Any, epoch: float) -> Line:
    at, schedule_id, tick, result, task_id, trans = row
    text = None if tick is None else told(datetime.fromtimestamp(tick, UTC))
    return Line(at - epoch, schedule_id, text, result, task_id, bool(trans))


def _in_seconds(url: str, text: str) -> str:
    """The statement, with each time as seconds since the epoch."""
    form = "{} / 1e6" if url.startswith("sqlite") else "extract(epoch FROM {})::float8"
    return re.sub(r"\{([\w.]+)\}", lambda found: form.format(found[1]), text)


def fenced(ledger: Ledger) -> list[Entry]:
    """The lines, as an outside system takes them that knows the attempts: no effect of one older than the newest.

    A handler that was stopped has ended, however it did.
    """
    newest: dict[int, int] = {}
    found = []
    for line in sorted(ledger.entries("start", "effect", "end", "stopped")):
        newest[line.task_id] = max(line.attempt, newest.get(line.task_id, 0))
        accepted = line.what != "effect" or line.attempt == newest[line.task_id]
        what = "end" if line.what == "stopped" else line.what
        found.append(Entry(line.at / 1e9, what, line.task_id, line.exec_id, line.attempt, accepted))
    return found


def made(task_ids: Sequence[int]) -> Wish:
    """A call that was answered with these tasks."""
    return Wish(None, "made", tuple(task_ids), len(task_ids))


def _heard(url: str) -> list[int]:
    """The feed, from its beginning."""
    heard: list[int] = []
    cursor = Cursor()
    with open_store(url) as store:
        while page := store.feed(cursor, PAGE):
            happenings, cursor = page
            if not happenings:
                return heard
            heard += [one.id for one in happenings]
    return heard


def _text(exec_id: object) -> str | None:
    return None if exec_id is None else str(exec_id)
