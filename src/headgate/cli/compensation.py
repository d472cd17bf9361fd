"""`headgate compensation`: the search for starts that agents never confirmed."""

from dataclasses import asdict

import typer

from headgate.cli.formatting import format_time
from headgate.cli.options import Json, Url
from headgate.cli.output import print_json, print_table, say
from headgate.cli.stores import existing_store
from headgate.duties.compensate import trigger
from headgate.settings import load
from headgate.store.events.audit import PERSON
from headgate.store.execution.compensation import PollingStatus

commands = typer.Typer(rich_markup_mode=None)


@commands.callback(invoke_without_command=True)
def show_compensation(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show how the search for lost starts stands; look for them now.

    A task that is assigned to an agent is handed over, and runs when the agent confirms the start. Where that does not
    come, the task is put through the agent's start queue again.

    \b
    headgate compensation
    headgate compensation trigger
    """  # fmt: skip
    if context.invoked_subcommand is not None:
        return
    with existing_store(url) as store:
        status = store.compensation.status(load().compensation)
    if as_json:
        print_json(asdict(status))
    else:
        _show(status)


@commands.command("trigger")
def trigger_now(url: Url = None, as_json: Json = False) -> None:
    """Look for lost starts now, and go on from the base interval.

    \b
    headgate compensation trigger
    """  # fmt: skip
    settings = load().compensation
    with existing_store(url) as store:
        found = trigger(store, settings, PERSON)
        status = store.compensation.status(settings)
    if as_json:
        print_json(asdict(status) | {"found": found})
        return
    say("found nothing" if not found else f"found {found}: handed over again, each when its agent may start it")
    _show(status)


def _show(status: PollingStatus) -> None:
    print_table(
        ("", ""),
        [
            ("interval", f"{status.interval_seconds:g} s"),
            ("multiplier", status.multiplier),
            ("queue size", status.queue_size),
            ("skips", status.skips),
            ("last poll", "never" if status.last_poll is None else format_time(status.last_poll)),
            ("next poll", "nobody polls yet" if status.next_poll is None else format_time(status.next_poll)),
        ],
    )
