"""`headgate simulate`: run many histories full of crashes, and check that no promise is broken."""

import importlib
import logging
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_bool
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from headgate.cli.command_group import CommandGroup
from headgate.cli.exits import FAILED, INTERRUPTED
from headgate.cli.options import Json
from headgate.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from headgate.simulation.campaign import Campaign, Failure

commands = CommandGroup()


@commands.add("simulate")
def simulate(
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of histories, one per seed.")] = 100,
    first: Annotated[int, typer.Option(min=0, metavar="SEED", help="First seed.")] = 1,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Store: sqlite:// in memory, or postgresql://… in its own schema.")
    ] = "sqlite://",
    processes: Annotated[int, typer.Option(min=1, metavar="P", help="Number of processes.")] = 1,
    as_json: Json = False,
) -> None:
    """Simulate crashes, and check that no promise is broken.

    Clients, workers and duties run in one process and crash between any two
    statements.

    The clock is virtual, so nothing waits. Every third history has a broker between
    duties and workers, which loses and repeats messages. A checker reads what each
    history left behind. For a broken promise the shortest history that breaks it is printed,
    and the exit code is 1. A seed always gives the same history. Ctrl-C stops
    after the histories in progress and prints their results.

    \b
    headgate simulate --seeds 500
    headgate simulate --first 4711 --seeds 1
    headgate simulate --seeds 50 --store postgresql://localhost/postgres
    """  # fmt: skip
    logging.disable(logging.CRITICAL)  # killed and frozen processes are expected to complain
    hidden = as_json or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as bar, _stop_on_interrupt() as stop:
        row = bar.add_task("histories", total=seeds)
        campaign: Campaign = _simulation().simulate_on(
            store, range(first, first + seeds), processes, lambda done: bar.update(row, completed=done.histories), stop
        )
    interrupted = stop.value and campaign.histories < seeds
    if as_json:
        print_json(_campaign_json(campaign))
    elif interrupted:
        _show_interrupted(campaign)
    else:
        _show(campaign)
    if interrupted or campaign.failures:
        raise typer.Exit(INTERRUPTED if interrupted else FAILED)


def _simulation() -> Any:
    """Loaded by the one command that needs it: it is a tenth of what the others would load."""
    return importlib.import_module("headgate.simulation.campaign")


@contextmanager
def _stop_on_interrupt() -> Iterator[c_bool]:
    """A flag that the first Ctrl-C sets; the second one stops at once."""
    stop: c_bool = _simulation().stop_flag()

    def on_interrupt(*_: object) -> None:
        stop.value = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _show_interrupted(campaign: "Campaign") -> None:
    broken = ", ".join(f"seed {failure.seed}" for failure in campaign.failures)
    histories = f"{campaign.histories:,} {'history' if campaign.histories == 1 else 'histories'}"
    print_line(f"interrupted after {histories}: {f'{broken} broke a promise' if broken else 'none broke a promise'}")
    for failure in campaign.failures:
        _show_failure(failure)


def _campaign_json(campaign: "Campaign") -> dict[str, object]:
    return {
        "histories": campaign.histories,
        "with_broker": campaign.with_broker,
        "steps": campaign.steps,
        "fewest_steps": campaign.fewest_steps,
        "tasks": campaign.tasks,
        "faults": dict(campaign.faults),
        "violations": [
            {"seed": failure.seed, "invariant": broken.invariant, "text": broken.text, "task_id": broken.task_id}
            for failure in campaign.failures
            for broken in failure.violations
        ],
    }


def _show(campaign: "Campaign") -> None:
    faults = sum(campaign.faults.values())
    counted = (
        campaign.histories, campaign.with_broker, campaign.steps, campaign.tasks, faults, campaign.violations
    )  # fmt: skip
    names = ("HISTORIES", "WITH BROKER", "STEPS", "TASKS", "FAULTS", "VIOLATIONS")
    print_table(names, [[f"{number:,}" for number in counted]], right=names)
    print_line("")
    kinds, where = Counter[str](), dict[str, Counter[str]]()
    for fault, times in campaign.faults.items():
        kind, _, place = fault.partition(": ")
        kinds[kind] += times
        where.setdefault(kind, Counter())[place] += times
    print_table(
        ("FAULT", "TIMES", "WHERE"),
        [(kind, f"{times:,}", _places(where[kind])) for kind, times in kinds.most_common()],
        right=("TIMES",),
    )
    for failure in campaign.failures:
        _show_failure(failure)


def _places(places: Counter[str]) -> str:
    return ", ".join(f"{place} {times:,}" for place, times in places.most_common() if place)


def _show_failure(failure: "Failure") -> None:
    history = failure.shortest
    print_line(f"\nseed {failure.seed} breaks a promise:")
    for broken in failure.violations[:10]:
        print_line(f"  {broken.invariant}  {broken.text}")
    print_line(f"\nthe shortest history that breaks it ({len(history.plan.moves)} moves):")
    for move in history.plan.moves:
        print_line(f"  {move}")
    print_line("\nwhat happened:")
    for row in history.evidence.rows:
        if row.task_id is not None:
            change = f"{row.before or 'nothing'} to {row.after}" if row.seq else row.detail or ""
            print_line(f"  {row.at:7.3f}  task {row.task_id} {row.kind}: {change}  ({row.actor})")
