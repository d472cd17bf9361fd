"""`headgate types`: the settings of task types."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from headgate.cli.arguments import arguments_of, read_object
from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.formatting import format_duration, format_time
from headgate.cli.lanes import pause_details, print_pauses
from headgate.cli.output import print_json, print_line
from headgate.core.errors import Invalid
from headgate.core.pause import Pause, PauseKey, PauseScope
from headgate.core.retry import Strategy
from headgate.core.task import TaskType
from headgate.core.task_types import EDITABLE_FIELDS, changes_of, edited, fields_of, minutes_to_seconds
from headgate.outward.address import Allowed
from headgate.outward.callback import sealed_callback
from headgate.outward.sealing import Seals
from headgate.store.catalog.type_rows import StoredType
from headgate.store.catalog.types import LOOKED_AT, EditPreview

commands = CommandGroup()
CALLBACK = "callback."
CALLBACK_FIELDS = tuple(
    f"{CALLBACK}{name}"
    for name in (
        "success.url", "success.method", "error.url", "error.method", "security.type", "security.ak", "security.sk",
    )
)  # fmt: skip
Code = Annotated[str, typer.Argument(metavar="CODE", help="Code of the type.")]


@commands.default
def show_types(command: Command) -> None:
    """Show all task types, or change their settings.

    \b
    headgate types
    headgate types show mail
    headgate types set mail timeout_seconds=2700 max_error_count=5 --dry-run
    headgate types remove mail
    """  # fmt: skip
    list_types(command)


@commands.add("list")
def list_types(command: Command) -> None:
    """List all task types."""
    headers = ("CODE", "LANE", "RETRIES", "TIMEOUT", "ON FAILURE", "SOURCE", "STATE")
    pauses = command.store.pauses.by_key()

    def encode(stored: StoredType) -> dict[str, Any]:
        return _type_json(stored) | _pause_json(_pause(pauses, stored))

    def row(stored: StoredType) -> tuple[Any, ...]:
        return (*_row(stored), "" if _pause(pauses, stored) is None else "paused")

    command.answer_all(
        command.store.types.all(),
        encode,
        headers,
        row,
        drop=("SOURCE", "LANE", "ON FAILURE", "RETRIES"),
        none="no task types",
    )
    print_pauses(command, (pause for pause in pauses.values() if pause.scope is PauseScope.TYPE))


def _row(stored: StoredType) -> tuple[Any, ...]:
    kind = stored.kind
    on_failure = "dead" if kind.need_manual else "failed"
    return (kind.code, kind.lane, _retries(kind), format_duration(kind.timeout_seconds), on_failure, _source(stored))


def _pause(pauses: dict[PauseKey, Pause], stored: StoredType) -> Pause | None:
    return pauses.get((PauseScope.TYPE, stored.kind.code))


def _state(pause: Pause | None) -> str:
    return "" if pause is None else pause_details(pause)


def _pause_json(pause: Pause | None) -> dict[str, Any]:
    return {"pause": None if pause is None else asdict(pause)}


def _retries(task_type: TaskType) -> str:
    retry = task_type.retry
    match retry.strategy:
        case Strategy.NONE:
            return "none"
        case Strategy.FIXED:
            return f"{retry.retries} every {format_duration(retry.interval)}"
        case Strategy.SEQUENCE:
            return f"{retry.retries} after {', '.join(format_duration(each) for each in retry.sequence)}"
    return f"{retry.retries} from {format_duration(retry.initial)} to {format_duration(retry.cap)}"


def _source(stored: StoredType) -> str:
    if stored.edited:
        return "manual edit"
    if stored.base is not None and not stored.is_packs_own:
        return f"{stored.kind.declared_by} over {stored.base.declared_by}"
    return stored.kind.declared_by


@commands.add("show")
def show_type(command: Command, code: Code) -> None:
    """Show all settings of a type, named as `set` takes them."""
    stored = command.store.types.get(code)
    pause = _pause(command.store.pauses.by_key(), stored)
    document = _type_json(stored) | _pause_json(pause)
    fields = {"code": stored.kind.code} | _editable(fields_of(stored.kind))
    if stored.kind.debounce_seconds is None:
        del fields["debounce_replace"]
    for part, configuration in document["callback"].items():
        fields |= {f"callback.{part}.{name}": value for name, value in configuration.items()}
    fields |= {"declared_by": stored.kind.declared_by or None, "source": _source(stored)}
    fields["state"] = _state(pause)
    fields["since"] = format_time(stored.update_date)
    texts = {name: _cell(value) for name, value in fields.items() if value not in (None, "", [], {})}
    command.answer_fields(document, texts)


def _editable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as `set` takes them: the timeout is in seconds."""
    return {
        "timeout_seconds" if name == "timeout" else name: _seconds(value) if name == "timeout" else value
        for name, value in fields.items()
    }


def _seconds(minutes: float) -> float:
    seconds = minutes_to_seconds(minutes)
    return int(seconds) if seconds.is_integer() else seconds


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _type_json(stored: StoredType) -> dict[str, Any]:
    task_type = stored.kind
    callback = {
        part: {name: value for name, value in configuration.items() if name != "sk"}
        for part, configuration in task_type.callback.items()
    }
    source = {"declared_by": task_type.declared_by, "edited": stored.edited, "update_date": stored.update_date}
    return {"id": stored.id, "code": task_type.code} | fields_of(task_type) | {"callback": callback} | source


