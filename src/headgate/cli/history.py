"""`headgate purge`: remove finished tasks."""

import json
from typing import Annotated

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State
from headgate.duties.archive import retention_days
from headgate.duties.purging import purge_now

commands = CommandGroup()


@commands.add("purge")
def purge(
    command: Command,
    older_than: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="DAYS",
            help="Remove tasks that ended more than this many days ago.  [default: the retention]",
        ),
    ] = None,
    status: Annotated[
        list[State] | None,
        typer.Option(metavar="STATE", help=f"One of {', '.join(sorted(FINAL))}; can be repeated.  [default: all]"),
    ] = None,
) -> None:
    """Remove tasks that ended long ago, with all their records.

    Dead tasks stay: they wait for a person.

    \b
    headgate purge
    headgate purge --older-than 1 --status succeeded
    """  # fmt: skip
    states = set(status or FINAL)
    if not states <= FINAL:
        raise Invalid(f"only finished tasks can be purged: --status is one of {', '.join(sorted(FINAL))}")
    days = {
        state: retention_days(command.settings, state) if older_than is None else older_than
        for state in State
        if state in states
    }
    purged, _ = purge_now(command.store, days)
    command.store.events.record("purged", json.dumps({"purged": purged}), actor=command.actor)
    counts = ", ".join(f"{count} {state}" for state, count in purged.items() if count)
    command.answer({"purged": purged}, f"purged {counts}" if counts else "nothing to purge")
