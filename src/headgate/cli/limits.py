"""`headgate limits`: how often tasks may start, and how many may use a resource at once."""

from typing import Annotated

import typer

from headgate.cli.options import Json, Url
from headgate.cli.output import document, say, table
from headgate.cli.stores import ready
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
    with ready(url) as store:
        rates, resources = store.rate_limits(), store.resources()
    if as_json:
        for bucket in rates:
            document({"name": bucket.name, "rate": bucket.limit.rate, "burst": bucket.limit.burst})
        for room in resources:
            document({"name": room.name, "capacity": room.capacity})
        return
    rows = [(bucket.name, _spoken(bucket.limit)) for bucket in rates]
    table(("LIMIT", "LETS THROUGH"), [*rows, *((room.name, f"{room.capacity} at a time") for room in resources)])


def _spoken(limit: Rate) -> str:
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
    with ready(url) as store:
        if capacity is not None:
            store.set_resource(name, capacity)
        elif rate is not None and burst is not None:
            store.set_rate_limit(name, Rate(rate, burst))
    if as_json:
        document({"name": name} | ({"rate": rate, "burst": burst} if capacity is None else {"capacity": capacity}))
    elif rate is not None and burst is not None:
        say(f"{name}: {_spoken(Rate(rate, burst))}")
    else:
        say(f"{name}: {capacity} at a time")


@commands.command("lift")
def lift_limit(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Lift a rate limit.

    \b
    headgate limits lift key:openai
    """  # fmt: skip
    with ready(url) as store:
        store.set_rate_limit(name, None)
    if as_json:
        document({"name": name, "rate": None, "burst": None})
    else:
        say(f"{name}: no limit")
