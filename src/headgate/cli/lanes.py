"""`headgate lanes`: the use and the capacity of each lane."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_duration, format_time, one_line
from headgate.cli.output import forecast_json, print_line, print_note, print_wrapped
from headgate.core.errors import Invalid
from headgate.core.forecast import Forecast
from headgate.core.pause import EVERYTHING_PAUSED, UNNAMED, Pause, PauseScope
from headgate.store.reading.lane_report import LaneReport
from headgate.store.store import Store

commands = CommandGroup()
LaneName = Annotated[str, typer.Argument(metavar="NAME", help="Lane.")]
COUNTS = ("CAPACITY", "RUNNING", "QUEUED", "BLOCKED", "DELAYED")


@commands.default
def show_lanes(command: Command) -> None:
    """Show all lanes, change the capacity of one, or remove one.

    RUNNING and QUEUED are counted now (QUEUED up to 10,000), the rest every few
    seconds. DELAYED tasks have a start time that has not come yet. EMPTY is when
    the tasks there are now will probably have ended. SOURCE is what set the
    capacity: person, settings, program, pack or default.

    \b
    headgate lanes
    headgate lanes set mail --capacity 2
    headgate lanes set mail --capacity none
    headgate lanes reset mail
    headgate lanes remove mail
    """  # fmt: skip
    command.answer_all(
        command.store.lane_reports.all(),
        _lane_json,
        ("LANE", *COUNTS, "EMPTY", "SOURCE", "STATE"),
        _row,
        right=COUNTS,
        drop=("EMPTY", "SOURCE", "DELAYED", "BLOCKED"),
    )
    pauses = command.store.pauses.by_key()
    print_pauses(command, (pause for key, pause in pauses.items() if key[0] in (PauseScope.ALL, PauseScope.LANE)))


@contextmanager
def noting_new_lane(store: Store, name: str | None) -> Iterator[None]:
    """Note if the block creates the lane: naming a lane creates it, so this shows a misspelled name."""
    before = {lane.name for lane in store.lanes.all()}
    yield
    if name in {lane.name for lane in store.lanes.all()} - before:
        print_note(f"created lane {name}")


def _lane_json(lane: LaneReport) -> dict[str, Any]:
    return asdict(lane) | {"paused": lane.pause is not None, "drained": forecast_json(lane.drained)}


def _row(lane: LaneReport) -> tuple[Any, ...]:
    capacity = "no limit" if lane.capacity is None else lane.capacity
    queued = lane.queued if lane.queued_exact else f"about {lane.queued}"
    return (
        lane.name,
        capacity,
        lane.running,
        queued,
        lane.blocked,
        lane.later,
        _drained(lane.drained),
        lane.source,
        "active" if lane.pause is None else "paused",
    )


def pause_details(pause: Pause) -> str:
    """A pause, without what it holds: `paused until 2026-03-01 12:00:00Z by ann: moving house`."""
    until = f" until {format_time(pause.until)}" if pause.until else ""
    actor = "" if pause.actor == UNNAMED else f" by {one_line(pause.actor)}"
    return f"paused{until}{actor}" + (f": {one_line(pause.reason)}" if pause.reason else "")


def print_pauses(command: Command, pauses: Iterable[Pause]) -> None:
    """Print, below a table that says what is paused, until when, by whom and why."""
    texts = [] if command.as_json else [_pause_line(pause) for pause in pauses]
    if texts:
        print_line("")
    for text in texts:
        print_wrapped(text)


def _pause_line(pause: Pause) -> str:
    return pause_text(pause) + (": `headgate resume --all` resumes it" if pause.key == EVERYTHING_PAUSED else "")


def pause_text(pause: Pause) -> str:
    """A pause on one line."""
    return f"{pause.subject} is {pause_details(pause)}"


def _drained(forecast: Forecast | None) -> str:
    if forecast is None:
        return ""
    return "unknown" if forecast.seconds is None else f"in about {format_duration(forecast.seconds)}"


@commands.add("set")
def set_lane(
    command: Command,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lane; created if it does not exist.")],
    capacity: Annotated[str, typer.Option(metavar="N|none", help="Maximum number of tasks that run at once.")],
) -> None:
    """Change the capacity of a lane.

    It takes effect at once; running tasks continue.

    \b
    headgate lanes set mail --capacity 2
    """  # fmt: skip
    if capacity != "none" and not (capacity.isascii() and capacity.isdigit()):
        raise Invalid(f"--capacity must be a whole number or none, not {capacity!r}")
    limit = None if capacity == "none" else int(capacity)
    with noting_new_lane(command.store, name):
        command.store.lanes.set_capacity(name, limit, actor=command.actor)
    command.answer(
        {"name": name, "capacity": limit}, f"lane {name}: {'no limit' if limit is None else f'{limit} at a time'}"
    )


@commands.add("reset")
def reset_lane(command: Command, name: LaneName) -> None:
    """Undo a change by a person: programs and settings apply again.

    The capacity stays until a program or settings that declare it start.

    \b
    headgate lanes reset mail
    """  # fmt: skip
    command.store.lanes.reset(name, actor=command.actor)
    command.answer({"name": name, "source": "default"}, f"lane {name}: the next declaration sets its capacity")


@commands.add("remove")
def remove_lane(command: Command, name: LaneName) -> None:
    """Remove a lane, its capacity and its pause.

    It is refused while the lane has open tasks. A later submit to the lane, or a
    program or settings that declare it, creates it again.

    \b
    headgate lanes remove mail
    """  # fmt: skip
    command.store.lanes.remove(name, actor=command.actor)
    command.answer({"name": name, "removed": True}, f"lane {name} removed")
