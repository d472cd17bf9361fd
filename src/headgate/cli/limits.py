"""`headgate limits`: how often tasks may start, and how many may use a resource at once."""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.lanes import pause_details
from headgate.core.errors import Invalid
from headgate.core.limits import DEFAULT_KEY, PREFIXES, LimitSource, Rate
from headgate.core.pause import PauseScope
from headgate.store.catalog.rate_limits import RateLimits
from headgate.store.catalog.resources import Resources

commands = CommandGroup()
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="lane:NAME, type:CODE or key:NAME; with --capacity a resource.")
]
LimitName = Annotated[
    str, typer.Argument(metavar="NAME", help="lane:NAME, type:CODE or key:NAME of a rate limit, or a resource.")
]


@commands.default
def show_limits(command: Command) -> None:
    """Show rate limits and resources, change them, or remove them.

    A rate limit is named lane:NAME, type:CODE or key:NAME and applies across all
    processes and tenants; key:* applies to each key without a limit of its own, for
    each tenant separately. For the capacity of lanes see `headgate lanes`. SOURCE is
    what set a limit: person, settings, program, pack or default.

    \b
    headgate limits
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set printer --capacity 1
    headgate limits lift key:openai
    headgate limits reset key:openai
    headgate limits remove key:openai
    """  # fmt: skip
    pauses = {f"key:{p.name}": p for p in command.store.pauses.active() if p.scope is PauseScope.KEY}
    rates = {each.name: each for each in command.store.rate_limits.all()}
    for name in pauses.keys() - rates.keys():  # it has the limit of every key
        rates[name] = replace(rates[DEFAULT_KEY], name=name)
    limits = [_rate(each.name, each.limit, each.source) for _, each in sorted(rates.items())]
    limits += [_resource(each.name, each.capacity, each.source) for each in command.store.resources.all()]

    def encode(limit: dict[str, Any]) -> dict[str, Any]:
        pause = pauses.get(limit["name"])
        return limit | {"pause": None if pause is None else asdict(pause)}

    def row(limit: dict[str, Any]) -> tuple[str, ...]:
        pause = pauses.get(limit["name"])
        return (limit["name"], _text(limit), limit["source"], "" if pause is None else pause_details(pause))

    command.answer_all(limits, encode, ("NAME", "LIMIT", "SOURCE", "STATE"), row)


def _rate(name: str, limit: Rate | None, source: str = LimitSource.PERSON) -> dict[str, Any]:
    rate, burst = (None, None) if limit is None else (limit.rate, limit.burst)
    return {"name": name, "rate": rate, "burst": burst, "source": source}


def _resource(name: str, capacity: int, source: str = LimitSource.PERSON) -> dict[str, Any]:
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
    """Remove a rate limit, whatever programs and settings declare.

    \b
    headgate limits lift key:openai
    """  # fmt: skip
    command.store.rate_limits.set(name, None, actor=command.actor)
    command.answer(_rate(name, None), f"{name}: no limit")


@commands.add("reset")
def reset_limit(command: Command, name: LimitName) -> None:
    """Let programs and settings set a limit again.

    The limit stays until a program or a setting that declares it starts.

    \b
    headgate limits reset key:openai
    """  # fmt: skip
    _of(command, name).reset(name, actor=command.actor)
    command.answer({"name": name, "source": "default"}, f"{name}: the next declaration sets it")


@commands.add("remove")
def remove_limit(command: Command, name: LimitName) -> None:
    """Remove a rate limit, or a resource that no task type uses.

    A key without a limit of its own has that of key:*, and key:* itself goes back to
    10 per second. A program or settings that declare the limit set it again when
    they start; `headgate limits lift` has no limit for good.

    \b
    headgate limits remove key:openai
    headgate limits remove printer
    """  # fmt: skip
    _of(command, name).remove(name, actor=command.actor)
    command.answer({"name": name, "removed": True}, f"{name} removed")


def _of(command: Command, name: str) -> RateLimits | Resources:
    return command.store.rate_limits if name.startswith(PREFIXES) else command.store.resources
