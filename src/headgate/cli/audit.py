"""`headgate audit`: who did what."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_time, one_line
from headgate.cli.options import TIME_PAST, Limit
from headgate.cli.pages import collect_pages
from headgate.cli.times import time_past
from headgate.core.events import Act
from headgate.store.events.acts import ActFilter

commands = CommandGroup()


@commands.add("audit")
def show_audit(
    command: Command,
    actor: Annotated[str | None, typer.Option(metavar="NAME", help="Filter by actor: key:3, os:alice, system.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Filter by act: paused, type_changed, …")] = None,
    subject: Annotated[
        str | None,
        typer.Option("--object", metavar="OBJECT", help="Filter by object: task:5, lane:mail; lane for all lanes."),
    ] = None,
    since: Annotated[
        Any, typer.Option(metavar="TIME", parser=time_past("--since"), help=f"Acts at or after this time: {TIME_PAST}.")
    ] = None,
    until: Annotated[
        Any, typer.Option(metavar="TIME", parser=time_past("--until"), help="Acts up to this time, written as --since.")
    ] = None,
    cursor: Annotated[int | None, typer.Option(metavar="ID", help="Continue after this act.")] = None,
    limit: Limit = 50,
) -> None:
    """Show who did what, newest first.

    That includes what the system did on its own.

    \b
    headgate audit
    headgate audit --actor os:alice --since 2026-03-01
    headgate audit --object lane:mail --kind capacity_changed
    """  # fmt: skip
    wanted = ActFilter(actor, kind, subject, since, until)
    acts, more = collect_pages(
        lambda after, size: command.store.acts.find(wanted, cursor=after, limit=size), cursor, limit
    )
    command.answer_all(
        acts,
        asdict,
        ("TIME", "ACTOR", "ACT", "DETAIL"),
        _row,
        below=True,
        none="no acts",
        more=more,
    )


def _row(act: Act) -> tuple[Any, ...]:
    states = {"status": {"old": act.before, "new": act.after}} if act.before != act.after else {}
    parts = [f"{name}: {_change(sides)}" for name, sides in (states | dict(act.changes)).items()]
    parts += [f"reason: {act.reason}"] if act.reason and "reason" not in act.changes else []
    parts += [f"from {act.address}"] if act.address else []
    return (format_time(act.at), act.actor, f"{act.kind} {act.object}", one_line(", ".join(parts)))


def _change(sides: Mapping[str, Any]) -> str:
    return " → ".join(_value(sides[side]) for side in ("old", "new") if side in sides)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
