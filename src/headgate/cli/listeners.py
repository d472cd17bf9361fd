"""`headgate listeners`: who listens to events, and how far behind each is."""

from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_duration, format_time
from headgate.environment import utc_now
from headgate.store.events.subscriptions import Subscription

commands = CommandGroup()


@commands.default
def show_listeners(command: Command) -> None:
    """Show the listeners of events; remove unused ones.

    Programs declare them with @app.on. Events that a listener has not handled yet
    stay in the store until it has been unused for 7 days.

    \b
    headgate listeners
    headgate listeners remove send_mail
    """  # fmt: skip
    list_listeners(command)


@commands.add("list")
def list_listeners(command: Command) -> None:
    """List all listeners: handled events, and how far behind."""
    command.answer_all(
        command.store.subscriptions.all(),
        listener_json,
        ("NAME", "HANDLED", "FAILED", "SKIPPED", "BEHIND", "STATE"),
        _row,
        right=("HANDLED", "FAILED", "SKIPPED"),
        none="no listeners",
    )


@commands.add("remove")
def remove_listener(
    command: Command, name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the listener.")]
) -> None:
    """Remove a listener.

    A process that still uses it starts over with new events.
    """
    command.store.subscriptions.remove(name, actor=command.actor)
    command.answer({"name": name, "removed": True}, f"listener {name} removed")


def listener_json(found: Subscription) -> dict[str, Any]:
    """A listener for programs."""
    names = ("name", "handled", "failed", "skipped", "tries", "holder", "used_at", "in_use", "waiting_since")
    return {name: getattr(found, name) for name in names}


def _row(found: Subscription) -> tuple[Any, ...]:
    behind = "" if found.waiting_since is None else format_duration(found.lag_seconds(utc_now()))
    return (found.name, found.handled, found.failed, found.skipped, behind, _state(found))


def _state(found: Subscription) -> str:
    if not found.in_use:
        return f"unused since {format_time(found.used_at)}"
    if found.holder is None:
        return f"idle since {format_time(found.used_at)}"
    return f"retrying, try {found.tries + 1}" if found.tries else f"called by {found.holder}"
