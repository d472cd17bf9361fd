"""`headgate desk`: dead letters, and what a person does about them."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.actions import act_on, stands
from headgate.cli.exits import DONE, code_of, tell
from headgate.cli.options import Id, Json, Url
from headgate.cli.output import document, note, say, table, task_json
from headgate.cli.pages import gathered
from headgate.cli.stores import ready
from headgate.cli.submitting import arguments_of
from headgate.cli.words import at, line, span
from headgate.core.edit import Edit, told
from headgate.core.errors import HeadgateError, Invalid, Refused
from headgate.core.states import State
from headgate.core.task import Task
from headgate.outside import utc_now
from headgate.store import Store
from headgate.store.desk import Letters

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
def show_desk(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show what waits for a person; replay it, edited or as it is, resolve it, give it up.

    \b
    headgate desk
    headgate desk list --type invoice --error address
    headgate desk show 4711
    headgate desk replay 4711 address="12 Elm Street"
    headgate desk resolve 4711 --remark "sent by hand"
    headgate desk discard --older-than 90
    """  # fmt: skip
    if context.invoked_subcommand is None:
        _list(Letters(), None, 50, url, as_json)


@commands.command("list")
def list_letters(
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
    headgate desk list --type invoice --error address
    """  # fmt: skip
    _list(_letters(type_code, lane, tenant, creator, older_than, error), cursor, limit, url, as_json)


def _letters(
    type_code: str | None,
    lane: str | None,
    tenant: int | None,
    creator: int | None,
    older_than: float | None,
    error: str | None,
) -> Letters:
    seconds = None if older_than is None else older_than * 86400
    return Letters(tenant, type_code, lane, creator=creator, older_than=seconds, error=error)


def _list(wanted: Letters, cursor: int | None, limit: int, url: str | None, as_json: bool) -> None:
    with ready(url) as store:
        tasks, more = gathered(lambda cursor, limit: store.desk.find(wanted, cursor=cursor, limit=limit), cursor, limit)
    if as_json:
        for task in tasks:
            document(task_json(task))
        return
    if not tasks:
        say("nothing waits for a person")
        return
    now = utc_now()
    table(
        ("ID", "TYPE", "LANE", "ATTEMPT", "DEAD FOR", "ERROR"),
        [
            (task.id, task.type, task.lane, task.attempt, span(now - task.update_date), _first_line(task.error_info))
            for task in tasks
        ],
        right=("ID", "ATTEMPT"),
    )
    if more is not None:
        note(f"more: --cursor {more}")


def _first_line(error: str | None) -> str:
    return line((error or "").partition("\n")[0])


@commands.command("show")
def show_letter(task_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Show a dead letter: what it was asked to do, and what went wrong.

    \b
    headgate desk show 4711
    """  # fmt: skip
    with ready(url) as store:
        task = store.get(task_id)
        if task.status is not State.DEAD:
            raise Refused(f"task {task.id} is {task.status}, not dead; `headgate show {task.id}` shows it")
        log = store.log(task_id, limit=PAGE)[-LAST_LINES:]
        kind = store.type_of(task.type)
    if as_json:
        lines = [{"at": each.at, "level": each.level, "message": each.message} for each in log]
        document(task_json(task) | {"log": lines})
        return
    retries = kind.retry.retries if task.max_error_count is None else task.max_error_count
    said = {
        "id": task.id, "type": task.type, "name": task.name, "lane": task.lane, "priority": task.priority,
        "mutex": task.mutex, "tenant": task.tenant_id or None, "creator": task.creator or None,
        "created": at(task.create_date), "dead since": at(task.update_date),
        "attempts": f"{task.attempt}, of which {task.error_count} failed and {task.lost_count} were lost",
        "max_error_count": retries, "timeout_seconds": task.timeout_seconds or kind.timeout_seconds, "ext": task.ext,
    }  # fmt: skip
    table(("", ""), [(name, value) for name, value in said.items() if value is not None])
    say(f"\nERROR\n{task.error_info or ''}")
    if log:
        say("\nLOG")
        table(("", "", ""), [(at(each.at), each.level, each.message) for each in log])


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
    headgate desk replay 4711
    headgate desk replay 4711 address="12 Elm Street" --set-priority 1
    headgate desk replay 4711 --edit ext.json
    headgate desk replay --type invoice --error timeout --dry-run
    """  # fmt: skip
    ids, pairs = _ids_and_pairs(words or [])
    wanted = _letters(type_code, lane, tenant, creator, older_than, error)
    changed = Edit(
        None if edit is None else _text(edit), arguments_of(pairs, None) if pairs else None, set_priority, set_lane,
        set_timeout, set_max_errors,
    )  # fmt: skip
    if edit is not None and len(ids) != 1:
        raise Invalid("--edit is for one task, named by its number; key=value is for many")

    def foresee(store: Store, task_id: int) -> dict[str, Any]:
        return told(store.desk.foresee(task_id, changed))

    _act(ids, wanted, everything, url, as_json, lambda s, i: s.desk.replay(i, changed), foresee if dry_run else None)


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
    headgate desk resolve 4711 --remark "sent by hand"
    """  # fmt: skip
    wanted = _letters(type_code, lane, tenant, creator, older_than, error)
    foresee = _nothing_more if dry_run else None
    _act(task_ids or [], wanted, everything, url, as_json, lambda s, i: s.desk.resolve(i, remark), foresee)


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
    headgate desk discard 4711 --remark "not worth it"
    headgate desk discard --older-than 90 --dry-run
    """  # fmt: skip
    wanted = _letters(type_code, lane, tenant, creator, older_than, error)
    foresee = _nothing_more if dry_run else None
    _act(task_ids or [], wanted, everything, url, as_json, lambda s, i: s.desk.discard(i, remark), foresee)


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
    wanted: Letters,
    everything: bool,
    url: str | None,
    as_json: bool,
    act: Callable[[Store, int], Task],
    foresee: Callable[[Store, int], dict[str, Any]] | None,
) -> None:
    if bool(ids) + (wanted != Letters()) + everything != 1:
        raise Invalid("say which: the numbers of tasks, a filter such as --type, or --all")
    with ready(url) as store:
        chosen = iter(ids) if ids else _every(store, wanted)
        first = next(chosen, None)
        if first is None:
            if not as_json:
                say("no dead letters match")
            return
        chosen = chain([first], chosen)
        code = (
            act_on(store, chosen, as_json, act, stands)
            if foresee is None
            else _rehearse(store, chosen, as_json, foresee)
        )
    if code:
        raise typer.Exit(code)


def _every(store: Store, wanted: Letters) -> Iterator[int]:
    """What a filter finds, a page at a time; what is refused is not found again."""
    cursor = None
    while True:
        page = store.desk.find(wanted, cursor=cursor, limit=PAGE)
        yield from [task.id for task in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return


def _nothing_more(store: Store, task_id: int) -> dict[str, Any]:
    store.desk.foresee(task_id)
    return {}


def _rehearse(
    store: Store, chosen: Iterator[int], as_json: bool, foresee: Callable[[Store, int], dict[str, Any]]
) -> int:
    """Say of each what would be changed, or why not; the exit code."""
    code = DONE
    for task_id in chosen:
        try:
            changes = foresee(store, task_id)
        except HeadgateError as error:
            tell(error)
            code = code or code_of(error)
            continue
        if as_json:
            document({"id": task_id, "changes": changes})
        else:
            say("  ".join([f"{task_id} would go", *(_change(name, sides) for name, sides in changes.items())]))
    return code


def _change(name: str, sides: dict[str, Any]) -> str:
    old, new = (json.dumps(sides[side], ensure_ascii=False) if side in sides else "nothing" for side in ("old", "new"))
    return f"{name}: {old} → {new}"
