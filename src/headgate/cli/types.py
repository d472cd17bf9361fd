"""`headgate types`: what holds for every task of a type, seen and edited."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.formatting import format_duration, format_time
from headgate.cli.options import Json, Url
from headgate.cli.output import print_json, print_table, say
from headgate.cli.stores import existing_store
from headgate.cli.submitting import arguments_of
from headgate.core.errors import Invalid
from headgate.core.retry import Strategy
from headgate.core.task import TaskType
from headgate.core.task_types import TYPE_FIELDS, changes_of, edited, fields_of
from headgate.store.catalog.types import LOOKED_AT, EditPreview, StoredType

commands = typer.Typer(rich_markup_mode=None)
Code = Annotated[str, typer.Argument(metavar="CODE", help="The type's code.", show_default=False)]


@commands.callback(invoke_without_command=True)
def show_types(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show every task type; change what holds for its tasks.

    \b
    headgate types
    headgate types show download
    headgate types set download timeout=45 max_error_count=5 --dry-run
    headgate types remove download
    """  # fmt: skip
    if context.invoked_subcommand is None:
        _list(url, as_json)


@commands.command("list")
def list_types(url: Url = None, as_json: Json = False) -> None:
    """Show every task type.

    \b
    headgate types list
    """  # fmt: skip
    _list(url, as_json)


def _list(url: str | None, as_json: bool) -> None:
    with existing_store(url) as store:
        found = store.types.all()
    if as_json:
        for stored in found:
            print_json(_type_json(stored))
        return
    print_table(
        ("CODE", "LANE", "RETRIES", "TIMEOUT", "THEN", "SAID BY"),
        [
            (
                stored.kind.code, stored.kind.lane, _retries(stored.kind), format_duration(stored.kind.timeout_seconds),
                "dead" if stored.kind.need_manual else "failed", _source(stored),
            )
            for stored in found
        ],
    )  # fmt: skip


def _retries(task_type: TaskType) -> str:
    retry = task_type.retry
    match retry.strategy:
        case Strategy.NONE:
            return "none"
        case Strategy.FIXED:
            return f"{retry.retries} every {format_duration(retry.interval)}"
        case Strategy.SEQUENCE:
            return f"{retry.retries} after {', '.join(format_duration(each) for each in retry.sequence)}"
    return f"{retry.retries} from {format_duration(retry.initial)} × {retry.factor:g} to {format_duration(retry.cap)}"


def _source(stored: StoredType) -> str:
    return "a person" if stored.edited else stored.kind.declared_by


@commands.command("show")
def show_type(code: Code, url: Url = None, as_json: Json = False) -> None:
    """Show all that holds for a type's tasks, in the words that `set` takes.

    \b
    headgate types show download
    """  # fmt: skip
    with existing_store(url) as store:
        stored = store.types.get(code)
    if as_json:
        print_json(_type_json(stored))
        return
    fields = {"code": stored.kind.code} | fields_of(stored.kind)
    for part, configuration in _type_json(stored)["callback"].items():
        fields |= {f"callback.{part}.{name}": value for name, value in configuration.items()}
    fields |= {"declared_by": stored.kind.declared_by or None, "said_by": _source(stored)}
    fields["since"] = format_time(stored.update_date)
    print_table(("", ""), [(name, _cell(value)) for name, value in fields.items() if value not in (None, "", [], {})])


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _type_json(stored: StoredType) -> dict[str, Any]:
    task_type = stored.kind
    callback = {
        part: {name: value for name, value in configuration.items() if name != "sk"}
        for part, configuration in task_type.callback.items()
    }
    source = {"declared_by": task_type.declared_by, "edited": stored.edited, "update_date": stored.update_date}
    return {"code": task_type.code} | fields_of(task_type) | {"callback": callback} | source


