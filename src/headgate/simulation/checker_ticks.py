"""I9: each tick of a schedule is dealt with once, none is missing against its policy, and its log tells the truth.

Walks the audit in the order of its commits with the pure `Cron` beside it: what people did to a schedule says where its
ticks begin, and from there they must come one by one.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from typing import NamedTuple

from headgate.core.cron import GRACE, MOST_MISSED, Cron, Missed, cron_of
from headgate.core.errors import Invalid
from headgate.core.schedule import GOOD_ENDS, told
from headgate.core.states import State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.evidence import Known, Line, Row

ACTS = ("periodic_added", "periodic_changed", "periodic_online", "periodic_offline", "periodic_removed")
OF_A_TICK = "periodic:"
FIRES = "system:periodic"
SLACK_SECONDS = 0.001
_BAD_ENDS = frozenset({State.FAILED, State.CANCELLED, State.DEAD})


def is_of_a_tick(known: Known) -> bool:
    return (known.correlation_id or "").startswith(OF_A_TICK)


def judge_ticks(case: Case) -> Iterator[Violation]:
    walk = _Walk(case)
    for row in case.evidence.rows:
        for wrong in walk.read(row):
            yield Violation("I9", wrong, row.task_id)
    yield from (Violation("I9", wrong) for wrong in walk.rest())
    yield from (
        Violation("I9", wrong, line.task_id) for line in case.evidence.lines for wrong in _judge_line(case, line)
    )
    yield from (Violation("I9", wrong) for wrong in _judge_calls(case))


class _Schedule:
    """One schedule on the way: the tick that must come next, None while it is not online."""

    def __init__(self, number: int, cron: Cron) -> None:
        self.number = number
        self.cron = cron
        self.missed = ""
        self.next: datetime | None = None
        self.done: datetime | None = None  # the last tick that was dealt with

    def __str__(self) -> str:
        return f"periodic task {self.number}"

    def go_on(self, tick: datetime) -> None:
        """The tick was dealt with."""
        self.done, self.next = tick, self.cron.following(tick)


class _Walk:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._schedules: dict[int, _Schedule] = {}
        lines = [line for line in case.evidence.lines if line.tick is not None and line.task_id is None]
        self._without_task = {(line.schedule_id, line.tick): line.at for line in lines}  # skipped, refused, or a call

    def read(self, row: Row) -> Iterator[str]:
        if row.kind == "submitted" and row.actor == FIRES and row.task_id in self._case.tasks:
            yield from self._fire(row, self._case.tasks[row.task_id])
        try:
            if row.task_id is None and row.kind in ACTS:
                yield from self._act(row, Said.read(row.detail))
            elif row.kind == "ticks_missed":
                yield from self._drop(row, Dropped.read(row.detail))
        except (ValueError, TypeError, LookupError, Invalid):
            yield f"row {row.id} ({row.kind}) says {row.detail!r}, of which nobody can make sense"

    def rest(self) -> Iterator[str]:
        """Whoever is still online must have dealt with what had come."""
        for schedule in self._schedules.values():
            yield from self._in_time(schedule, self._case.evidence.ended_at, inf)

    def _act(self, row: Row, said: "Said") -> Iterator[str]:
        schedule = self._schedules.setdefault(said.number, _Schedule(said.number, said.cron))
        yield from self._in_time(schedule, row.wall, row.at)
        schedule.cron, schedule.missed, schedule.next = said.cron, said.missed, said.next
        if schedule.done is not None and schedule.next is not None and schedule.next <= schedule.done:
            yield f"{schedule}: row {row.id} ({row.kind}) goes back to {told(schedule.next)}"

    def _in_time(self, schedule: _Schedule, wall: float, at: float) -> Iterator[str]:
        until = self._case.evidence.ticks_until
        self._pass_without_task(schedule, at=at)
        if until is not None and schedule.next is not None and wall >= until > schedule.next.timestamp():
            yield f"{schedule}: nobody dealt with its tick {told(schedule.next)}"

    def _fire(self, row: Row, known: Known) -> Iterator[str]:
        number, tick = _tick_of(known)
        schedule = self._schedules.get(number)
        if schedule is None or tick is None:
            yield f"row {row.id} makes task {known.id} of a tick of a schedule that nobody made"
            return
        self._pass_without_task(schedule, until=tick)
        if schedule.next is None:
            yield f"{schedule}: row {row.id} fires its tick {told(tick)}, and it is not online"
        elif tick < schedule.next:
            yield f"{schedule}: row {row.id} fires its tick {told(tick)} again: {told(schedule.next)} is the next"
        elif tick > schedule.next:
            yield f"{schedule}: row {row.id} fires its tick {told(tick)}, and {told(schedule.next)} is missing"
        if tick.timestamp() > row.wall + SLACK_SECONDS:
            yield f"{schedule}: row {row.id} fires its tick {told(tick)} before its time"
        if schedule.next is not None:
            schedule.go_on(max(tick, schedule.next))

    def _drop(self, row: Row, said: "Dropped") -> Iterator[str]:
        schedule = self._schedules.get(said.number)
        if schedule is None:
            yield f"row {row.id} drops ticks of a schedule that nobody made"
            return
        self._pass_without_task(schedule, until=said.first)
        if schedule.next != said.first:
            expected = "none" if schedule.next is None else told(schedule.next)
            yield f"{schedule}: row {row.id} drops ticks from {told(said.first)} on, {expected} is the next"
        last = _last_before(schedule.cron, said.first, said.until)
        if last.timestamp() > row.wall - GRACE.total_seconds() + SLACK_SECONDS:
            yield f"{schedule}: row {row.id} drops its tick {told(last)}, which was not missed"
        if schedule.missed == Missed.ALL and not self._is_a_thousand(schedule, said.until):
            yield f"{schedule}: row {row.id} drops ticks, and all were to be made good"
        schedule.done, schedule.next = max(last, schedule.done or last), said.until

    def _is_a_thousand(self, schedule: _Schedule, since: datetime) -> bool:
        """Whether so many were made good, from there on, that the rest could be dropped."""
        mark = f"{OF_A_TICK}{schedule.number}:"
        ticks = [known.correlation_id or "" for known in self._case.evidence.tasks if is_of_a_tick(known)]
        return sum(text.startswith(mark) and text.removeprefix(mark) >= told(since) for text in ticks) >= MOST_MISSED

    def _pass_without_task(self, schedule: _Schedule, *, until: datetime | None = None, at: float = inf) -> None:
        """Ticks that made no task are known by their log alone: those before a tick, or noted before a moment."""
        while (
            schedule.next is not None
            and (until is None or schedule.next < until)
            and self._without_task.get((schedule.number, told(schedule.next)), inf) < at
        ):
            schedule.go_on(schedule.next)


# What rows and tasks say


class Said(NamedTuple):
    """What a schedule is from this row on."""

    number: int
    cron: Cron
    missed: str
    next: datetime | None

    @classmethod
    def read(cls, detail: str | None) -> "Said":
        said = json.loads(detail or "null")
        tick = said["next_tick"]
        cron = cron_of(said["cron_expressions"], said["timezone"])
        return cls(int(said["periodic_task"]), cron, said["missed"], None if tick is None else _moment(tick))


class Dropped(NamedTuple):
    """Ticks that were missed, and that nobody makes good: from the first up to where the schedule goes on."""

    number: int
    first: datetime
    until: datetime

    @classmethod
    def read(cls, detail: str | None) -> "Dropped":
        said = json.loads(detail or "null")
        return cls(int(said["periodic_task"]), _moment(said["first"]), _moment(said["until"]))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _tick_of(known: Known) -> tuple[int, datetime | None]:
    """The schedule and the tick that a task is of, by its correlation id."""
    try:
        _, number, text = (known.correlation_id or "").split(":", 2)
        return int(number), _moment(text)
    except ValueError:
        return 0, None


def _last_before(cron: Cron, first: datetime, until: datetime) -> datetime:
    last = first
    while (tick := cron.following(last)) is not None and tick < until:
        last = tick
    return last


def _judge_line(case: Case, line: Line) -> Iterator[str]:
    """A log ends with what it is about, and as that ended."""
    named = f"periodic task {line.schedule_id}: the log of {line.tick or 'a trigger by hand'}"
    if line.result == "executing":
        if case.evidence.at_rest:
            yield f"{named} never ended"
        return
    if line.task_id is None or not line.trans:
        return
    ends = {row.after for row in case.paths.get(line.task_id, ())}
    if line.result == "success" and not ends & GOOD_ENDS:
        yield f"{named} is a success, and task {line.task_id} is not"
    if line.result == "failure" and not ends & _BAD_ENDS:
        yield f"{named} is a failure, and task {line.task_id} is not"


def _judge_calls(case: Case) -> Iterator[str]:
    """A call is made once at most; who says that it went well was answered well."""
    arrived = Counter((arrival.schedule_id, arrival.tick) for arrival in case.evidence.arrivals if arrival.tick)
    for (number, tick), times in arrived.items():
        if times > 1:
            yield f"periodic task {number}: the call of its tick {tick} arrived {times} times"
    well = {(arrival.schedule_id, arrival.tick) for arrival in case.evidence.arrivals if arrival.well}
    called = {arrival.schedule_id for arrival in case.evidence.arrivals}
    for line in case.evidence.lines:
        told_well = line.trans and line.result == "success" and line.task_id is None and line.tick is not None
        if told_well and line.schedule_id in called and (line.schedule_id, line.tick) not in well:
            yield f"periodic task {line.schedule_id}: the call of its tick {line.tick} is a success, and was none"
