"""`headgate dead-letters`: dead letters, and what a person does about them."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.actions import act_on, status_line
from headgate.cli.exits import DONE, code_of, print_error
from headgate.cli.formatting import format_duration, format_time, one_line
from headgate.cli.options import Id, Json, Url
from headgate.cli.output import note, print_json, print_table, say, task_json
from headgate.cli.pages import collect_pages
from headgate.cli.stores import existing_store
from headgate.cli.submitting import arguments_of
from headgate.core.edit import Edit, changes_as_json
from headgate.core.errors import HeadgateError, Invalid, Refused
from headgate.core.states import State
from headgate.core.task import Task
from headgate.environment import utc_now
from headgate.store.store import Store
from headgate.store.tasks.dead_letters import DeadLetterFilter

PAGE = 200
LAST_LINES = 10
commands = typer.Typer(rich_markup_mode=None)

Type = Annotated[str | None, typer.Option("--type", metavar="CODE", help="Of this type.", show_default=False)]
Lane = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Of this lane.", show_default=False)]
Tenant = Annotated[int | None, typer.Option("--tenant", metavar="ID", help="Of this tenant.", show_default=False)]
Creator = Annotated[int | None, typer.Option("--creator", metavar="ID", help="Of this creator.", show_default=False)]
OlderThan = Annotated[
    float | None, typer.Option("--older-than", min=0, metavar="DAYS", help="Dead for so long.", show_default=False)
]
Error = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="With this in their error.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="Every dead letter.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would become of them, and do nothing.")]
SomeIds = Annotated[list[int] | None, typer.Argument(metavar="ID", help="The tasks' numbers.", show_default=False)]


@commands.callback(invoke_without_command=True)
def show_dead_letters(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show what waits for a person; replay it, edited or as it is, resolve it, give it up.

    \b
    headgate dead-letters
    headgate dead-letters list --type invoice --error address
    headgate dead-letters show 4711
    headgate dead-letters replay 4711 address="12 Elm Street"
    headgate dead-letters resolve 4711 --remark "sent by hand"
    headgate dead-letters discard --older-than 90
    """  # fmt: skip
    if context.invoked_subcommand is None:
        _list(DeadLetterFilter(), None, 50, url, as_json)


