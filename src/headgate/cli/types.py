"""`headgate types`: what holds for every task of a type, seen and edited."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.options import Json, Url
from headgate.cli.output import document, say, table
from headgate.cli.stores import ready
from headgate.cli.submitting import arguments_of
from headgate.cli.words import at, span
from headgate.core.errors import Invalid
from headgate.core.kinds import WORDS, changes_of, edited, words_of
from headgate.core.retry import Strategy
from headgate.core.task import TaskType
from headgate.store.kinds import LOOKED_AT, Kept, Rehearsal

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
    with ready(url) as store:
        found = store.kinds.all()
    if as_json:
        for kept in found:
            document(_json(kept))
        return
    table(
        ("CODE", "LANE", "RETRIES", "TIMEOUT", "THEN", "SAID BY"),
        [
            (
                kept.kind.code, kept.kind.lane, _retries(kept.kind), span(kept.kind.timeout_seconds),
                "dead" if kept.kind.need_manual else "failed", _said_by(kept),
            )
            for kept in found
        ],
    )  # fmt: skip


def _retries(kind: TaskType) -> str:
    retry = kind.retry
    match retry.strategy:
        case Strategy.NONE:
            return "none"
        case Strategy.FIXED:
            return f"{retry.retries} every {span(retry.interval)}"
        case Strategy.SEQUENCE:
            return f"{retry.retries} after {', '.join(span(each) for each in retry.sequence)}"
    return f"{retry.retries} from {span(retry.initial)} × {retry.factor:g} to {span(retry.cap)}"


def _said_by(kept: Kept) -> str:
    return "a person" if kept.edited else kept.kind.declared_by


@commands.command("show")
def show_type(code: Code, url: Url = None, as_json: Json = False) -> None:
    """Show all that holds for a type's tasks, in the words that `set` takes.

    \b
    headgate types show download
    """  # fmt: skip
    with ready(url) as store:
        kept = store.kinds.get(code)
    if as_json:
        document(_json(kept))
        return
    said = {"code": kept.kind.code} | words_of(kept.kind)
    for part, about in _json(kept)["callback"].items():
        said |= {f"callback.{part}.{name}": value for name, value in about.items()}
    said |= {"declared_by": kept.kind.declared_by or None, "said_by": _said_by(kept), "since": at(kept.update_date)}
    table(("", ""), [(word, _shown(value)) for word, value in said.items() if value not in (None, "", [], {})])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(kept: Kept) -> dict[str, Any]:
    kind = kept.kind
    callback = {
        part: {name: value for name, value in about.items() if name != "sk"} for part, about in kind.callback.items()
    }
    about = {"declared_by": kind.declared_by, "edited": kept.edited, "update_date": kept.update_date}
    return {"code": kind.code} | words_of(kind) | {"callback": callback} | about


@commands.command("set")
def set_type(
    code: Code,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD=VALUE", help=f"What to change: {', '.join(WORDS)}.", show_default=False),
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
    said = ({} if file is None else _words_in(file)) | arguments_of(words or [], None)
    if not said:
        raise Invalid("say what to change: word=value, or --file")

    was: TaskType | None = None

    def change(before: TaskType | None) -> TaskType:
        nonlocal was
        was = before
        return edited(before or TaskType(code), said)

    with ready(url) as store:
        if dry_run:
            kind = change(store.types().get(code))
            _tell(code, was, kind, store.kinds.rehearse(was, kind), as_json)
        else:
            kept = store.kinds.edit(code, change)
            _tell(code, was, kept.kind, None, as_json)


def _words_in(file: str) -> dict[str, Any]:
    try:
        said = json.loads(Path(file).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    if not isinstance(said, dict):
        raise Invalid(f"{file} is not one JSON object")
    return said


def _tell(
    code: str, before: TaskType | None, after: TaskType, rehearsal: Rehearsal | None, as_json: bool
) -> None:  # fmt: skip
    changes = changes_of(before, after)
    if as_json:
        document({"code": code, "changes": changes} | _rehearsal_json(rehearsal))
        return
    if before is None:
        say(f"type {code} {'would be' if rehearsal else 'is'} new")
    elif not changes:
        say(f"type {code}: nothing changes")
    for word, sides in changes.items():
        told = [json.dumps(sides[side], ensure_ascii=False) for side in ("old", "new") if side in sides]
        say(f"{word}: {' → '.join(told)}")
    for told_of in _lines(rehearsal):
        say(told_of)


def _rehearsal_json(rehearsal: Rehearsal | None) -> dict[str, Any]:
    if rehearsal is None:
        return {}
    seen = rehearsal.foreseen
    told = {
        "states": seen.states, "given_up": seen.given_up, "spared": seen.spared, "retimed": seen.retimed,
        "stay": seen.stay, "as_of": rehearsal.as_of, "exact": rehearsal.exact,
    }  # fmt: skip
    return {"foreseen": told}


def _lines(rehearsal: Rehearsal | None) -> Iterable[str]:
    """What a dry run says of the tasks there are."""
    if rehearsal is None:
        return
    seen = rehearsal.foreseen
    counts = ", ".join(f"{count} {state}" for state, count in sorted(seen.states.items()))
    yield f"\ntasks that have not ended: {counts or 'none'}"
    if not rehearsal.exact:
        yield f"  of {LOOKED_AT:,} of them; there are more"
    if seen.given_up:
        yield f"  {len(seen.given_up)} would end with their next failure, and would not now: {_some(seen.given_up)}"
    if seen.spared:
        yield f"  {len(seen.spared)} would be tried again after it, and would not now: {_some(seen.spared)}"
    if seen.retimed:
        yield f"  {seen.retimed} get the new timeout with their next execution"
    if seen.stay:
        yield f"  {seen.stay} stay in the lane and category they have"
    yield "nothing was changed"


def _some(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids[:20])) + (", …" if len(ids) > 20 else "")


@commands.command("remove")
def remove_type(code: Code, url: Url = None, as_json: Json = False) -> None:
    """Forget a type: nothing new of it is taken on, and what is there ends by the defaults.

    A program that declares it registers it again when it starts.

    \b
    headgate types remove download
    """  # fmt: skip
    with ready(url) as store:
        store.remove_type(code)
    if as_json:
        document({"code": code, "removed": True})
    else:
        say(f"type {code} is forgotten")
