"""How a command ends: its exit code, and one line that says why."""

import sys

from headgate.cli.words import line
from headgate.core.errors import HeadgateError, Invalid, NotFound, Unavailable

DONE = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
UNAVAILABLE = 4
INTERRUPTED = 130  # as shells say it

MEANING = {
    DONE: "done",
    FAILED: "refused, or it did not succeed",
    USAGE: "bad usage or invalid input",
    NOT_FOUND: "no such task",
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


def tell(error: HeadgateError | str) -> None:
    """One line on stderr, in one piece: several processes may write there."""
    sys.stderr.write(f"error: {line(explained(error))}\n")
    sys.stderr.flush()


def explained(error: HeadgateError | str) -> str:
    """With what the store's server said, which is for whoever sits here and not for the API's clients."""
    said, cause = str(error), getattr(error, "__cause__", None)
    if not isinstance(error, Unavailable) or cause is None or str(cause) in said:
        return said
    return f"{said}: {str(cause).partition(chr(10))[0]}"