@commands.command("set")
def set_type(
    code: Code,
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD=VALUE", help=f"What to change: {', '.join(TYPE_FIELDS)}.", show_default=False),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="The same words as one JSON object.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change for the tasks there are, and change nothing.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change a type, at once and for waiting tasks too; add it if it is not there.

    `timeout` is in minutes. A value that is JSON is taken as such. From then on no program's word holds, but yours.

    \b
    headgate types set download timeout=45 need_manual=true --dry-run
    headgate types set download retry_strategy=sequence 'retry_sequence=[10, 60, 300]' max_error_count=5
    headgate types set download 'mutex=subscription:{subscription_id}'
    """  # fmt: skip
    changes = ({} if file is None else _read_fields(file)) | arguments_of(fields or [], None)
    if not changes:
        raise Invalid("say what to change: word=value, or --file")

    before: TaskType | None = None

    def change(current: TaskType | None) -> TaskType:
        nonlocal before
        before = current
        return edited(current or TaskType(code), changes)

    with existing_store(url) as store:
        if dry_run:
            after = change(store.types.by_code().get(code))
            _print_changes(code, before, after, store.types.preview(before, after), as_json)
        else:
            stored = store.types.edit(code, change)
            _print_changes(code, before, stored.kind, None, as_json)


def _read_fields(file: str) -> dict[str, Any]:
    try:
        fields = json.loads(Path(file).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise Invalid(f"{file} is not one JSON object")
    return fields


def _print_changes(
    code: str, before: TaskType | None, after: TaskType, preview: EditPreview | None, as_json: bool
) -> None:  # fmt: skip
    changes = changes_of(before, after)
    if as_json:
        print_json({"code": code, "changes": changes} | _preview_json(preview))
        return
    if before is None:
        say(f"type {code} {'would be' if preview else 'is'} new")
    elif not changes:
        say(f"type {code}: nothing changes")
    for word, sides in changes.items():
        values = [json.dumps(sides[side], ensure_ascii=False) for side in ("old", "new") if side in sides]
        say(f"{word}: {' → '.join(values)}")
    for text in _preview_lines(preview):
        say(text)


def _preview_json(preview: EditPreview | None) -> dict[str, Any]:
    if preview is None:
        return {}
    seen = preview.foreseen
    foreseen = {
        "states": seen.states, "given_up": seen.given_up, "spared": seen.spared, "retimed": seen.retimed,
        "stay": seen.stay, "as_of": preview.as_of, "exact": preview.exact,
    }  # fmt: skip
    return {"foreseen": foreseen}


def _preview_lines(preview: EditPreview | None) -> Iterable[str]:
    """What a dry run says of the tasks there are."""
    if preview is None:
        return
    seen = preview.foreseen
    counts = ", ".join(f"{count} {state}" for state, count in sorted(seen.states.items()))
    yield f"\ntasks that have not ended: {counts or 'none'}"
    if not preview.exact:
        yield f"  of {LOOKED_AT:,} of them; there are more"
    if seen.given_up:
        ids = _first_ids(seen.given_up)
        yield f"  {len(seen.given_up)} would end with their next failure, and would not now: {ids}"
    if seen.spared:
        yield f"  {len(seen.spared)} would be tried again after it, and would not now: {_first_ids(seen.spared)}"
    if seen.retimed:
        yield f"  {seen.retimed} get the new timeout with their next execution"
    if seen.stay:
        yield f"  {seen.stay} stay in the lane and category they have"
    yield "nothing was changed"


def _first_ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids[:20])) + (", …" if len(ids) > 20 else "")


@commands.command("remove")
def remove_type(code: Code, url: Url = None, as_json: Json = False) -> None:
    """Forget a type: nothing new of it is taken on, and what is there ends by the defaults.

    A program that declares it registers it again when it starts.

    \b
    headgate types remove download
    """  # fmt: skip
    with existing_store(url) as store:
        store.types.remove(code)
    if as_json:
        print_json({"code": code, "removed": True})
    else:
        say(f"type {code} is forgotten")
