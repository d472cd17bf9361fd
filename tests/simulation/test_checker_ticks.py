"""The checker on ticks: a right run is right, and each thing that can be wrong with one is found."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.core.schedule import tick_text
from headgate.simulation.checker import check
from headgate.simulation.evidence import Arrival, ScheduleLogLine
from tests.simulation.runs import Run

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Ticking(Run):
    """A run with a schedule that fires every minute; the clocks are at noon."""

    def __init__(self, **schedule: Any) -> None:
        super().__init__()
        self.log_lines: list[ScheduleLogLine] = []
        self.arrivals: list[Arrival] = []
        self.now = self.wall = NOON.timestamp() - 1
        self.act("added", **schedule)

    def at(self, minutes: float) -> None:
        """Let the time come."""
        self.now = self.wall = NOON.timestamp() + 60 * minutes - 1

    def act(self, what: str, *, next_tick: float | None = 1, cron: str = "* * * * *", missed: str = "skip") -> None:
        tick = None if next_tick is None else minute(next_tick)
        detail = {"periodic_task": 1, "cron_expressions": cron, "timezone": "UTC", "missed": missed, "next_tick": tick}
        self.note(None, f"periodic_{what}", detail=json.dumps(detail))

    def fire(self, tick: float, task_id: int | None = None, result: str | None = "success") -> int:
        """A task of its own, which runs and ends well."""
        number = int(tick) if task_id is None else task_id
        self.submit(number, correlation_id=f"periodic:1:{minute(tick)}")
        self.rows[-1] = self.rows[-1]._replace(actor="system:periodic")
        self.submissions.pop()
        self.start(number, f"x{number}")
        self.end(number)
        if result is not None:
            self.line(tick, result, number)
        return number

    def line(self, tick: float | None, result: str, task_id: int | None = None, *, trans: bool = True) -> None:
        self.log_lines.append(
            ScheduleLogLine(self.now, 1, None if tick is None else minute(tick), result, task_id, trans)
        )

    def miss(self, first: float, until: float) -> None:
        detail = {"periodic_task": 1, "first": minute(first), "until": minute(until), "missed": "skip"}
        self.note(None, "ticks_missed", detail=json.dumps(detail))

    def wrong(self, **more: Any) -> list[str]:
        found = check(self.evidence(log_lines=self.log_lines, arrivals=self.arrivals, **more))
        assert {violation.invariant for violation in found} <= {"I9"}, found
        return [violation.text for violation in found]


def minute(number: float) -> str:
    return tick_text(NOON + timedelta(minutes=number))


def test_ticks_that_come_one_by_one_are_right():
    """Spec: X5, B9"""
    run = Ticking()
    for tick in (1, 2, 3):
        run.at(tick + 0.1)
        run.fire(tick)
    assert run.wrong(ticks_until=NOON.timestamp() + 3.9 * 60) == []


def test_a_tick_that_fires_twice_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(1.1)
    run.fire(1)
    run.fire(1, task_id=7, result=None)
    [wrong] = run.wrong()
    assert "fires its tick 2030-01-01T12:01:00Z again" in wrong


def test_a_tick_that_is_missing_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(3.1)
    run.fire(3)
    [wrong] = run.wrong()
    assert "2030-01-01T12:01:00Z is missing" in wrong


def test_a_tick_that_nobody_dealt_with_at_the_end_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(1.1)
    run.fire(1)
    run.at(9)
    run.note(None, "somebody looked")
    [wrong] = run.wrong(ticks_until=NOON.timestamp() + 8 * 60)
    assert "no process handled its tick 2030-01-01T12:02:00Z" in wrong
    assert run.wrong(ticks_until=NOON.timestamp() + 90) == []


def test_a_tick_before_its_time_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(0.5)
    run.fire(1)
    [wrong] = run.wrong()
    assert "before its time" in wrong


def test_a_tick_of_one_that_is_offline_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.act("offline", next_tick=None)
    run.at(1.1)
    run.fire(1)
    [wrong] = run.wrong()
    assert "it is not online" in wrong


def test_going_back_to_a_tick_that_was_dealt_with_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(1.1)
    run.fire(1)
    run.act("changed", next_tick=1)
    [wrong] = run.wrong()
    assert "goes back" in wrong


def test_a_task_of_a_schedule_that_nobody_made_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(1.1)
    run.submit(5, correlation_id=f"periodic:9:{minute(1)}")
    run.rows[-1] = run.rows[-1]._replace(actor="system:periodic")
    run.start(5, "x5")
    run.end(5)
    [wrong] = run.wrong()
    assert "a schedule that does not exist" in wrong


def test_what_was_missed_may_be_dropped_and_what_was_not_may_not():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(9.9)
    run.miss(1, 9)
    run.fire(9)
    assert run.wrong() == []
    run = Ticking()
    run.at(9.2)
    run.miss(1, 10)
    [wrong] = run.wrong()
    assert "drops its tick 2030-01-01T12:09:00Z, which was not missed" in wrong


def test_dropped_ticks_that_are_not_the_next_are_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(9.9)
    run.miss(3, 9)
    [wrong] = run.wrong()
    assert "2030-01-01T12:01:00Z is the next" in wrong


def test_ticks_dropped_where_all_were_to_be_made_good_are_found():
    """Spec: X5, B9"""
    run = Ticking(missed="all")
    run.at(9.9)
    run.miss(1, 9)
    run.fire(9)
    [wrong] = run.wrong()
    assert "all were to be made good" in wrong


def test_a_skipped_tick_is_known_by_its_line_and_not_before_it_was_written():
    """Spec: X5, B10"""
    run = Ticking()
    run.at(1.1)
    run.line(1, "failure")
    run.act("changed", next_tick=2)
    run.at(2.1)
    run.fire(2)
    assert run.wrong() == []
    run = Ticking()
    run.at(1.1)
    run.act("changed", next_tick=1)
    run.line(1, "failure")
    run.at(2.1)
    run.fire(2)
    assert run.wrong() == []


@pytest.mark.parametrize(("result", "found"), [("failure", "is a failure, and"), ("executing", "never ended")])
def test_a_log_that_does_not_say_how_its_task_ended_is_found(result, found):
    """Spec: X5, B10"""
    run = Ticking()
    run.at(1.1)
    run.fire(1, result=result)
    [wrong] = run.wrong()
    assert found in wrong
    assert result == "failure" or run.wrong(at_rest=False) == []


def test_a_success_of_a_task_that_failed_is_found_unless_it_is_a_trigger_log():
    """Spec: X5, B10"""
    run = Ticking()
    run.at(1.1)
    run.submit(1, correlation_id="periodic:1:by-hand")
    run.start(1, "x1")
    run.end(1, "failed", "failed")
    run.line(None, "success", 1)
    [wrong] = run.wrong()
    assert "is a success, and task 1 is not" in wrong
    run.log_lines[0] = run.log_lines[0]._replace(trans=False)
    assert run.wrong() == []


def test_a_call_that_arrives_twice_or_is_called_a_success_and_was_none_is_found():
    """Spec: X5, B9"""
    run = Ticking()
    run.at(1.1)
    run.line(1, "success")
    run.arrivals = [Arrival(1, minute(1), True)]
    assert run.wrong() == []
    run.arrivals *= 2
    [wrong] = run.wrong()
    assert "arrived 2 times" in wrong
    run.arrivals = [Arrival(1, minute(1), False)]
    [wrong] = run.wrong()
    assert "is a success, and was none" in wrong
