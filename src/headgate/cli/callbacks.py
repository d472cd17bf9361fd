"""`headgate callbacks`, `headgate redeliver`: the callbacks of tasks, and sending them again."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_run_time, format_time, one_line
from headgate.cli.options import PAGE, Limit, OptionalIds, Type
from headgate.cli.output import print_line, print_table
from headgate.cli.pages import collect_pages
from headgate.core.callbacks import Delivery
from headgate.core.errors import Invalid
from headgate.outward.callback import callbacks_to
from headgate.store.callbacks.report import CallbackRecord, DeliveryAttempt, DeliveryFilter
from headgate.store.store import Store

commands = CommandGroup()
Host = Annotated[str | None, typer.Option(metavar="HOST[:PORT]", help="Filter by receiver.")]


@commands.add("callbacks")
def callbacks(
    command: Command,
    task_id: Annotated[int | None, typer.Argument(metavar="ID", help="Task ID.")] = None,
    status: Annotated[
        Delivery | None, typer.Option(metavar="STATUS", help=f"Filter by status: {', '.join(Delivery)}.")
    ] = None,
    host: Host = None,
    type_code: Type = None,
    limit: Limit = 20,
) -> None:
    """Show the callbacks of a task, or the latest of all tasks.

    For one task, every attempt is shown.

    \b
    headgate callbacks 4711
    headgate callbacks --status undeliverable
    headgate callbacks --host example.org --limit 100
    """  # fmt: skip
    if task_id is None:
        found = _find(command.store, host, type_code, status, limit)
    elif (status, host, type_code) == (None, None, None):
        found = command.store.deliveries.of_task(task_id)
    else:
        raise Invalid("give a task ID, or filter with --status, --host and --type; not both")
    command.answer_all(
        found,
        lambda sent: callback_json(sent, with_history=task_id is not None),
        ("ID", "TASK", "TYPE", "KIND", "STATUS", "ATTEMPTS", "CREATED", "HOST", "LAST"),
        _row,
        right=("ID", "TASK", "ATTEMPTS"),
        drop=("CREATED", "KIND", "ATTEMPTS", "TYPE", "LAST", "HOST"),
        none="no callbacks",
    )
    attempts = [_attempt_row(sent, each) for sent in found for each in sent.tries]
    if attempts and not command.as_json:
        print_line("")
        print_table(("AT", "CALLBACK", "HOST", "ANSWER", "TOOK", "ERROR"), attempts, wrap=True)


@commands.add("redeliver")
def redeliver(
    command: Command,
    task_ids: OptionalIds = None,
    undeliverable: Annotated[
        bool, typer.Option("--undeliverable", help=f"Send undeliverable callbacks again, {PAGE} at a time.")
    ] = False,
    host: Host = None,
    type_code: Type = None,
) -> None:
    """Send the last callback of tasks again, now.

    The callback keeps its ID and gets as many attempts as a new one.

    \b
    headgate redeliver 4711
    headgate redeliver --undeliverable --host example.org
    """  # fmt: skip
    if bool(task_ids) == undeliverable or (task_ids and (host or type_code)):
        raise Invalid("give task IDs, or --undeliverable with --host and --type as filters; not both")
    wanted: list[tuple[int, int | None]] = [(task_id, None) for task_id in task_ids or []]
    if undeliverable:
        stuck = _find(command.store, host, type_code, Delivery.UNDELIVERABLE, PAGE)
        wanted = [(sent.task_id, sent.id) for sent in stuck]
    command.for_each(
        wanted,
        lambda each: command.store.deliveries.redeliver(each[0], delivery_id=each[1], actor=command.actor),
        lambda sent: callback_json(sent, with_history=False),
        lambda sent: f"{sent.task_id} {sent.kind} callback {sent.id} is due",
        none="no callbacks",
    )


def _find(
    store: Store, host: str | None, type_code: str | None, status: Delivery | None, limit: int
) -> list[CallbackRecord]:
    lines = () if host is None else callbacks_to(host, store.types.by_code().values())
    wanted = DeliveryFilter(status=status, type=type_code, host=host, lines=lines)
    found, _ = collect_pages(
        lambda cursor, limit: store.deliveries.find(wanted, cursor=cursor, limit=limit), None, limit
    )
    return found


def callback_json(sent: CallbackRecord, *, with_history: bool) -> dict[str, Any]:
    """A callback for programs."""
    fields = asdict(sent)
    tries = fields.pop("tries")
    return fields | ({"history": tries} if with_history else {})


def _row(sent: CallbackRecord) -> tuple[Any, ...]:
    last = str(sent.last_error or sent.last_status or "")
    if sent.receiver_rests_until is not None:
        last = f"receiver on hold until {format_time(sent.receiver_rests_until)}; {last}"
    return (
        sent.id, sent.task_id, sent.type, sent.kind, sent.status, sent.attempts, sent.created_at,
        sent.host or "", one_line(last),
    )  # fmt: skip


def _attempt_row(sent: CallbackRecord, each: DeliveryAttempt) -> tuple[Any, ...]:
    answer = "none" if each.status is None else each.status
    text = one_line(each.error or each.body)
    return (each.at, sent.id, each.host, answer, format_run_time(each.seconds), text)
