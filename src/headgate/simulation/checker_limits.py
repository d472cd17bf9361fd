"""I4: by the audit, in the order of its commits, nothing ever started that a limit forbade."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.limits import Rate
from headgate.core.states import HELD, State
from headgate.core.task import EVERYTHING
from headgate.simulation.checker_case import Case, Violation, begins
from headgate.simulation.evidence import Known, Row

SLACK_SECONDS = 0.001  # between a claim's look at the clock and the time on its rows
RESOURCE_CAPACITY = 1  # of one that nobody set
KEY_RATE = Rate()  # of a rate key that nobody set
_OCCUPIES = HELD | {State.WAITING}
_SETS_THE_TIME = frozenset({"submitted", "snoozed", "retrying", "rescheduled", "retried", "paused"})

Key = tuple[int, str]  # tenant and mutex
Allowed = dict[str, dict[str, int]]  # by exec_id and gate: how many could hold it when the execution began


class Steady:
    """Time by a clock that is stepped: what it advances counts, where it falls back to does not.

    The highest time seen would not do: after a step back, buckets fill again while it stands still.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.highest = float("-inf")
        self._last: float | None = None

    def read(self, wall: float) -> None:
        if self._last is not None:
            self.now += max(wall - self._last, 0.0)
        self._last, self.highest = wall, max(wall, self.highest)


def judge_limits(case: Case) -> tuple[list[Violation], Allowed]:
    """What started against a limit; and for whoever judges the ledger, the room there was for each start."""
    walk = _Walk(case)
    return [violation for row in case.evidence.rows for violation in walk.read(row)], walk.allowed


