"""`headgate limits`: how often tasks may start, and how many may use a resource at once."""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.lanes import print_pauses
from headgate.core.errors import Invalid
from headgate.core.limits import DEFAULT_KEY, DISK_WRITER, NO_LIMIT, PREFIXES, LimitSource, Rate
from headgate.core.pause import PauseScope
from headgate.store.catalog.rate_limits import RateLimits
from headgate.store.catalog.resources import Resources
from headgate.store.reading.resource_use import ResourceUse

commands = CommandGroup()
BUILT_IN = {DEFAULT_KEY: "for each other key", DISK_WRITER: "for heavy disk writes"}
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
    headgate limits set key:openai --rate none
    headgate limits reset key:openai
    headgate limits remove key:openai
    """  # fmt: skip
    pauses = {f"key:{p.name}": p for p in command.store.pauses.active() if p.scope is PauseScope.KEY}
    rates = {each.name: each for each in command.store.rate_limits.all()}
    for name in pauses.keys() - rates.keys():  # it has the limit of every key
        rates[name] = replace(rates[DEFAULT_KEY], name=name)
    limits = [_rate(each.name, each.limit, each.source) for _, each in sorted(rates.items())]
    limits += [_resource_in_use(use) for use in command.store.holds.uses().values()]

    def encode(limit: dict[str, Any]) -> dict[str, Any]:
        pause = pauses.get(limit["name"])
        return limit | {"pause": None if pause is None else asdict(pause)}

    def row(limit: dict[str, Any]) -> tuple[str, ...]:
        state = "paused" if limit["name"] in pauses else _use_text(limit)
        return (limit["name"], _text(limit), limit["source"], state)

    command.answer_all(limits, encode, ("NAME", "LIMIT", "SOURCE", "STATE"), row, drop=("SOURCE", "STATE"))
    print_pauses(command, pauses.values())


def _rate(name: str, limit: Rate | None, source: str = LimitSource.PERSON) -> dict[str, Any]:
    rate, burst = (None, None) if limit is None else (limit.rate, limit.burst)
    return {"name": name, "rate": rate, "burst": burst, "source": source}


def _resource(name: str, capacity: int, source: str = LimitSource.PERSON) -> dict[str, Any]:
    return {"name": name, "capacity": capacity, "source": source}


def _resource_in_use(use: ResourceUse) -> dict[str, Any]:
    limit = use.limit_for(None)
    found = _resource(use.resource.name, use.resource.capacity, use.resource.source)
    return found | {"running": limit.running, "waiting": limit.ahead}


def _use_text(limit: dict[str, Any]) -> str:
    """How many tasks use a resource and wait for it; of a name that every store has and nothing uses, what it is."""
    counts = {"in use": limit.get("running"), "waiting": limit.get("waiting")}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or BUILT_IN.get(limit["name"], "")


def _text(limit: dict[str, Any]) -> str:
    if "capacity" in limit:
        return f"{limit['capacity']} at a time"
    if limit["rate"] is None:
        return "no limit"
    return f"{limit['rate']:g}/s, bursts of {limit['burst']}"


@commands.add("set")
def set_limit(
    command: Command,
    name: Name,
    rate: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum starts per second; none: no limit.")
    ] = None,
    burst: Annotated[int | None, typer.Option(metavar="N", help="Maximum starts at once after a quiet time.")] = None,
    capacity: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of tasks that use the resource at once.")
    ] = None,
) -> None:
    """Set a rate limit or the capacity of a resource, or create it.

    \b
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set key:openai --rate none
    headgate limits set printer --capacity 1
    """  # fmt: skip
    if rate == NO_LIMIT and burst is None and capacity is None:
        limit = _rate(name, None)
        command.store.rate_limits.set(name, None, actor=command.actor)
    elif rate is not None and burst is not None and capacity is None:
        wanted = Rate(_number(rate), burst)
        limit = _rate(name, wanted)
        command.store.rate_limits.set(name, wanted, actor=command.actor)
    elif capacity is not None and rate is None and burst is None:
        limit = _resource(name, capacity)
        command.store.resources.set(name, capacity, actor=command.actor)
    else:
        raise Invalid("give --rate and --burst for a rate limit, or --capacity for a resource")
    command.answer(limit, f"{name}: {_text(limit)}")


def _number(rate: str) -> float:
    try:
        return float(rate)
    except ValueError:
        raise Invalid(f"--rate must be a number or none, not {rate!r}") from None


@commands.add("reset")
def reset_limit(command: Command, name: LimitName) -> None:
    """Undo a change by a person: programs and settings apply again.

    The limit stays until a program or settings that declare it start.

    \b
    headgate limits reset key:openai
    """  # fmt: skip
    _of(command, name).reset(name, actor=command.actor)
    command.answer({"name": name, "source": "default"}, f"{name}: the next declaration sets it")


@commands.add("remove")
def remove_limit(command: Command, name: LimitName) -> None:
    """Remove a rate limit, or a resource that no task type uses.

    A key without its own limit uses that of key:*; key:* itself goes back to 10 per
    second. Programs and settings that declare the limit set it again when they
    start: to have no limit, use `headgate limits set NAME --rate none`.

    \b
    headgate limits remove key:openai
    headgate limits remove printer
    """  # fmt: skip
    _of(command, name).remove(name, actor=command.actor)
    command.answer({"name": name, "removed": True}, f"{name} removed")


def _of(command: Command, name: str) -> RateLimits | Resources:
    return command.store.rate_limits if name.startswith(PREFIXES) else command.store.resources
