"""I4: by the audit, in the order of its commits, nothing started against a limit."""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.limits import DEFAULT_KEY, Rate, bucket_of
from headgate.core.pause import EVERYTHING_PAUSED, PauseKey, PauseScope, keys_of
from headgate.core.reasons import paused_subject
from headgate.core.states import HELD, State
from headgate.simulation.checker_case import Case, Violation, starts_execution
from headgate.simulation.evidence import Row, TaskRecord

SLACK_SECONDS = 0.001  # between a claim's look at the clock and the time on its rows
RESOURCE_CAPACITY = 1  # the default
_OCCUPIES = HELD | {State.WAITING}
_SETS_THE_TIME = frozenset({"submitted", "snoozed", "retrying", "rescheduled", "retried", "paused"})

Key = tuple[int, str]  # tenant and mutex
Allowed = dict[str, dict[str, int]]  # by exec_id and gate: how many could hold it when the execution began


class SteadyClock:
    """Time by a clock that is stepped: what it advances counts; where it falls back, the time that really passed.

    The highest time seen would not do: after a step back, buckets fill again while it stands still.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.highest = float("-inf")
        self._last: Row | None = None

    def read(self, row: Row) -> None:
        if self._last is not None:
            advanced = row.wall - self._last.wall
            self.now += advanced if advanced >= 0 else max(row.at - self._last.at, 0.0)
        self._last, self.highest = row, max(row.wall, self.highest)


def judge_limits(case: Case) -> tuple[list[Violation], Allowed]:
    """What started against a limit; and, to judge the ledger by, the capacities at each start."""
    walk = _Walk(case)
    return [violation for row in case.evidence.rows for violation in walk.read(row)], walk.allowed


class _Walk:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._clock = SteadyClock()
        self._capacity: dict[str, int | None] = dict(case.evidence.capacities)
        self._rates: dict[str, Rate | None] = {DEFAULT_KEY: Rate(), **case.evidence.rates}
        self._full_at: dict[str, float] = {}  # when each bucket will be full again, by the steady clock
        self._paused: dict[PauseKey, float] = {}  # until when, by the store's clock
        self._held: dict[str, dict[int, int]] = defaultdict(dict)  # by place: tasks, and the rows that started them
        self._holders: dict[Key, dict[int, int]] = defaultdict(dict)
        self._families: dict[Key, dict[int, int]] = defaultdict(dict)  # by mutex: parents that wait, and their roots
        self._last_starts: dict[Key, float] = {}  # by tenant and agent, by the store's clock
        self._ever_held: set[int] = set()  # tasks that have held anything
        self._timed_starts = {row_id for path in case.paths.values() for row_id in _last_start(path)}
        self.allowed: Allowed = {}

    def read(self, row: Row) -> Iterator[Violation]:
        self._clock.read(row)
        if row.task_id is None:
            self._apply_edit(row)
            return
        task = self._case.tasks.get(row.task_id)
        if task is None or not row.seq:
            return
        if row.after not in _OCCUPIES and task.id not in self._ever_held:
            return
        if starts_execution(row):
            for wrong in self._check_start(row, task):
                yield Violation("I4", f"row {row.id} starts task {task.id} {wrong}", task.id)
        elif row.before == State.SCHEDULING and row.after == State.RUNNING:
            for wrong in self._check_pauses(task):
                yield Violation("I4", f"row {row.id} confirms the start of task {task.id} {wrong}", task.id)
        self._update_holders(row, task)

    def _apply_edit(self, row: Row) -> None:
        """Apply what people changed: capacities, rates, pauses."""
        detail = _parse_detail(row.detail)
        match row.kind:
            case "capacity_changed":
                noun = "lane" if "lane" in detail else "resource"
                self._capacity[f"{noun} {detail.get(noun)}"] = detail.get("capacity")
            case "rate_changed":
                name = str(detail.get("name"))
                self._rates[name] = _rate(detail.get("limit"))
                for bucket in [bucket for bucket in self._full_at if name in (bucket, DEFAULT_KEY)]:
                    del self._full_at[bucket]
            case "lane_removed":
                self._capacity.pop(f"lane {detail.get('lane')}", None)
                self._paused.pop((PauseScope.LANE, str(detail.get("lane"))), None)
            case "resource_removed":
                self._capacity.pop(f"resource {detail.get('resource')}", None)
            case "rate_limit_removed":
                self._rates.pop(str(detail.get("name")), None)
            case "paused":
                self._paused[_pause_key(detail)] = _timestamp(detail.get("until"))
            case "resumed":
                self._paused.pop(_pause_key(detail), None)

    def _check_pauses(self, task: TaskRecord) -> Iterator[str]:
        for key in keys_of(task.tenant_id, task.lane, task.type, task.rate_key):
            if self._clock.highest < self._paused.get(key, float("-inf")) - SLACK_SECONDS:
                yield f"while {paused_subject({'scope': key[0], 'name': key[1]})} is paused"

    def _check_start(self, row: Row, task: TaskRecord) -> Iterator[str]:
        yield from self._check_pauses(task)
        yield from self._check_capacities(row, task)
        yield from self._check_mutex(task)
        yield from self._check_rates(task)
        yield from self._check_start_interval(row, task)
        if row.id in self._timed_starts and task.start_time is not None:
            early = task.start_time - self._clock.highest
            if early > SLACK_SECONDS:
                yield f"{early:.3f} s before its time"

    def _check_capacities(self, row: Row, task: TaskRecord) -> Iterator[str]:
        for place in self._case.places(task):
            unset = None if place.startswith("lane ") else RESOURCE_CAPACITY
            capacity = self._capacity.get(place, unset)
            if not isinstance(capacity, int):
                continue
            if row.exec_id is not None:
                self.allowed.setdefault(row.exec_id, {})[place] = capacity
            others = [task_id for task_id in self._held[place] if task_id != task.id]
            if len(others) >= capacity:
                yield f"in {place}, of which {capacity} may run and {_listed(others)} did"

    def _check_mutex(self, task: TaskRecord) -> Iterator[str]:
        if task.mutex is None:
            return
        key = (task.tenant_id, task.mutex)
        named = f"mutex {task.mutex!r} of tenant {task.tenant_id}"
        others = [task_id for task_id in self._holders[key] if task_id != task.id]
        if others:
            yield f"behind {named}, which {_listed(others)} held"
        root_id = _root(task)
        strangers = [parent for parent, root in self._families[key].items() if root != root_id and parent != task.id]
        if strangers:
            yield f"behind {named}, which the family of {_listed(strangers)} held"

    def _check_rates(self, task: TaskRecord) -> Iterator[str]:
        limits = {name: self._rates.get(name) for name in (f"lane:{task.lane}", f"type:{task.type}")}
        if task.rate_key is not None:
            key = f"key:{task.rate_key}"
            if key in self._rates:
                limits[key] = self._rates[key]
            else:
                limits[bucket_of(task.tenant_id, task.rate_key)] = self._rates[DEFAULT_KEY]
        for name, limit in limits.items():
            if limit is None:
                continue
            now = self._clock.now
            full_at = max(self._full_at.get(name, now), now)
            late = full_at - now - (limit.burst - 1) / limit.rate
            if late > SLACK_SECONDS:
                yield f"{late:.3f} s before bucket {name} ({limit.rate:g} a second, {limit.burst} at once) had a token"
            else:
                self._full_at[name] = full_at + 1 / limit.rate

    def _check_start_interval(self, row: Row, task: TaskRecord) -> Iterator[str]:
        """By the store's clock: after that was set back by more than an interval, a start need not wait."""
        seconds = self._case.evidence.start_seconds
        if task.agent_id is None or seconds is None:
            return
        if row.after != State.SCHEDULING:
            yield f"before its agent, {task.agent_id}, has confirmed it"
        agent = (task.tenant_id, task.agent_id)
        last, self._last_starts[agent] = self._last_starts.get(agent), row.wall
        if last is not None and abs(row.wall - last) < seconds - SLACK_SECONDS:
            yield f"{row.wall - last:.3f} s after the last start of agent {task.agent_id}, {seconds:g} s are to pass"

    def _update_holders(self, row: Row, task: TaskRecord) -> None:
        """Note who holds what after the row. A parent that goes from running to waiting keeps its mutex."""
        self._ever_held.add(task.id)
        key = None if task.mutex is None else (task.tenant_id, task.mutex)
        for place in self._case.places(task):
            _set_or_remove(self._held[place], task.id, row.id if row.after in HELD else None)
        if key is None:
            return
        held = task.id in self._holders[key]
        keeps = row.after == State.WAITING and (held or task.id in self._families[key])
        _set_or_remove(self._holders[key], task.id, row.id if row.after in HELD else None)
        _set_or_remove(self._families[key], task.id, _root(task) if keeps else None)


