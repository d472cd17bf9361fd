"""`headgate limits`: how often tasks may start, and how many may use a resource at once."""

from typing import Annotated

import typer

from headgate.cli.options import Json, Url
from headgate.cli.output import print_json, print_table, say
from headgate.cli.stores import existing_store
from headgate.core.errors import Invalid
from headgate.core.limits import Rate

commands = typer.Typer(rich_markup_mode=None)
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="lane:NAME, type:CODE or key:NAME; with --capacity a resource.", show_default=False
    ),
]


@commands.callback(invoke_without_command=True)
def show_limits(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show rate limits and resources; change them.

    A rate limit is lane:NAME, type:CODE or key:NAME, and holds over all processes. Lanes are under `headgate lanes`.

    \b
    headgate limits
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set yt-dlp --capacity 1
    headgate limits lift key:openai
    """  # fmt: skip
    if context.invoked_subcommand is not None:
        return
    with existing_store(url) as store:
        rates, resources = store.rate_limits.all(), store.resources.all()
    if as_json:
        for bucket in rates:
            print_json({"name": bucket.name, "rate": bucket.limit.rate, "burst": bucket.limit.burst})
        for resource in resources:
            print_json({"name": resource.name, "capacity": resource.capacity})
        return
    rows = [(bucket.name, _rate_text(bucket.limit)) for bucket in rates]
    print_table(("LIMIT", "LETS THROUGH"), [*rows, *((each.name, f"{each.capacity} at a time") for each in resources)])


def _rate_text(limit: Rate) -> str:
    return f"{limit.rate:g} a second, {limit.burst} at once"


@commands.command("set")
def set_limit(
    name: Name,
    rate: Annotated[float | None, typer.Option(help="Starts a second.", show_default=False)] = None,
    burst: Annotated[int | None, typer.Option(help="Starts at once, after a pause.", show_default=False)] = None,
    capacity: Annotated[
        int | None, typer.Option(help="How many tasks may use the resource at once.", show_default=False)
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change a limit, at once and for every process; made if it is not there.

    \b
    headgate limits set key:openai --rate 5 --burst 10
    headgate limits set yt-dlp --capacity 1
    """  # fmt: skip
    if (capacity is None) == (rate is None and burst is None) or (rate is None) != (burst is None):
        raise Invalid("say --rate and --burst, or for a resource --capacity")
    with existing_store(url) as store:
        if capacity is not None:
            store.resources.set(name, capacity)
        elif rate is not None and burst is not None:
            store.rate_limits.set(name, Rate(rate, burst))
    if as_json:
        print_json({"name": name} | ({"rate": rate, "burst": burst} if capacity is None else {"capacity": capacity}))
    elif rate is not None and burst is not None:
        say(f"{name}: {_rate_text(Rate(rate, burst))}")
    else:
        say(f"{name}: {capacity} at a time")


@commands.command("lift")
def lift_limit(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Lift a rate limit.

    \b
    headgate limits lift key:openai
    """  # fmt: skip
    with existing_store(url) as store:
        store.rate_limits.set(name, None)
    if as_json:
        print_json({"name": name, "rate": None, "burst": None})
    else:
        say(f"{name}: no limit")
