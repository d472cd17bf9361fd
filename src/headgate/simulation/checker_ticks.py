"""I9: each tick of a schedule is dealt with once, none is missing against its policy, and its log tells the truth.

Walks the audit in the order of its commits with the pure `Cron` beside it: what people did to a schedule says where its
ticks begin, and from there they must come one by one.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from typing import Any

from headgate.core.cron import GRACE, MAX_MISSED, Cron, Missed, cron_of
from headgate.core.errors import Invalid
from headgate.core.schedule import GOOD_ENDS, tick_text
from headgate.core.states import State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.evidence import Row, ScheduleLogLine, TaskRecord

SCHEDULE_EVENTS = ("periodic_added", "periodic_changed", "periodic_online", "periodic_offline", "periodic_removed")
CORRELATION_PREFIX = "periodic:"
FIRING_ACTOR = "system:periodic"
SLACK_SECONDS = 0.001
BAD_ENDS = frozenset({State.FAILED, State.CANCELLED, State.DEAD})


def is_task_of_tick(task: TaskRecord) -> bool:
    return (task.correlation_id or "").startswith(CORRELATION_PREFIX)


def judge_ticks(case: Case) -> Iterator[Violation]:
    walk = _Walk(case)
    for row in case.evidence.rows:
        for wrong in walk.read(row):
            yield Violation("I9", wrong, row.task_id)
    yield from (Violation("I9", wrong) for wrong in walk.finish())
    yield from (
        Violation("I9", wrong, line.task_id) for line in case.evidence.log_lines for wrong in _judge_line(case, line)
    )
    yield from (Violation("I9", wrong) for wrong in _judge_calls(case))


class _Schedule:
    """One schedule on the way: the tick that must come next, None while it is not online."""

    def __init__(self, schedule_id: int, cron: Cron) -> None:
        self.id = schedule_id
        self.cron = cron
        self.missed = ""
        self.next: datetime | None = None
        self.done: datetime | None = None  # the last tick that was dealt with

    def __str__(self) -> str:
        return f"periodic task {self.id}"

    def advance_past(self, tick: datetime) -> None:
        """Note that the tick was dealt with; the one after it is next."""
        self.done, self.next = tick, self.cron.following(tick)


class _Walk:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._schedules: dict[int, _Schedule] = {}
        lines = [line for line in case.evidence.log_lines if line.tick is not None and line.task_id is None]
        self._without_task = {(line.schedule_id, line.tick): line.at for line in lines}  # skipped, refused, or a call

    def read(self, row: Row) -> Iterator[str]:
        if row.kind == "submitted" and row.actor == FIRING_ACTOR and row.task_id in self._case.tasks:
            yield from self._fire(row, self._case.tasks[row.task_id])
        try:
            if row.task_id is None and row.kind in SCHEDULE_EVENTS:
                yield from self._change(row, json.loads(row.detail or "null"))
            elif row.kind == "ticks_missed":
                detail = json.loads(row.detail or "null")
                yield from self._drop(row, int(detail["periodic_task"]), _utc(detail["first"]), _utc(detail["until"]))
        except (ValueError, TypeError, LookupError, Invalid):
            yield f"row {row.id} ({row.kind}) says {row.detail!r}, which makes no sense"

    def finish(self) -> Iterator[str]:
        """At the end: what is still online must have dealt with all of its ticks."""
        for schedule in self._schedules.values():
            yield from self._check_missed(schedule, self._case.evidence.ended_at, inf)

    def _change(self, row: Row, detail: dict[str, Any]) -> Iterator[str]:
        """What a schedule is from this row on."""
        schedule_id, missed, tick = int(detail["periodic_task"]), detail["missed"], detail["next_tick"]
        cron = cron_of(detail["cron_expressions"], detail["timezone"])
        following = None if tick is None else _utc(tick)
        schedule = self._schedules.setdefault(schedule_id, _Schedule(schedule_id, cron))
        yield from self._check_missed(schedule, row.wall, row.at)
        schedule.cron, schedule.missed, schedule.next = cron, missed, following
        if schedule.done is not None and schedule.next is not None and schedule.next <= schedule.done:
            yield f"{schedule}: row {row.id} ({row.kind}) goes back to {tick_text(schedule.next)}"

    def _check_missed(self, schedule: _Schedule, wall: float, at: float) -> Iterator[str]:
        until = self._case.evidence.ticks_until
        self._pass_without_task(schedule, at=at)
        if until is not None and schedule.next is not None and wall >= until > schedule.next.timestamp():
            yield f"{schedule}: no process handled its tick {tick_text(schedule.next)}"

    def _fire(self, row: Row, task: TaskRecord) -> Iterator[str]:
        schedule_id, tick = _tick_of(task)
        schedule = self._schedules.get(schedule_id)
        if schedule is None or tick is None:
            yield f"row {row.id} makes task {task.id} of a tick of a schedule that does not exist"
            return
        self._pass_without_task(schedule, until=tick)
        fires = f"{schedule}: row {row.id} fires its tick {tick_text(tick)}"
        if schedule.next is None:
            yield f"{fires}, and it is not online"
        elif tick < schedule.next:
            yield f"{fires} again: {tick_text(schedule.next)} is the next"
        elif tick > schedule.next:
            yield f"{fires}, and {tick_text(schedule.next)} is missing"
        if tick.timestamp() > row.wall + SLACK_SECONDS:
            yield f"{fires} before its time"
        if schedule.next is not None:
            schedule.advance_past(max(tick, schedule.next))

    def _drop(self, row: Row, schedule_id: int, first: datetime, until: datetime) -> Iterator[str]:
        """Ticks that were missed and are not made up for: from `first` up to `until`, the next that fires."""
        schedule = self._schedules.get(schedule_id)
        if schedule is None:
            yield f"row {row.id} drops ticks of a schedule that does not exist"
            return
        self._pass_without_task(schedule, until=first)
        if schedule.next != first:
            expected = "none" if schedule.next is None else tick_text(schedule.next)
            yield f"{schedule}: row {row.id} drops ticks from {tick_text(first)} on, {expected} is the next"
        last = _last_before(schedule.cron, first, until)
        if last.timestamp() > row.wall - GRACE.total_seconds() + SLACK_SECONDS:
            yield f"{schedule}: row {row.id} drops its tick {tick_text(last)}, which was not missed"
        if schedule.missed == Missed.ALL and not self._may_drop_the_rest(schedule, until):
            yield f"{schedule}: row {row.id} drops ticks, and all were to be made good"
        schedule.done, schedule.next = max(last, schedule.done or last), until

    def _may_drop_the_rest(self, schedule: _Schedule, since: datetime) -> bool:
        """Whether the schedule has made up for enough ticks since then to drop the rest."""
        mark = f"{CORRELATION_PREFIX}{schedule.id}:"
        ticks = [task.correlation_id or "" for task in self._case.evidence.tasks if is_task_of_tick(task)]
        return (
            sum(text.startswith(mark) and text.removeprefix(mark) >= tick_text(since) for text in ticks) >= MAX_MISSED
        )

    def _pass_without_task(self, schedule: _Schedule, *, until: datetime | None = None, at: float = inf) -> None:
        """Ticks that made no task are known by their log alone: those before a tick, or noted before a moment."""
        while (
            schedule.next is not None
            and (until is None or schedule.next < until)
            and self._without_task.get((schedule.id, tick_text(schedule.next)), inf) < at
        ):
            schedule.advance_past(schedule.next)


# What rows and tasks say


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _tick_of(task: TaskRecord) -> tuple[int, datetime | None]:
    """The schedule and the tick that a task is of, by its correlation id."""
    try:
        _, number, text = (task.correlation_id or "").split(":", 2)
        return int(number), _utc(text)
    except ValueError:
        return 0, None


def _last_before(cron: Cron, first: datetime, until: datetime) -> datetime:
    last = first
    while (tick := cron.following(last)) is not None and tick < until:
        last = tick
    return last


def _judge_line(case: Case, line: ScheduleLogLine) -> Iterator[str]:
    """A line of a log ends with its task or call, and as that did."""
    named = f"periodic task {line.schedule_id}: the log of {line.tick or 'a trigger by hand'}"
    if line.result == "executing":
        if case.evidence.at_rest:
            yield f"{named} never ended"
        return
    if line.task_id is None or not line.trans:
        return
    path = case.paths.get(line.task_id, ())
    if any(row.id in case.evidence.removed_ids for row in path):
        return  # the task was removed before its end was noted
    ends = {row.after for row in path}
    if line.result == "success" and not ends & GOOD_ENDS:
        yield f"{named} is a success, and task {line.task_id} is not"
    if line.result == "failure" and not ends & BAD_ENDS:
        yield f"{named} is a failure, and task {line.task_id} is not"


def _judge_calls(case: Case) -> Iterator[str]:
    """A call is made once at most; one logged as a success got a good answer."""
    arrived = Counter((arrival.schedule_id, arrival.tick) for arrival in case.evidence.arrivals if arrival.tick)
    for (schedule_id, tick), times in arrived.items():
        if times > 1:
            yield f"periodic task {schedule_id}: the call of its tick {tick} arrived {times} times"
    well = {(arrival.schedule_id, arrival.tick) for arrival in case.evidence.arrivals if arrival.well}
    called = {arrival.schedule_id for arrival in case.evidence.arrivals}
    for line in case.evidence.log_lines:
        logged_success = line.trans and line.result == "success" and line.task_id is None and line.tick is not None
        if logged_success and line.schedule_id in called and (line.schedule_id, line.tick) not in well:
            yield f"periodic task {line.schedule_id}: the call of its tick {line.tick} is a success, and was none"