def _set_or_remove(where: dict[int, int], task_id: int, value: int | None) -> None:
    if value is None:
        where.pop(task_id, None)
    else:
        where.setdefault(task_id, value)


def _root(task: TaskRecord) -> int:
    return task.id if task.root_id is None else task.root_id


def _last_start(path: list[Row]) -> list[int]:
    """The row of the last start; none if the task's start time was set again after it, since the old one is unknown."""
    found: list[int] = []
    for row in path:
        if starts_execution(row):
            found = [row.id]
        elif row.kind in _SETS_THE_TIME:
            found = []
    return found


def _parse_detail(text: str | None) -> dict[str, Any]:
    try:
        detail = json.loads(text or "{}")
    except ValueError:
        return {}
    return detail if isinstance(detail, dict) else {}


def _pause_key(detail: dict[str, Any]) -> PauseKey:
    named = ((str(scope), str(detail[scope])) for scope in PauseScope if scope in detail)
    return next(named, EVERYTHING_PAUSED)


def _timestamp(until: Any) -> float:
    """When a pause ends; never, if that cannot be read."""
    try:
        return datetime.fromisoformat(until).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return float("inf")


def _rate(limit: Any) -> Rate | None:
    try:
        return Rate(float(limit["rate"]), int(limit["burst"]))
    except (KeyError, TypeError, ValueError, Invalid):
        return None


def _listed(ids: list[int]) -> str:
    return ", ".join(str(task_id) for task_id in sorted(ids))
