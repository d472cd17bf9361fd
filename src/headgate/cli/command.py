"""What every command is given: its store, and one way to answer, for people or as JSON."""

import os
import pwd
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import typer

from headgate.cli.exits import DONE, code_of, naming_options, print_error
from headgate.cli.options import Json, Url
from headgate.cli.output import print_fields, print_json, print_line, print_note, print_table
from headgate.cli.stores import existing_store
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings, load
from headgate.store.events.audit import Actor
from headgate.store.store import Store

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Command:
    """One run of a command: the store it works on, and how it answers."""

    context: typer.Context
    url: Url = None
    as_json: Json = False

    def __post_init__(self) -> None:
        """Options given to the group apply to its commands too: `headgate keys --json list`."""
        group = {} if self.context.parent is None else self.context.parent.params
        self.url = self.url or group.get("url")
        self.as_json = self.as_json or group.get("as_json", False)

    @cached_property
    def settings(self) -> Settings:
        return load({"url": self.url})

    @cached_property
    def actor(self) -> str:
        """Who the audit says it was: the user of this machine."""
        return Actor(f"os:{_user_name()}", socket.gethostname())

    @cached_property
    def store(self) -> Store:
        """The existing store, opened on first use (so after checks of the input) and closed when the command ends."""
        return self.context.with_resource(existing_store(self.settings))

    @cached_property
    def pack_store(self) -> Store:
        """The store, with what the packs that are on need in it: for their own commands."""
        set_up(self.store, find_packs(self.settings.pack_names))
        return self.store

    def answer(self, value: Any, text: str) -> None:
        """Print one record: JSON for programs, a line for people."""
        if self.as_json:
            print_json(value)
        else:
            print_line(text)

    def answer_fields(self, value: Any, fields: dict[str, Any]) -> None:
        """Print one record: JSON for programs, a field per line for people."""
        if self.as_json:
            print_json(value)
        else:
            print_fields(fields)

    def answer_all(
        self,
        items: Sequence[Item],
        encode: Callable[[Item], Any],
        headers: Sequence[str],
        row: Callable[[Item], Sequence[Any]],
        *,
        right: Sequence[str] = (),
        drop: Sequence[str] = (),
        wrap: bool = False,
        below: bool = False,
        none: str = "",
        more: int | None = None,
    ) -> None:
        """Print many records: a JSON document per line, or a table.

        For people, `none` replaces an empty table, and `more` is the cursor of the next page; on a terminal that is
        too narrow, `print_table` says what becomes of long cells.
        """
        if self.as_json:
            for item in items:
                print_json(encode(item))
        elif none and not items:
            print_line(none)
        else:
            print_table(headers, map(row, items), right=right, drop=drop, wrap=wrap, below=below)
            if more is not None:
                print_note(f"more: --cursor {more}")

    def for_each(
        self,
        items: Iterable[Item],
        act: Callable[[Item], Result],
        encode: Callable[[Result], Any],
        describe: Callable[[Result], str],
        *,
        none: str = "",
    ) -> None:
        """Act on one item after the other. The first error decides the exit code and does not stop the rest."""
        code, empty = DONE, True
        for item in items:
            empty = False
            try:
                result = act(item)
            except (Refused, NotFound, Invalid) as error:
                print_error(naming_options(error, self.context.command.params))
                code = code or code_of(error)
            else:
                self.answer(encode(result), describe(result))
        if empty and none and not self.as_json:
            print_line(none)
        if code:
            raise typer.Exit(code)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name  # what the environment says can be anything
    except KeyError:
        return str(os.getuid())