@commands.add("set")
def set_type(
    command: Command,
    code: Code,
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD=VALUE",
            help=f"Settings to change: {', '.join(EDITABLE_FIELDS)}, {', '.join(CALLBACK_FIELDS)}.",
        ),
    ] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Read settings from a JSON object.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the effect on existing tasks, and change nothing.")
    ] = False,
) -> None:
    """Change a type, or create it.

    The change applies to waiting tasks too, and programs that declare the type do
    not overwrite it. Values are parsed as JSON where possible. `timeout`, in
    minutes as in the HTTP API, is accepted too. Give the secret of a callback,
    callback.security.sk, with --file: other users can read command lines.

    \b
    headgate types set mail timeout_seconds=2700 need_manual=true --dry-run
    headgate types set mail retry_strategy=sequence 'retry_sequence=[10, 60]'
    headgate types set mail 'mutex=customer:{customer_id}'
    headgate types set mail callback.success.url=https://shop.example/done
    headgate types set mail callback.success.url=null
    """  # fmt: skip
    changes = ({} if file is None else read_object(file)) | arguments_of(fields)
    if not changes:
        raise Invalid("nothing to change: give field=value or --file")

    callback = {name: value for name, value in changes.items() if name.startswith(CALLBACK)}
    plain = {name: value for name, value in changes.items() if name not in callback}
    before: TaskType | None = None

    def change(current: TaskType | None) -> TaskType:
        nonlocal before
        before = current
        after = edited(current or TaskType(code), plain)
        return _with_callback(command, after, callback) if callback else after

    types = command.store.types
    if dry_run:
        after = change(types.by_code().get(code))
        _answer_changes(command, before, after, types.preview(before, after))
    else:
        after = types.edit(code, change, actor=command.actor).kind
        _answer_changes(command, before, after, None)


def _with_callback(command: Command, task_type: TaskType, changes: Mapping[str, Any]) -> TaskType:
    """The type with these fields of its callback changed: checked, and its secret sealed, as over HTTP."""
    parts = {part: dict(fields) for part, fields in task_type.callback.items()}
    parts.get("security", {}).pop("sk", None)  # it is sealed; one that is not given stays
    for name, value in changes.items():
        if name not in CALLBACK_FIELDS:
            raise Invalid(f"a callback has no {name!r}: it has {', '.join(CALLBACK_FIELDS)}")
        _, part, field = name.split(".")
        if value is None and field in ("url", "type"):
            parts.pop(part, None)
        elif value is not None:
            parts.setdefault(part, {})[field] = value
    allowed = Allowed.parse(command.settings.callback_allow)
    sealed = sealed_callback(parts, task_type.code, Seals(command.settings.secrets), task_type.callback, allowed)
    return replace(task_type, callback=sealed)


def _answer_changes(command: Command, before: TaskType | None, after: TaskType, preview: EditPreview | None) -> None:
    changes = changes_of(before, after)
    if command.as_json:
        print_json({"code": after.code, "changes": changes} | _preview_json(preview))
        return
    if before is None:
        print_line(f"type {after.code} {'would be ' if preview else ''}created")
    elif not changes:
        print_line(f"type {after.code}: no changes")
    for field, sides in changes.items():
        values = [_editable({field: sides[side]}) for side in ("old", "new") if side in sides]
        [name] = values[0]
        print_line(f"{name}: {' → '.join(json.dumps(each[name], ensure_ascii=False) for each in values)}")
    for text in _preview_lines(preview):
        print_line(text)


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
    """What a dry run says about existing tasks."""
    if preview is None:
        return
    seen = preview.foreseen
    counts = ", ".join(f"{count} {state}" for state, count in sorted(seen.states.items()))
    yield f"\nopen tasks: {counts or 'none'}"
    if not preview.exact:
        yield f"  from the first {LOOKED_AT:,} tasks; there are more"
    if count := len(seen.given_up):
        yield f"  {count} would no longer be retried after {_its(count)} next failure: {_first_ids(seen.given_up)}"
    if count := len(seen.spared):
        yield f"  {count} would now be retried after {_its(count)} next failure: {_first_ids(seen.spared)}"
    if seen.retimed:
        yield f"  {seen.retimed} would get the new timeout from {_its(seen.retimed)} next execution on"
    if seen.stay:
        yield f"  {seen.stay} would keep {_its(seen.stay)} lane and category"
    yield "dry run: nothing was changed"


def _its(count: int) -> str:
    return "its" if count == 1 else "their"


def _first_ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids[:20])) + (", …" if len(ids) > 20 else "")


@commands.add("remove")
def remove_type(command: Command, code: Code) -> None:
    """Remove a type.

    New tasks of the type are refused, and existing ones use the default settings. A
    program that declares the type adds it again at its next start.

    \b
    headgate types remove mail
    """  # fmt: skip
    command.store.types.remove(code, actor=command.actor)
    command.answer({"code": code, "removed": True}, f"type {code} removed")
