"""`headgate limits`: how often tasks may start, and how many may use a resource at once."""

from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.core.errors import Invalid
from headgate.core.limits import Rate
from headgate.store.catalog.lanes import BY_PERSON

commands = CommandGroup()
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="lane:NAME, type:CODE or key:NAME; with --capacity a resource.")
]


@commands.default
def show_limits(command: Command) -> None:
    """Show rate limits and resources, or change them.

    A rate limit is named lane:NAME, type:CODE or key:NAME and applies across all
    processes and tenants; key:* applies to each key without a limit of its own, for
    each tenant separately. For the capacity of lanes see `headgate lanes`.

    \b
    headgate limits
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set printer --capacity 1
    headgate limits lift key:openai
    """  # fmt: skip
    limits = [_rate(each.name, each.limit, each.source) for each in command.store.rate_limits.all()]
    limits += [_resource(each.name, each.capacity, each.source) for each in command.store.resources.all()]
    headers = ("NAME", "LIMIT", "SOURCE")
    command.answer_all(limits, lambda limit: limit, headers, lambda each: (each["name"], _text(each), each["source"]))


def _rate(name: str, limit: Rate | None, source: str = BY_PERSON) -> dict[str, Any]:
    rate, burst = (None, None) if limit is None else (limit.rate, limit.burst)
    return {"name": name, "rate": rate, "burst": burst, "source": source}


def _resource(name: str, capacity: int, source: str = BY_PERSON) -> dict[str, Any]:
    return {"name": name, "capacity": capacity, "source": source}


def _text(limit: dict[str, Any]) -> str:
    if "capacity" in limit:
        return f"{limit['capacity']} at a time"
    if limit["rate"] is None:
        return "no limit"
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
        command.store.rate_limits.set(name, Rate(rate, burst), actor=command.actor)
    elif capacity is not None and rate is None and burst is None:
        limit = _resource(name, capacity)
        command.store.resources.set(name, capacity, actor=command.actor)
    else:
        raise Invalid("give --rate and --burst for a rate limit, or --capacity for a resource")
    command.answer(limit, f"{name}: {_text(limit)}")


@commands.add("lift")
def lift_limit(command: Command, name: Name) -> None:
    """Have no rate limit from now on, whatever programs and settings declare.

    \b
    headgate limits lift key:openai
    """  # fmt: skip
    command.store.rate_limits.set(name, None, actor=command.actor)
    command.answer(_rate(name, None), f"{name}: no limit")
