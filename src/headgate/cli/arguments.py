"""Arguments of tasks as a person types them: `key=value` pairs, and JSON in a file."""

import json
import sys
from pathlib import Path
from typing import Any

from headgate.core.errors import Invalid


def arguments_of(pairs: list[str] | None, ext: str | None = None) -> dict[str, Any]:
    """The arguments of a task, from `key=value` pairs over a JSON object."""
    try:
        found = {} if ext is None else json.loads(ext)
    except ValueError as error:
        raise Invalid(f"--ext is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise Invalid("--ext must be a JSON object: the arguments by name")
    for pair in pairs or []:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise Invalid(f"{pair!r} is not an argument: use key=value")
        found[key] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return text


def ids_and_pairs(words: list[str]) -> tuple[list[int], list[str]]:
    """Task IDs and `key=value` pairs, told apart."""
    pairs = [word for word in words if "=" in word]
    ids = [word for word in words if "=" not in word]
    for word in ids:
        if not (word.isascii() and word.isdigit()):
            raise Invalid(f"{word!r} is neither a task ID nor key=value")
    return [int(word) for word in ids], pairs


def read_text(file: str) -> str:
    """The text of a file, or of stdin if it is `-`."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {file}: {error}") from None


def read_object(file: str) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        fields = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{file} is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Invalid(f"{file} must hold one JSON object")
    return fields
