"""What the audit rows of a store prove, read one after the other in the order of their commits."""

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from typing import Any

import psycopg

from headgate.core.states import FINAL, HELD

EVENTS = """
SELECT e.id, e.task_id, e.seq, e.kind, e.before, e.after, e.detail, t.lane, t.type, t.tenant_id, t.mutex
  FROM task_event e LEFT JOIN task t ON t.id = e.task_id ORDER BY e.id
"""


def rows(url: str, text: str) -> list[Any]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)) as connection:
            return connection.execute(text).fetchall()
    with psycopg.connect(url) as connection:
        return connection.execute(text).fetchall()


def audited(url: str, *, tools: int | None = None) -> "Audit":
    """The whole story, read; it fails where a limit was exceeded."""
    audit = Audit(tools)
    for row in rows(url, EVENTS):
        audit.read(row)
    return audit


class Audit:
    """The story as the audit rows tell it, one after the other."""

    def __init__(self, tools: int | None = None) -> None:
        self._capacity: dict[str, int | None] = {}
        self._running: Counter[str] = Counter()
        self._holders: Counter[tuple[int, str]] = Counter()
        self._tools_at_most = tools
        self._tools = 0
        self.path: dict[int, list[tuple[int, str | None, str]]] = defaultdict(list)

    def read(self, row: tuple[Any, ...]) -> None:
        event_id, task_id, seq, kind, before, after, detail, lane, type_code, tenant_id, mutex = row
        if kind == "capacity_changed" and "lane" in (told := json.loads(detail)):
            self._capacity[told["lane"]] = told["capacity"]
        if not seq:
            return
        self.path[task_id].append((seq, before, after))
        step = (after in HELD) - (before in HELD)
        capacity = self._capacity.get(lane)
        if step == 1 and capacity is not None:
            assert self._running[lane] < capacity, f"event {event_id} starts too much in {lane}"
        self._running[lane] += step
        if type_code == "tooled" and self._tools_at_most is not None:
            self._tools += step
            assert self._tools <= self._tools_at_most, f"event {event_id} starts too much that uses the tool"
        if mutex is not None:
            self._holders[tenant_id, mutex] += step
            assert self._holders[tenant_id, mutex] <= 1, f"event {event_id} starts a second one of {mutex}"

    def every_task_ended_once(self, url: str) -> None:
        """Each path has no gap, its one final state is its last, and the task is in that state."""
        ends = dict(rows(url, "SELECT id, status FROM task"))
        assert sorted(self.path) == sorted(ends), "every task that was submitted is there"
        for task_id, path in self.path.items():
            assert [seq for seq, _, _ in path] == list(range(1, len(path) + 1)), path
            assert [before for _, before, _ in path] == [None, *(after for _, _, after in path[:-1])], path
            assert [after in FINAL for _, _, after in path] == [False] * (len(path) - 1) + [True], path
            assert ends[task_id] == path[-1][2]
