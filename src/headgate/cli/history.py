"""`headgate purge`: remove finished tasks."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.confirm import Yes, confirm
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State
from headgate.duties.archive import DAY_SECONDS, retention_days
from headgate.duties.purging import purge_now
from headgate.store.db.pages import EXACT_UP_TO

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
    yes: Yes = False,
) -> None:
    """Remove tasks that ended long ago, with all their records.

    They are counted, and you are asked first. Dead tasks stay: they wait for a
    person.

    \b
    headgate purge
    headgate purge --older-than 1 --status succeeded --yes
    """  # fmt: skip
    states = set(status or FINAL)
    if not states <= FINAL:
        raise Invalid(f"only finished tasks can be purged: --status is one of {', '.join(sorted(FINAL))}")
    days = {
        state: retention_days(command.settings, state) if older_than is None else older_than
        for state in State
        if state in states
    }
    if not yes and (found := _count(command, days)):
        confirm(f"Remove {found}?")
    purged, _ = purge_now(command.store, days)
    command.store.events.record("purged", json.dumps({"purged": purged}), actor=command.actor)
    counts = ", ".join(f"{count} {state}" for state, count in purged.items() if count)
    command.answer({"purged": purged}, f"purged {counts}" if counts else "nothing to purge")


def _count(command: Command, days: Mapping[State, float]) -> str:
    """How many tasks are old enough, in all and by state; empty if there are none."""
    seconds = {state: each * DAY_SECONDS for state, each in days.items()}
    counts = command.store.history.count(seconds)
    states = ", ".join(f"{_number(count)} {state}" for state, count in counts.items() if count)
    total, some_more = sum(counts.values()), any(count > EXACT_UP_TO for count in counts.values())
    tasks = "task" if total == 1 else "tasks"
    return f"{'more than ' if some_more else ''}{total:,} {tasks} ({states})" if total else ""


def _number(count: int) -> str:
    return f"more than {EXACT_UP_TO:,}" if count > EXACT_UP_TO else f"{count:,}"
