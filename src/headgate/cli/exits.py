"""How a command ends: its exit code, and one line that gives the reason."""

import sys

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


def message_of(error: HeadgateError | str) -> str:
    """The error's message; of `Unavailable` with the database's own, which the API does not show its clients."""
    message, cause = str(error), getattr(error, "__cause__", None)
    if not isinstance(error, Unavailable) or cause is None or str(cause) in message:
        return message
    return f"{message}: {str(cause).partition(chr(10))[0]}"
