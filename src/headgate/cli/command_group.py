"""Commands under one name, whose shared options are dataclasses."""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, TypeVar

import typer

from headgate.cli.command import Command
from headgate.cli.exits import naming_options
from headgate.core.errors import HeadgateError

Function = TypeVar("Function", bound=Callable[..., None])


class CommandGroup(typer.Typer):
    """A group of commands. A parameter that is a dataclass stands for its fields, which are options by themselves."""

    def __init__(self) -> None:
        super().__init__(rich_markup_mode=None)

    def add(self, name: str) -> Callable[[Function], Function]:
        """Make a function the command `name`; the function itself stays as it is."""

        def register(function: Function) -> Function:
            self.command(name)(with_options(function))
            return function

        return register

    def default(self, function: Callable[[Command], None]) -> Callable[[Command], None]:
        """Make a function what the group does without a subcommand; its docstring is the group's help."""

        @wraps(function)
        def show(command: Command) -> None:
            if command.context.invoked_subcommand is None:
                function(command)

        self.callback(invoke_without_command=True)(with_options(show))
        return function


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as Typer reads it: its own parameters, then the fields of its dataclasses, the first one's last."""
    parameters = list(inspect.signature(function).parameters.values())
    own = [each for each in parameters if not is_dataclass(each.annotation)]
    groups = [each for each in reversed(parameters) if is_dataclass(each.annotation)]
    fields = {each.name: inspect.signature(each.annotation).parameters for each in groups}

    @wraps(function)
    def command(**values: Any) -> None:
        for group in groups:
            values[group.name] = group.annotation(**{name: values.pop(name) for name in fields[group.name]})
        try:
            function(**values)
        except HeadgateError as error:
            raise naming_options(error, values["command"].context.command.params) from error.__cause__

    options = [*own, *(field for group in fields.values() for field in group.values())]
    by_keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    command.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in options}
    return command
