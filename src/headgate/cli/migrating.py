"""`headgate migrate`: bring the schema of a store up to date."""

from typing import Annotated

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.options import PackNames
from headgate.cli.output import print_json, print_line
from headgate.pack import find_packs
from headgate.pack_setup import migrate_packs, pack_plan
from headgate.store.store import configured_store

commands = CommandGroup()


@commands.add("migrate")
def migrate(
    command: Command,
    plan: Annotated[bool, typer.Option("--plan", help="Show the steps, and change nothing.")] = False,
    pack: PackNames = None,
) -> None:
    """Create the store, or bring its schema up to date.

    That includes the tables of packs.

    \b
    headgate migrate --plan
    headgate migrate
    """  # fmt: skip
    packs = find_packs([*command.settings.pack_names, *(pack or ())])
    with configured_store(command.settings) as store:
        steps = store.migration_plan() if plan else store.migrate()
        if not plan or not steps:  # the steps of packs follow those of the store
            steps += pack_plan(store, packs) if plan else migrate_packs(store, packs)
    if command.as_json:
        print_json({"planned" if plan else "applied": [step.name for step in steps]})
        return
    for step in steps:
        print_line(f"would apply {step.name}\n{step.text}" if plan else f"applied {step.name}")
    if not steps:
        print_line("up to date")