@commands.command("list")
def list_dead_letters(
    type_code: Type = None,
    lane: Lane = None,
    tenant: Tenant = None,
    creator: Creator = None,
    older_than: OlderThan = None,
    error: Error = None,
    cursor: Annotated[int | None, typer.Option(metavar="ID", help="Go on after this task.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE, help="So many at most.")] = 50,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List dead letters, newest first.

    \b
    headgate dead-letters list --type invoice --error address
    """  # fmt: skip
    _list(_filter(type_code, lane, tenant, creator, older_than, error), cursor, limit, url, as_json)


def _filter(
    type_code: str | None,
    lane: str | None,
    tenant: int | None,
    creator: int | None,
    older_than: float | None,
    error: str | None,
) -> DeadLetterFilter:
    seconds = None if older_than is None else older_than * 86400
    return DeadLetterFilter(tenant, type_code, lane, creator=creator, older_than=seconds, error=error)


def _list(wanted: DeadLetterFilter, cursor: int | None, limit: int, url: str | None, as_json: bool) -> None:
    with existing_store(url) as store:
        tasks, more = collect_pages(
            lambda cursor, limit: store.dead_letters.find(wanted, cursor=cursor, limit=limit), cursor, limit
        )
    if as_json:
        for task in tasks:
            print_json(task_json(task))
        return
    if not tasks:
        say("nothing waits for a person")
        return
    now = utc_now()
    print_table(
        ("ID", "TYPE", "LANE", "ATTEMPT", "DEAD FOR", "ERROR"),
        [
            (
                task.id,
                task.type,
                task.lane,
                task.attempt,
                format_duration(now - task.update_date),
                _first_line(task.error_info),
            )
            for task in tasks
        ],
        right=("ID", "ATTEMPT"),
    )
    if more is not None:
        note(f"more: --cursor {more}")


def _first_line(error: str | None) -> str:
    return one_line((error or "").partition("\n")[0])


@commands.command("show")
def show_dead_letter(task_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Show a dead letter: what it was asked to do, and what went wrong.

    \b
    headgate dead-letters show 4711
    """  # fmt: skip
    with existing_store(url) as store:
        task = store.tasks.get(task_id)
        if task.status is not State.DEAD:
            raise Refused(f"task {task.id} is {task.status}, not dead; `headgate show {task.id}` shows it")
        log = store.executions.log(task_id, limit=PAGE)[-LAST_LINES:]
        task_type = store.types.recent(task.type)
    if as_json:
        lines = [{"at": each.at, "level": each.level, "message": each.message} for each in log]
        print_json(task_json(task) | {"log": lines})
        return
    retries = task_type.retry.retries if task.max_error_count is None else task.max_error_count
    fields = {
        "id": task.id, "type": task.type, "name": task.name, "lane": task.lane, "priority": task.priority,
        "mutex": task.mutex, "tenant": task.tenant_id or None, "creator": task.creator or None,
        "created": format_time(task.create_date), "dead since": format_time(task.update_date),
        "attempts": f"{task.attempt}, of which {task.error_count} failed and {task.lost_count} were lost",
        "max_error_count": retries, "timeout_seconds": task.timeout_seconds or task_type.timeout_seconds,
        "ext": task.ext,
    }  # fmt: skip
    print_table(("", ""), [(name, value) for name, value in fields.items() if value is not None])
    say(f"\nERROR\n{task.error_info or ''}")
    if log:
        say("\nLOG")
        print_table(("", "", ""), [(format_time(each.at), each.level, each.message) for each in log])


@commands.command("replay")
def replay(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID… [KEY=VALUE…]",
            help="The tasks' numbers, and arguments to set. A value that is JSON is taken as such; null removes one.",
            show_default=False,
        ),
    ] = None,
    edit: Annotated[
        str | None, typer.Option(metavar="FILE", help="The whole ext as JSON, of one task; - is stdin.")
    ] = None,
    set_priority: Annotated[int | None, typer.Option(metavar="N", help="Another priority.", show_default=False)] = None,
    set_lane: Annotated[str | None, typer.Option(metavar="NAME", help="Another lane.", show_default=False)] = None,
    set_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Another timeout.", show_default=False)
    ] = None,
    set_max_errors: Annotated[
        int | None, typer.Option(metavar="N", help="Another max_error_count.", show_default=False)
    ] = None,
    type_code: Type = None,
    lane: Lane = None,
    tenant: Tenant = None,
    creator: Creator = None,
    older_than: OlderThan = None,
    error: Error = None,
    everything: All = False,
    dry_run: DryRun = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Run dead letters again, changed as you say; those named, or those that a filter finds.

    What is changed is kept in the audit, with what it was and who changed it.

    \b
    headgate dead-letters replay 4711
    headgate dead-letters replay 4711 address="12 Elm Street" --set-priority 1
    headgate dead-letters replay 4711 --edit ext.json
    headgate dead-letters replay --type invoice --error timeout --dry-run
    """  # fmt: skip
    ids, pairs = _ids_and_pairs(words or [])
    wanted = _filter(type_code, lane, tenant, creator, older_than, error)
    changes = Edit(
        None if edit is None else _text(edit), arguments_of(pairs, None) if pairs else None, set_priority, set_lane,
        set_timeout, set_max_errors,
    )  # fmt: skip
    if edit is not None and len(ids) != 1:
        raise Invalid("--edit is for one task, named by its number; key=value is for many")

    def preview(store: Store, task_id: int) -> dict[str, Any]:
        return changes_as_json(store.dead_letters.preview(task_id, changes))

    _act(
        ids,
        wanted,
        everything,
        url,
        as_json,
        lambda s, i: s.dead_letters.replay(i, changes),
        preview if dry_run else None,
    )


@commands.command("resolve")
def resolve(
    remark: Annotated[str, typer.Option(help="What was done about them; kept with the tasks.", show_default=False)],
    task_ids: SomeIds = None,
    type_code: Type = None,
    lane: Lane = None,
    tenant: Tenant = None,
    creator: Creator = None,
    older_than: OlderThan = None,
    error: Error = None,
    everything: All = False,
    dry_run: DryRun = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Say that a person dealt with dead letters; those named, or those that a filter finds.

    \b
    headgate dead-letters resolve 4711 --remark "sent by hand"
    """  # fmt: skip
    wanted = _filter(type_code, lane, tenant, creator, older_than, error)
    preview = _preview_unchanged if dry_run else None
    _act(task_ids or [], wanted, everything, url, as_json, lambda s, i: s.dead_letters.resolve(i, remark), preview)


@commands.command("discard")
def discard(
    task_ids: SomeIds = None,
    remark: Annotated[str, typer.Option(help="Why; kept with the tasks.", show_default=False)] = "",
    type_code: Type = None,
    lane: Lane = None,
    tenant: Tenant = None,
    creator: Creator = None,
    older_than: OlderThan = None,
    error: Error = None,
    everything: All = False,
    dry_run: DryRun = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Give dead letters up: they are failed from then on; those named, or those that a filter finds.

    \b
    headgate dead-letters discard 4711 --remark "not worth it"
    headgate dead-letters discard --older-than 90 --dry-run
    """  # fmt: skip
    wanted = _filter(type_code, lane, tenant, creator, older_than, error)
    preview = _preview_unchanged if dry_run else None
    _act(task_ids or [], wanted, everything, url, as_json, lambda s, i: s.dead_letters.discard(i, remark), preview)


def _ids_and_pairs(words: list[str]) -> tuple[list[int], list[str]]:
    ids, pairs = [], []
    for word in words:
        if "=" in word:
            pairs.append(word)
        elif word.isascii() and word.isdigit():
            ids.append(int(word))
        else:
            raise Invalid(f"{word!r} is neither a task's number nor key=value")
    return ids, pairs


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None


def _act(
    ids: list[int],
    wanted: DeadLetterFilter,
    everything: bool,
    url: str | None,
    as_json: bool,
    act: Callable[[Store, int], Task],
    preview: Callable[[Store, int], dict[str, Any]] | None,
) -> None:
    if bool(ids) + (wanted != DeadLetterFilter()) + everything != 1:
        raise Invalid("say which: the numbers of tasks, a filter such as --type, or --all")
    with existing_store(url) as store:
        chosen = iter(ids) if ids else _matching_ids(store, wanted)
        first = next(chosen, None)
        if first is None:
            if not as_json:
                say("no dead letters match")
            return
        chosen = chain([first], chosen)
        code = (
            act_on(store, chosen, as_json, act, status_line)
            if preview is None
            else _dry_run(store, chosen, as_json, preview)
        )
    if code:
        raise typer.Exit(code)


def _matching_ids(store: Store, wanted: DeadLetterFilter) -> Iterator[int]:
    """The ids that a filter finds, a page at a time; what is refused is not found again."""
    cursor = None
    while True:
        page = store.dead_letters.find(wanted, cursor=cursor, limit=PAGE)
        yield from [task.id for task in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return


def _preview_unchanged(store: Store, task_id: int) -> dict[str, Any]:
    store.dead_letters.preview(task_id)
    return {}


def _dry_run(
    store: Store, chosen: Iterator[int], as_json: bool, preview: Callable[[Store, int], dict[str, Any]]
) -> int:
    """Print for each what would be changed, or why it cannot be; the exit code."""
    code = DONE
    for task_id in chosen:
        try:
            changes = preview(store, task_id)
        except HeadgateError as error:
            print_error(error)
            code = code or code_of(error)
            continue
        if as_json:
            print_json({"id": task_id, "changes": changes})
        else:
            say("  ".join([f"{task_id} would go", *(_change_text(name, sides) for name, sides in changes.items())]))
    return code


def _change_text(name: str, sides: dict[str, Any]) -> str:
    old, new = (json.dumps(sides[side], ensure_ascii=False) if side in sides else "nothing" for side in ("old", "new"))
    return f"{name}: {old} → {new}"
