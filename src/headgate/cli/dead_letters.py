"""`headgate dead-letters`: tasks that failed for good, and what a person does about them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headgate.cli.actions import status_line
from headgate.cli.arguments import arguments_of, ids_and_pairs, read_text
from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.confirm import Yes, confirm
from headgate.cli.formatting import format_duration, format_time, one_line
from headgate.cli.options import PAGE, Creator, Cursor, Id, Lane, Limit, OptionalIds, Tenant, Type
from headgate.cli.output import print_fields, print_json, print_line, print_table, task_json
from headgate.cli.pages import all_pages, collect_pages
from headgate.core.edit import Edit, changes_as_json
from headgate.core.errors import Invalid, Refused
from headgate.core.states import State
from headgate.core.task import Task, TaskType
from headgate.environment import utc_now
from headgate.store.tasks.dead_letters import DeadLetterFilter

LAST_LINES = 10
commands = CommandGroup()


@dataclass(frozen=True)
class Filters:
    """Which dead letters to find."""

    type_code: Type = None
    lane: Lane = None
    tenant: Tenant = None
    creator: Creator = None
    older_than: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Dead for at least this many days.")
    ] = None
    error: Annotated[str | None, typer.Option(metavar="TEXT", help="Filter by text in the error.")] = None

    @property
    def wanted(self) -> DeadLetterFilter:
        seconds = None if self.older_than is None else self.older_than * 86400
        return DeadLetterFilter(
            self.tenant, self.type_code, self.lane, creator=self.creator, older_than=seconds, error=self.error
        )  # fmt: skip


@dataclass(frozen=True)
class Selection(Filters):
    """Which dead letters to act on besides those named, and whether to act at all."""

    everything: Annotated[bool, typer.Option("--all", help="Select every dead letter.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False

    def ids(self, command: Command, named: list[int]) -> list[int]:
        """The tasks that are named, or those found; `Invalid` unless it is one of the two."""
        if bool(named) + (self.wanted != DeadLetterFilter()) + self.everything != 1:
            raise Invalid("give task IDs, filters such as --type, or --all: exactly one of them")
        if named:
            return named
        find, wanted = command.store.dead_letters.find, self.wanted
        return [task.id for task in all_pages(lambda cursor: find(wanted, cursor=cursor, limit=PAGE))]


@commands.default
def show_dead_letters(command: Command) -> None:
    """Show dead letters; replay, resolve or discard them.

    A dead letter is a task that failed for good and waits for a person.

    \b
    headgate dead-letters
    headgate dead-letters list --type invoice --error address
    headgate dead-letters show 4711
    headgate dead-letters replay 4711 address="12 Elm Street"
    headgate dead-letters resolve 4711 --remark "sent by hand"
    headgate dead-letters discard --older-than 90
    """  # fmt: skip
    list_dead_letters(command, Filters())


@commands.add("list")
def list_dead_letters(command: Command, filters: Filters, cursor: Cursor = None, limit: Limit = 50) -> None:
    """List dead letters, newest first.

    \b
    headgate dead-letters list --type invoice --error address
    """  # fmt: skip
    store, wanted, now = command.store, filters.wanted, utc_now()
    tasks, more = collect_pages(
        lambda cursor, limit: store.dead_letters.find(wanted, cursor=cursor, limit=limit), cursor, limit
    )
    command.answer_all(
        tasks,
        task_json,
        ("ID", "TYPE", "LANE", "ATTEMPT", "DEAD FOR", "ERROR"),
        lambda task: (
            task.id, task.type, task.lane, task.attempt, format_duration(now - task.update_date),
            one_line((task.error_info or "").partition("\n")[0]),
        ),
        right=("ID", "ATTEMPT"),
        drop=("ATTEMPT", "LANE", "DEAD FOR", "ERROR"),
        none="no dead letters",
        more=more,
    )  # fmt: skip


@commands.add("show")
def show_dead_letter(command: Command, task_id: Id) -> None:
    """Show a dead letter: its arguments, error and last log lines."""
    store = command.store
    task = store.tasks.get(task_id)
    if task.status is not State.DEAD:
        raise Refused(
            f"task {task.id} is {task.status}, so it is not a dead letter; `headgate show {task.id}` shows it"
        )
    log = store.executions.log(task_id, limit=PAGE)[-LAST_LINES:]
    if command.as_json:
        lines = [{"at": each.at, "level": each.level, "message": each.message} for each in log]
        print_json(task_json(task) | {"log": lines})
        return
    task_type = store.types.by_code().get(task.type) or TaskType(task.type)
    retries = task_type.retry.retries if task.max_error_count is None else task.max_error_count
    print_fields({
        "id": task.id, "type": task.type, "name": task.name, "lane": task.lane, "priority": task.priority,
        "mutex": task.mutex, "tenant": task.tenant_id or None, "creator": task.creator or None,
        "created": format_time(task.create_date), "dead since": format_time(task.update_date),
        "attempts": f"{task.attempt}: {task.error_count} failed, {task.lost_count} lost",
        "max_error_count": retries, "timeout_seconds": f"{task.timeout_seconds or task_type.timeout_seconds:g}",
        "ext": task.ext,
    })  # fmt: skip
    print_line(f"\nERROR\n{task.error_info or ''}")
    if log:
        print_line("\nLOG")
        print_table(("", "", ""), [(format_time(each.at), each.level, each.message) for each in log], wrap=True)


@commands.add("replay")
def replay(
    command: Command,
    selection: Selection,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID… [KEY=VALUE…]",
            help="Task IDs, and arguments to set. Values are parsed as JSON where possible; null removes an argument.",
        ),
    ] = None,
    edit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Replace all arguments of one task with this JSON; - is stdin.")
    ] = None,
    set_priority: Annotated[int | None, typer.Option(metavar="N", help="Change the priority.")] = None,
    set_lane: Annotated[str | None, typer.Option(metavar="NAME", help="Change the lane.")] = None,
    set_timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Change the timeout.")] = None,
    set_max_errors: Annotated[int | None, typer.Option(metavar="N", help="Change max_error_count.")] = None,
) -> None:
    """Run dead letters again, with changes if you give any.

    Every change is recorded in the audit, with the old value and who made it.
    A failed task can be named too: it is copied, and the copy runs.

    \b
    headgate dead-letters replay 4711
    headgate dead-letters replay 4711 city=Berlin --set-priority 1
    headgate dead-letters replay 4711 --edit ext.json
    headgate dead-letters replay --type invoice --error timeout --dry-run
    """  # fmt: skip
    ids, pairs = ids_and_pairs(words or [])
    if edit is not None and len(ids) != 1:
        raise Invalid("--edit takes exactly one task ID; use key=value to change several tasks")
    ext = None if edit is None else read_text(edit)
    changes = Edit(ext, arguments_of(pairs) or None, set_priority, set_lane, set_timeout, set_max_errors)
    _act(
        command,
        selection,
        ids,
        "replayed",
        lambda i: command.store.dead_letters.replay(i, changes, actor=command.actor),
        changes,
    )


@commands.add("resolve")
def resolve(
    command: Command,
    selection: Selection,
    remark: Annotated[str, typer.Option(metavar="TEXT", help="What was done about them, stored with the tasks.")],
    task_ids: OptionalIds = None,
    yes: Yes = False,
) -> None:
    """Mark dead letters as resolved by a person.

    Those that a filter or --all selects are counted, and you are asked first.

    \b
    headgate dead-letters resolve 4711 --remark "sent by hand"
    headgate dead-letters resolve --type invoice --remark "all paid"
    """  # fmt: skip
    _act(
        command,
        selection,
        task_ids or [],
        "resolved",
        lambda i: command.store.dead_letters.resolve(i, remark, actor=command.actor),
        question=None if yes else "Resolve",
    )


@commands.add("discard")
def discard(
    command: Command,
    selection: Selection,
    task_ids: OptionalIds = None,
    remark: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, stored with the tasks.", show_default=False)
    ] = "",
    yes: Yes = False,
) -> None:
    """Give up dead letters: they become failed.

    Those that a filter or --all selects are counted, and you are asked first.

    \b
    headgate dead-letters discard 4711 --remark "not worth it"
    headgate dead-letters discard --older-than 90 --dry-run
    """  # fmt: skip
    _act(
        command,
        selection,
        task_ids or [],
        "discarded",
        lambda i: command.store.dead_letters.discard(i, remark, actor=command.actor),
        question=None if yes else "Discard",
    )


def _act(
    command: Command,
    selection: Selection,
    named: list[int],
    done: str,
    act: Callable[[int], Task],
    edit: Edit | None = None,
    question: str | None = None,
) -> None:
    """Act on dead letters. With a `question`, ask before acting on those that no one named."""
    ids, none = selection.ids(command, named), "no dead letters match"
    if not selection.dry_run:
        if question is not None and ids and not named:
            letters = "1 dead letter" if len(ids) == 1 else f"{len(ids):,} dead letters"
            confirm(f"{question} {letters}?")
        command.for_each(ids, act, task_json, status_line, none=none)
        return

    def preview(task_id: int) -> dict[str, Any]:
        return {"id": task_id, "changes": changes_as_json(command.store.dead_letters.preview(task_id, edit))}

    def describe(would: dict[str, Any]) -> str:
        changes = [_change_text(name, sides) for name, sides in would["changes"].items()]
        return "  ".join([f"task {would['id']} would be {done}", *changes])

    command.for_each(ids, preview, lambda would: would, describe, none=none)


def _change_text(name: str, sides: dict[str, Any]) -> str:
    old, new = (json.dumps(sides[side], ensure_ascii=False) if side in sides else "(none)" for side in ("old", "new"))
    return f"{name}: {old} → {new}"
