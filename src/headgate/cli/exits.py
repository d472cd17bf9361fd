"""How a command ends: its exit code, and one line that gives the reason."""

import re
import sys
from collections.abc import Sequence
from typing import Any

from headgate.cli.formatting import one_line
from headgate.core.errors import HeadgateError, Invalid, NotFound, Unavailable

DONE = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
UNAVAILABLE = 4
INTERRUPTED = 130  # as in shells

MEANING = {
    DONE: "done",
    FAILED: "refused or failed",
    USAGE: "bad usage or invalid input",
    NOT_FOUND: "not found",
    UNAVAILABLE: "the store is not available",
}


def code_of(error: HeadgateError) -> int:
    """The exit code that an error becomes."""
    match error:
        case Invalid():
            return USAGE
        case NotFound():
            return NOT_FOUND
        case Unavailable():
            return UNAVAILABLE
        case _:
            return FAILED


def print_error(error: HeadgateError | str) -> None:
    """Print one line on stderr, in one piece: several processes may write there."""
    sys.stderr.write(f"error: {one_line(message_of(error))}\n")
    sys.stderr.flush()


def naming_options(error: HeadgateError, parameters: Sequence[Any]) -> HeadgateError:
    """The error as a command says it: with its options in place of the API's fields of the same name."""
    text = str(error)
    for each in parameters:
        if "_" in each.name and each.opts[0].startswith("-"):
            text = re.sub(rf"\b{each.name}\b", each.opts[0], text)
    named = type(error)(text)
    named.__cause__ = error.__cause__
    return named


def message_of(error: HeadgateError | str) -> str:
    """The error's message; of `Unavailable` with the database's own, which the API does not show its clients."""
    message, cause = str(error), getattr(error, "__cause__", None)
    if not isinstance(error, Unavailable) or cause is None or str(cause) in message:
        return message
    return f"{message}: {str(cause).partition(chr(10))[0]}"
