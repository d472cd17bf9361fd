"""Keys that a task takes from its arguments: `customer:{customer_id}`.

An argument behind a question mark, `{customer_id?}`, may be missing or null: the task has no such key then.
The arguments are JSON, and only JSON is looked into: neither a template nor its arguments can reach an object of the
program.
"""

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

from headgate.core.errors import Invalid

MAX_WIDTH = 255  # as long as a key may be
MOST_QUOTED = 100
OPTIONAL = "?"
_FIELD = re.compile(r"([^.\[\]{}!:]+)((?:\.[^.\[\]]+|\[[^\]]+\])*)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([^\]]+)\]")


def names_in(template: str) -> list[str]:
    """The arguments that a template names, in its formats too (`{page:{width}}`); `Invalid` for what is none."""
    names = []
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise Invalid(f"{template!r} is not a template: {error}") from None
    for _, field, form, _ in parts:
        if field is not None:
            names += [_split(field.removesuffix(OPTIONAL), template)[0], *names_in(form or "")]
    return names


def required_names_in(template: str) -> list[str]:
    """The arguments without which a template cannot be filled in."""
    fields = [field for _, field, *_ in Formatter().parse(template) if field is not None]
    optional = {_split(field.removesuffix(OPTIONAL), template)[0] for field in fields if field.endswith(OPTIONAL)}
    return [name for name in names_in(template) if name not in optional]


def check_template(template: str) -> None:
    """`Invalid` unless it names arguments and nothing more: `{name}`, `{name.inner}`.

    Types were stored with more than that, and are still read and filled in: this is for templates that are new.
    """
    names_in(template)
    for _, field, form, conversion in Formatter().parse(template):
        if field is None:
            continue
        if form or conversion:
            what = f"{field}!{conversion}" if conversion else f"{field}:{form}"
            raise Invalid(
                f"{template!r} has {{{what}}}: a key uses an argument without conversion or format, {{{field}}}"
            )
        if _split(field.removesuffix(OPTIONAL), template)[0].isdecimal():
            raise Invalid(f"{template!r} has {{{field}}}: a key refers to arguments by name")


def fill(template: str, arguments: Mapping[str, Any]) -> str | None:
    """A template with the arguments of one task in it; `Invalid` if they do not have what it names.

    None if an argument that may be missing is.
    """
    try:
        return _Filling().vformat(template, (), arguments)
    except _Missing:
        return None
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, KeyError):
            raise Invalid(f"argument {error} is missing: the key {template!r} is made from it") from None
        raise Invalid(f"the key {template!r} cannot be made from the arguments: {error}") from None


class _Missing(Exception):
    """An argument that may be missing is not there."""


class _Filling(Formatter):
    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        name, steps = _split(field_name.removesuffix(OPTIONAL), field_name)
        if not field_name.endswith(OPTIONAL):
            return _value(kwargs, name, steps), name
        try:
            value = _value(kwargs, name, steps)
        except LookupError:
            value = None
        if value is None:
            raise _Missing
        return value, name

    def format_field(self, value: Any, format_spec: str) -> str:
        if any(int(number) > MAX_WIDTH for number in re.findall(r"\d+", format_spec)):
            raise ValueError(f"{format_spec!r} is wider than {MAX_WIDTH}")
        text = str(super().format_field(value, format_spec))
        if len(text) > MAX_WIDTH:  # before it is put in many times
            raise ValueError(f"an argument has more than {MAX_WIDTH} characters")
        return text


def _value(arguments: Mapping[str, Any], name: str, steps: list[str]) -> Any:
    value = arguments[name]
    for step in steps:
        value = _inside(value, step)
    return value


def _split(field: str, template: str) -> tuple[str, list[str]]:
    """`item.tags[0]` is the argument `item`, in it `tags`, in that the first."""
    found = _FIELD.fullmatch(field)
    if found is None:
        raise Invalid(f"{template!r} names {field!r}, which is not an argument")
    return found[1], [dotted or bracketed for dotted, bracketed in _STEP.findall(found[2])]


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value[step]
    if isinstance(value, list):
        return value[int(step)]
    raise LookupError(f"there is no {step!r} in {repr(value)[:MOST_QUOTED]}")
