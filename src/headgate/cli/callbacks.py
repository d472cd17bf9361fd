"""`headgate callbacks`, `headgate redeliver`: who was told how tasks ended, and once more."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.exits import DONE, code_of, print_error
from headgate.cli.formatting import format_duration, format_time, one_line
from headgate.cli.options import Json, Url
from headgate.cli.output import print_json, print_table, say
from headgate.cli.pages import collect_pages
from headgate.cli.stores import existing_store
from headgate.core.callbacks import Delivery
from headgate.core.errors import Invalid, NotFound, Refused
from headgate.outward.callback import callbacks_to
from headgate.store.callbacks.report import CallbackRecord, DeliveryAttempt, DeliveryFilter
from headgate.store.store import Store

PAGE = 200

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
    limit: Annotated[int, typer.Option(min=1, max=PAGE, help="How many at most.")] = 20,
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
    with existing_store(url) as store:
        if task_id is not None:
            found = store.deliveries.of_task(task_id)
        else:
            found = _find(store, _filter(store, host, type_code, status), limit)
    if as_json:
        for sent in found:
            print_json(delivery_json(sent, with_history=task_id is not None))
        return
    if not found:
        say("no callbacks")
        return
    print_table(
        ("ID", "TASK", "TYPE", "KIND", "STATUS", "ATTEMPTS", "CREATED", "HOST", "LAST"),
        [_row(sent) for sent in found],
        right=("ID", "TASK", "ATTEMPTS"),
    )
    tries = [(sent, each) for sent in found for each in sent.tries]
    if tries:
        say("")
        print_table(("AT", "CALLBACK", "HOST", "ANSWER", "TOOK", "ERROR"), [_attempt(*pair) for pair in tries])


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
    with existing_store(url) as store:
        wanted: list[tuple[int, int | None]] = [(task_id, None) for task_id in task_ids or []]
        if undeliverable:
            stuck = _find(store, _filter(store, host, type_code, Delivery.UNDELIVERABLE), PAGE)
            wanted = [(sent.task_id, sent.id) for sent in stuck]
        for task_id, delivery_id in wanted:
            try:
                sent = store.deliveries.redeliver(task_id, delivery_id=delivery_id)
            except (Refused, NotFound) as error:
                print_error(error)
                code = code or code_of(error)
                continue
            if as_json:
                print_json(delivery_json(sent, with_history=False))
            else:
                say(f"{sent.task_id} {sent.kind} callback {sent.id} is due")
    if not wanted and not as_json:
        say("no callbacks")
    if code:
        raise typer.Exit(code)


def _find(store: Store, wanted: DeliveryFilter, limit: int) -> list[CallbackRecord]:
    found, _ = collect_pages(
        lambda cursor, limit: store.deliveries.find(wanted, cursor=cursor, limit=limit), None, limit
    )
    return found


def _filter(store: Store, host: str | None, type_code: str | None, status: Delivery | None) -> DeliveryFilter:
    lines = () if host is None else callbacks_to(host, store.types.by_code().values())
    return DeliveryFilter(status=status, type=type_code, host=host, lines=lines)


def delivery_json(sent: CallbackRecord, *, with_history: bool) -> dict[str, Any]:
    """A callback for programs."""
    fields = asdict(sent)
    tries = fields.pop("tries")
    return fields | ({"history": tries} if with_history else {})


def _row(sent: CallbackRecord) -> tuple[Any, ...]:
    last = sent.last_error or sent.last_status or ""
    return (
        sent.id, sent.task_id, sent.type, sent.kind, sent.status, sent.attempts, format_time(sent.created_at),
        sent.host or "", one_line(last),
    )  # fmt: skip


def _attempt(sent: CallbackRecord, each: DeliveryAttempt) -> tuple[Any, ...]:
    answer = "none" if each.status is None else each.status
    text = one_line(each.error or each.body)
    return (format_time(each.at), sent.id, each.host, answer, format_duration(each.seconds), text)
