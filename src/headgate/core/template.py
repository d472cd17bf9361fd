"""Keys that a task takes from its arguments: `customer:{customer_id}`.

The arguments are JSON, and JSON is all that is looked into: whoever writes a template, or fills it, reaches no
object of ours by it.
"""

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

from headgate.core.errors import Invalid

MAX_WIDTH = 255  # as long as a key may be
_FIELD = re.compile(r"([^.\[\]{}!:]+)((?:\.[^.\[\]]+|\[[^\]]+\])*)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([^\]]+)\]")


def names_in(template: str) -> list[str]:
    """The arguments that a template names, in its formats too (`{page:{width}}`); `Invalid` for what is none."""
    names = []
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise Invalid(f"{template!r} is no template: {error}") from None
    for _, field, form, _ in parts:
        if field is not None:
            names += [_split(field, template)[0], *names_in(form or "")]
    return names


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
            raise Invalid(f"{template!r} has {{{what}}}: a key takes an argument as it is, {{{field}}}")
        if _split(field, template)[0].isdecimal():
            raise Invalid(f"{template!r} has {{{field}}}: a key takes arguments by their names")


def fill(template: str, arguments: Mapping[str, Any]) -> str:
    """A template with the arguments of one task in it; `Invalid` if they do not have what it names."""
    try:
        return _Filling().vformat(template, (), arguments)
    except (LookupError, TypeError, ValueError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise Invalid(f"{template!r} cannot be filled in: {reason}") from None


class _Filling(Formatter):
    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        name, steps = _split(field_name, field_name)
        value = kwargs[name]
        for step in steps:
            value = _inside(value, step)
        return value, name

    def format_field(self, value: Any, format_spec: str) -> str:
        if any(int(number) > MAX_WIDTH for number in re.findall(r"\d+", format_spec)):
            raise ValueError(f"{format_spec!r} is wider than {MAX_WIDTH}")
        return str(super().format_field(value, format_spec))


def _split(field: str, template: str) -> tuple[str, list[str]]:
    """`item.tags[0]` is the argument `item`, in it `tags`, in that the first."""
    found = _FIELD.fullmatch(field)
    if found is None:
        raise Invalid(f"{template!r} names {field!r}, which is no argument")
    return found[1], [dotted or bracketed for dotted, bracketed in _STEP.findall(found[2])]


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value[step]
    if isinstance(value, list):
        return value[int(step)]
    raise LookupError(f"there is no {step!r} in {value!r}")