class _Walk:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._clock = Steady()
        self._capacity: dict[str, int | None] = dict(case.evidence.capacities)
        self._rates: dict[str, Rate | None] = dict(case.evidence.rates)
        self._full_at: dict[str, float] = {}  # when each bucket will be full again, by the steady clock
        self._paused: set[str] = set()
        self._held: dict[str, dict[int, int]] = defaultdict(dict)  # by place: tasks, and the rows that started them
        self._holders: dict[Key, dict[int, int]] = defaultdict(dict)
        self._families: dict[Key, dict[int, int]] = defaultdict(dict)  # by mutex: parents that wait, and their roots
        self._last_starts: dict[Key, float] = {}  # by tenant and agent, by the store's clock
        self._somewhere: set[int] = set()  # tasks that have held anything
        self._timed = {row_id for path in case.paths.values() for row_id in _last_start(path)}
        self.allowed: Allowed = {}

    def read(self, row: Row) -> Iterator[Violation]:
        self._clock.read(row.wall)
        if row.task_id is None:
            self._edit(row)
            return
        known = self._case.tasks.get(row.task_id)
        if known is None or not row.seq:
            return
        if row.after not in _OCCUPIES and known.id not in self._somewhere:
            return
        if begins(row):
            for wrong in self._start(row, known):
                yield Violation("I4", f"row {row.id} starts task {known.id} {wrong}", known.id)
        self._move(row, known)

    def _edit(self, row: Row) -> None:
        """What people change about the limits themselves."""
        said = _said(row.detail)
        match row.kind:
            case "capacity_changed":
                kind = "lane" if "lane" in said else "resource"
                self._capacity[f"{kind} {said.get(kind)}"] = said.get("capacity")
            case "rate_changed":
                name = str(said.get("name"))
                self._rates[name] = _rate(said.get("limit"))
                self._full_at.pop(name, None)
            case "paused":
                self._paused.add(str(said.get("lane")))
            case "resumed":
                self._paused.discard(str(said.get("lane")))

    def _start(self, row: Row, known: Known) -> Iterator[str]:
        if EVERYTHING in self._paused:
            yield "while everything is paused"
        if known.lane in self._paused:
            yield f"in lane {known.lane}, which is paused"
        yield from self._fill(row, known)
        yield from self._lock(known)
        yield from self._take_tokens(known)
        yield from self._leave_the_queue(row, known)
        if row.id in self._timed and known.start_time is not None:
            early = known.start_time - self._clock.highest
            if early > SLACK_SECONDS:
                yield f"{early:.3f} s before its time"

    def _fill(self, row: Row, known: Known) -> Iterator[str]:
        for place in self._case.places(known):
            unset = None if place.startswith("lane ") else RESOURCE_CAPACITY
            capacity = self._capacity.get(place, unset)
            if not isinstance(capacity, int):
                continue
            if row.exec_id is not None:
                self.allowed.setdefault(row.exec_id, {})[place] = capacity
            others = [task_id for task_id in self._held[place] if task_id != known.id]
            if len(others) >= capacity:
                yield f"in {place}, of which {capacity} may run and {_listed(others)} did"

    def _lock(self, known: Known) -> Iterator[str]:
        if known.mutex is None:
            return
        key = (known.tenant_id, known.mutex)
        named = f"mutex {known.mutex!r} of tenant {known.tenant_id}"
        others = [task_id for task_id in self._holders[key] if task_id != known.id]
        if others:
            yield f"behind {named}, which {_listed(others)} held"
        root_id = _root(known)
        strangers = [parent for parent, root in self._families[key].items() if root != root_id and parent != known.id]
        if strangers:
            yield f"behind {named}, which the family of {_listed(strangers)} held"

    def _take_tokens(self, known: Known) -> Iterator[str]:
        names = [f"lane:{known.lane}", f"type:{known.type}"]
        if known.rate_key is not None:
            names.append(f"key:{known.rate_key}")
        for name in names:
            limit = self._rates.get(name, KEY_RATE if name.startswith("key:") else None)
            if limit is None:
                continue
            now = self._clock.now
            full_at = max(self._full_at.get(name, now), now)
            late = full_at - now - (limit.burst - 1) / limit.rate
            if late > SLACK_SECONDS:
                yield f"{late:.3f} s before bucket {name} ({limit.rate:g} a second, {limit.burst} at once) had a token"
            else:
                self._full_at[name] = full_at + 1 / limit.rate

    def _leave_the_queue(self, row: Row, known: Known) -> Iterator[str]:
        """By the store's clock: set back by more than an interval, it holds up nobody."""
        seconds = self._case.evidence.start_seconds
        if known.agent_id is None or seconds is None:
            return
        if row.after != State.SCHEDULING:
            yield f"before its agent, {known.agent_id}, has confirmed it"
        agent = (known.tenant_id, known.agent_id)
        last, self._last_starts[agent] = self._last_starts.get(agent), row.wall
        if last is not None and abs(row.wall - last) < seconds - SLACK_SECONDS:
            yield f"{row.wall - last:.3f} s after the last start of agent {known.agent_id}, {seconds:g} s are to pass"

    def _move(self, row: Row, known: Known) -> None:
        """Who holds what behind the row. A parent that goes from running to waiting keeps its mutex."""
        self._somewhere.add(known.id)
        key = None if known.mutex is None else (known.tenant_id, known.mutex)
        for place in self._case.places(known):
            _put(self._held[place], known.id, row.id if row.after in HELD else None)
        if key is None:
            return
        held = known.id in self._holders[key]
        keeps = row.after == State.WAITING and (held or known.id in self._families[key])
        _put(self._holders[key], known.id, row.id if row.after in HELD else None)
        _put(self._families[key], known.id, _root(known) if keeps else None)


def _put(where: dict[int, int], task_id: int, value: int | None) -> None:
    if value is None:
        where.pop(task_id, None)
    else:
        where.setdefault(task_id, value)


def _root(known: Known) -> int:
    return known.id if known.root_id is None else known.root_id


def _last_start(path: list[Row]) -> list[int]:
    """The row of the last start, unless the task's time was set again behind it: then what it was is not known."""
    found: list[int] = []
    for row in path:
        if begins(row):
            found = [row.id]
        elif row.kind in _SETS_THE_TIME:
            found = []
    return found


def _said(detail: str | None) -> dict[str, Any]:
    try:
        said = json.loads(detail or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _rate(said: Any) -> Rate | None:
    try:
        return Rate(float(said["rate"]), int(said["burst"]))
    except (KeyError, TypeError, ValueError, Invalid):
        return None


def _listed(ids: list[int]) -> str:
    return ", ".join(str(task_id) for task_id in sorted(ids))
