"""`headgate callbacks`, `headgate redeliver`: who was told how tasks ended, and once more."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.exits import DONE, code_of, tell
from headgate.cli.options import Json, Url
from headgate.cli.output import document, say, table
from headgate.cli.pages import gathered
from headgate.cli.stores import ready
from headgate.cli.words import at, line, span
from headgate.core.callbacks import Delivery
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.outward.callback import lines_to
from headgate.store import Store
from headgate.store.delivery_reports import Sent, Try, Wanted

MOST_AT_ONCE = 200

SomeId = Annotated[int | None, typer.Argument(metavar="ID", help="The task's number.", show_default=False)]
SomeIds = Annotated[list[int] | None, typer.Argument(metavar="ID", help="The tasks' numbers.", show_default=False)]
Host = Annotated[str | None, typer.Option(metavar="HOST[:PORT]", help="To this receiver.", show_default=False)]
Type = Annotated[str | None, typer.Option("--type", metavar="CODE", help="Of this type.", show_default=False)]


def callbacks(
    task_id: SomeId = None,
    status: Annotated[
        Delivery | None,
        typer.Option(help="pending, delivered, undeliverable or dropped.", metavar="STATUS", show_default=False),
    ] = None,
    host: Host = None,
    type_code: Type = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_AT_ONCE, help="How many at most.")] = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show a task's callbacks and every attempt, or the latest of all tasks.

    \b
    headgate callbacks 4711
    headgate callbacks --status undeliverable
    headgate callbacks --host example.org --limit 100
    """  # fmt: skip
    if task_id is not None and (status, host, type_code) != (None, None, None):
        raise Invalid("say which: the number of a task, or --status, --host, --type")
    with ready(url) as store:
        if task_id is not None:
            found = store.deliveries.of_task(task_id)
        else:
            found = _found(store, _wanted(store, host, type_code, status), limit)
    if as_json:
        for sent in found:
            document(delivery_json(sent, with_history=task_id is not None))
        return
    if not found:
        say("no callbacks")
        return
    table(
        ("ID", "TASK", "TYPE", "KIND", "STATUS", "ATTEMPTS", "CREATED", "HOST", "LAST"),
        [_row(sent) for sent in found],
        right=("ID", "TASK", "ATTEMPTS"),
    )
    tries = [(sent, each) for sent in found for each in sent.tries]
    if tries:
        say("")
        table(("AT", "CALLBACK", "HOST", "ANSWER", "TOOK", "ERROR"), [_attempt(*pair) for pair in tries])


def redeliver(
    task_ids: SomeIds = None,
    undeliverable: Annotated[
        bool, typer.Option("--undeliverable", help="What was given up, instead of tasks; 200 at a time.")
    ] = False,
    host: Host = None,
    type_code: Type = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Send the last callback of tasks again, now.

    Under the same id, and as often as a new one.

    \b
    headgate redeliver 4711
    headgate redeliver --undeliverable --host example.org
    """  # fmt: skip
    if bool(task_ids) == undeliverable or (task_ids and (host or type_code)):
        raise Invalid("say which: the numbers of tasks, or --undeliverable, with --host or --type if need be")
    code = DONE
    with ready(url) as store:
        wanted: list[tuple[int, int | None]] = [(task_id, None) for task_id in task_ids or []]
        if undeliverable:
            stuck = _found(store, _wanted(store, host, type_code, Delivery.UNDELIVERABLE), MOST_AT_ONCE)
            wanted = [(sent.task_id, sent.id) for sent in stuck]
        for task_id, delivery_id in wanted:
            try:
                sent = store.deliveries.redeliver(task_id, delivery_id=delivery_id)
            except (Refused, NotFound) as error:
                tell(error)
                code = code or code_of(error)
                continue
            if as_json:
                document(delivery_json(sent, with_history=False))
            else:
                say(f"{sent.task_id} {sent.kind} callback {sent.id} is due")
    if not wanted and not as_json:
        say("no callbacks")
    if code:
        raise typer.Exit(code)


def _found(store: Store, wanted: Wanted, limit: int) -> list[Sent]:
    return gathered(lambda cursor, limit: store.deliveries.find(wanted, cursor=cursor, limit=limit), None, limit)[0]


def _wanted(store: Store, host: str | None, type_code: str | None, status: Delivery | None) -> Wanted:
    lines = () if host is None else lines_to(host, store.types().values())
    return Wanted(status=status, type=type_code, host=host, lines=lines)


def delivery_json(sent: Sent, *, with_history: bool) -> dict[str, Any]:
    """As JSON tells it."""
    said = asdict(sent)
    tries = said.pop("tries")
    return said | ({"history": tries} if with_history else {})


def _row(sent: Sent) -> tuple[Any, ...]:
    came = sent.last_error or sent.last_status or ""
    return (
        sent.id, sent.task_id, sent.type, sent.kind, sent.status, sent.attempts, at(sent.created_at), sent.host or "",
        line(came),
    )  # fmt: skip


def _attempt(sent: Sent, each: Try) -> tuple[Any, ...]:
    answer = "none" if each.status is None else each.status
    return (at(each.at), sent.id, each.host, answer, span(each.seconds), line(each.error or each.body))
