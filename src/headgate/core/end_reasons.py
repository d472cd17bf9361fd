"""Why an attempt failed and why a task ended: stable codes, which events, attempts and messages carry."""

from enum import StrEnum

HEAD_CHARACTERS = 200


class EndReason(StrEnum):
    ERROR = "error"  # it failed, and runs again
    EXHAUSTED = "exhausted"  # it failed, and no retries are left
    FATAL = "fatal"  # it failed with an error that is never retried
    UNKNOWN = "unknown"  # it failed with an error of no known class, which its type does not retry
    ARGUMENTS = "arguments"  # its arguments do not fit its handler
    OVERDUE = "overdue"  # it ran past its deadline, or held its mutex too long
    MEMORY = "memory"  # it used more memory than it may
    LOST = "lost"  # its executor was lost
    POISON = "poison"  # its executor was lost too often
    CHILDREN = "children"  # none of its children succeeded
    CANCELLED = "cancelled"
    DISCARDED = "discarded"  # a person gave it up


_NOT_RETRIED = {
    EndReason.FATAL: "errors of this class are never retried",
    EndReason.UNKNOWN: "its type retries known errors only",
    EndReason.ARGUMENTS: "its arguments do not match the handler",
    EndReason.POISON: "its worker was lost too often",
    EndReason.CANCELLED: "it was cancelled",
}


def why_not_retried(reason: EndReason, error_count: int) -> str:
    """For people: why a task that had failed `error_count` times before does not run again."""
    return _NOT_RETRIED.get(reason, "no retries left" if error_count else "it has no retries")


def head_of(error: str) -> str:
    """What an error is, on one line, cut to what an event may carry: its first line, of a bare traceback the last."""
    text = error.strip()
    line = text.rpartition("\n")[2] if text.startswith("Traceback (") else text.partition("\n")[0]
    return line if len(line) <= HEAD_CHARACTERS else line[: HEAD_CHARACTERS - 1] + "…"
