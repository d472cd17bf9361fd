"""`headgate lanes`: how much of each lane is in use, and how much may be."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.formatting import format_duration
from headgate.cli.options import Json, Url
from headgate.cli.output import forecast_json, note, print_json, print_table, say
from headgate.cli.stores import existing_store
from headgate.core.errors import Invalid
from headgate.core.forecast import Forecast
from headgate.store.reading.lane_report import LaneReport
from headgate.store.store import Store

commands = typer.Typer(rich_markup_mode=None)


@commands.callback(invoke_without_command=True)
def show_lanes(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show every lane; change its capacity.

    What runs and what is queued is counted now (queued up to 10,000), the rest every few seconds. DRAINED is when what
    runs and waits will likely have ended, without what comes later.

    \b
    headgate lanes
    headgate lanes set requires_cookie --capacity 2
    headgate lanes set requires_cookie --capacity none
    """  # fmt: skip
    if context.invoked_subcommand is not None:
        return
    with existing_store(url) as store:
        all_paused = store.lanes.everything_paused()
        lanes = store.lane_reports.all()
    if as_json:
        for lane in lanes:
            print_json(asdict(lane) | {"drained": forecast_json(lane.drained)})
        return
    print_table(
        ("LANE", "CAPACITY", "RUNNING", "QUEUED", "BLOCKED", "LATER", "DRAINED", "STATE"),
        [_row(lane) for lane in lanes],
        right=("CAPACITY", "RUNNING", "QUEUED", "BLOCKED", "LATER"),
    )
    if all_paused:
        say("\neverything is paused: `headgate resume --all` lets it go on")


@contextmanager
def noting_new_lane(store: Store, name: str | None) -> Iterator[None]:
    """Note if the block makes the lane: naming a lane makes it, so this shows a misspelled name."""
    is_new = name is not None and name not in {lane.name for lane in store.lanes.all()}
    yield
    if is_new:
        note(f"lane {name} is new")


def _row(lane: LaneReport) -> tuple[Any, ...]:
    capacity = "no limit" if lane.capacity is None else lane.capacity
    queued = lane.queued if lane.queued_exact else f"about {lane.queued}"
    state = "paused" if lane.paused else "going on"
    return (lane.name, capacity, lane.running, queued, lane.blocked, lane.later, _drained(lane.drained), state)


def _drained(forecast: Forecast | None) -> str:
    if forecast is None:
        return ""
    return "unknown" if forecast.seconds is None else f"in about {format_duration(forecast.seconds)}"


@commands.command("set")
def set_lane(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The lane; made if it is not there.", show_default=False)],
    capacity: Annotated[
        str, typer.Option(metavar="N|none", help="How many may run at once; none is any number.", show_default=False)
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change a lane's capacity, at once. What runs already may go on.

    \b
    headgate lanes set requires_cookie --capacity 2
    """  # fmt: skip
    if capacity != "none" and not (capacity.isascii() and capacity.isdigit()):
        raise Invalid("--capacity is a whole number, or none")
    limit = None if capacity == "none" else int(capacity)
    with existing_store(url) as store, noting_new_lane(store, name):
        store.lanes.set_capacity(name, limit)
    if as_json:
        print_json({"name": name, "capacity": limit})
    else:
        say(f"lane {name}: " + ("no limit" if limit is None else f"{limit} at once"))
