"""`headgate compensation`: the search for starts that agents never confirmed."""

from dataclasses import asdict

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time
from headgate.duties.compensate import trigger

commands = CommandGroup()


@commands.default
def show_compensation(command: Command) -> None:
    """Show the search for lost starts, or search now.

    A task assigned to an agent runs once the agent confirms its start. Without that
    confirmation it goes through the agent's start queue again.

    \b
    headgate compensation
    headgate compensation trigger
    """  # fmt: skip
    _show(command, None)


@commands.add("trigger")
def trigger_now(command: Command) -> None:
    """Search for lost starts now, and reset the interval."""
    _show(command, trigger(command.store, command.settings.compensation, command.actor))


def _show(command: Command, found: int | None) -> None:
    """Print the state of the search, and how many lost starts it just found if it was triggered."""
    status = command.store.compensation.status(command.settings.compensation)
    fields = {
        "found": found,
        "interval": f"{status.interval_seconds:g} s",
        "multiplier": status.multiplier,
        "queue size": status.queue_size,
        "skips": status.skips,
        "last poll": "never" if status.last_poll is None else format_time(status.last_poll),
        "next poll": "none: no process runs the background duties"
        if status.next_poll is None
        else format_time(status.next_poll),
    }
    command.answer_fields(asdict(status) | ({} if found is None else {"found": found}), fields)
