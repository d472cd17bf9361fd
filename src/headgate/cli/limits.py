"""`headgate limits`: how often tasks may start, and how many may use a resource at once."""

from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.core.errors import Invalid
from headgate.core.limits import Rate

commands = CommandGroup()
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="lane:NAME, type:CODE or key:NAME; with --capacity a resource.")
]


@commands.default
def show_limits(command: Command) -> None:
    """Show rate limits and resources, or change them.

    A rate limit is named lane:NAME, type:CODE or key:NAME and applies across all
    processes. For the capacity of lanes see `headgate lanes`.

    \b
    headgate limits
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set printer --capacity 1
    headgate limits lift key:openai
    """  # fmt: skip
    limits = [_rate(bucket.name, bucket.limit) for bucket in command.store.rate_limits.all()]
    limits += [_resource(resource.name, resource.capacity) for resource in command.store.resources.all()]
    command.answer_all(limits, lambda limit: limit, ("NAME", "LIMIT"), lambda limit: (limit["name"], _text(limit)))


def _rate(name: str, limit: Rate) -> dict[str, Any]:
    return {"name": name, "rate": limit.rate, "burst": limit.burst}


def _resource(name: str, capacity: int | None) -> dict[str, Any]:
    return {"name": name, "capacity": capacity}


def _text(limit: dict[str, Any]) -> str:
    if "capacity" in limit:
        return f"{limit['capacity']} at a time"
    return f"{limit['rate']:g} per second, bursts of {limit['burst']}"


@commands.add("set")
def set_limit(
    command: Command,
    name: Name,
    rate: Annotated[float | None, typer.Option(help="Maximum starts per second.")] = None,
    burst: Annotated[int | None, typer.Option(help="Maximum starts at once, after a pause.")] = None,
    capacity: Annotated[int | None, typer.Option(help="Maximum number of tasks that use the resource at once.")] = None,
) -> None:
    """Set a limit, for all processes; it is created if it does not exist.

    \b
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set printer --capacity 1
    """  # fmt: skip
    if rate is not None and burst is not None and capacity is None:
        limit = _rate(name, Rate(rate, burst))
        command.store.rate_limits.set(name, Rate(rate, burst))
    elif capacity is not None and rate is None and burst is None:
        limit = _resource(name, capacity)
        command.store.resources.set(name, capacity)
    else:
        raise Invalid("give --rate and --burst for a rate limit, or --capacity for a resource")
    command.answer(limit, f"{name}: {_text(limit)}")


@commands.add("lift")
def lift_limit(command: Command, name: Name) -> None:
    """Remove a rate limit."""
    command.store.rate_limits.set(name, None)
    command.answer({"name": name, "rate": None, "burst": None}, f"{name}: no limit")
