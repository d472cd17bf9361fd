"""Asking before something that cannot be undone is done to many."""

import sys
from typing import Annotated

import typer

from headgate.cli.formatting import printable
from headgate.core.errors import Invalid

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")]


def confirm(question: str) -> None:
    """Ask on a terminal, and end the command at a no; elsewhere raise `Invalid`, since only `--yes` can tell."""
    if not sys.stdin.isatty():
        raise Invalid(f"{question} This cannot be undone, and there is no terminal to ask: give --yes")
    typer.confirm(f"{printable(question)} This cannot be undone.", abort=True, err=True)
