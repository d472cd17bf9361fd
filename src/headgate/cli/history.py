"""`headgate purge`: remove what ended long ago."""

from typing import Annotated

import typer

from headgate.cli.options import Json, Url
from headgate.cli.output import document, say
from headgate.cli.stores import ready
from headgate.core.errors import Invalid
from headgate.core.states import FINAL, State
from headgate.settings import Settings, load
from headgate.store import Store

DAY_SECONDS = 86400.0
BATCH = 1000


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
    with ready(url) as store:
        purged = {state.value: _purge(store, state, settings, older_than) for state in State if state in states}
    if as_json:
        document({"purged": purged})
    else:
        told = ", ".join(f"{count} {state}" for state, count in purged.items() if count)
        say(f"purged {told or 'nothing'}")


def retention_days(settings: Settings, state: State) -> float:
    """How long a task that ended like this is kept."""
    if state in (State.FAILED, State.CANCELLED):
        return settings.retention_failed_days
    return settings.retention_succeeded_days


def _purge(store: Store, state: State, settings: Settings, older_than: float | None) -> int:
    days = retention_days(settings, state) if older_than is None else older_than
    while store.archive(seconds=days * DAY_SECONDS, limit=BATCH):
        pass
    total = 0
    while count := store.purge([state], seconds=days * DAY_SECONDS, limit=BATCH):
        total += count
    return total
