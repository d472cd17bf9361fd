"""`headgate purge`: remove what ended long ago."""

from typing import Annotated

import typer

from headgate.cli.options import Json, Url
from headgate.cli.output import print_json, say
from headgate.cli.stores import existing_store
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State
from headgate.duties.archive import retention_days
from headgate.duties.purging import purge_now
from headgate.settings import load


def purge(
    older_than: Annotated[
        float | None,
        typer.Option(min=0, metavar="DAYS", help="Ended longer ago than this.  [default: the retention settings]"),
    ] = None,
    status: Annotated[
        list[State] | None,
        typer.Option(metavar="STATE", help="Ended like this; may be repeated.  [default: all]", show_default=False),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove what ended long ago.

    Finished tasks go with all that is kept about them. Dead tasks stay: they wait for a person.

    \b
    headgate purge
    headgate purge --older-than 1 --status succeeded
    """  # fmt: skip
    states = set(status or FINAL)
    if not states <= FINAL:
        raise Invalid(f"only what has ended can be purged: {', '.join(sorted(FINAL))}")
    settings = load({"url": url})
    with existing_store(url) as store:
        days = {
            state: retention_days(settings, state) if older_than is None else older_than
            for state in State
            if state in states
        }
        purged, _ = purge_now(store, days)
    if as_json:
        print_json({"purged": purged})
    else:
        counts = ", ".join(f"{count} {state}" for state, count in purged.items() if count)
        say(f"purged {counts or 'nothing'}")
