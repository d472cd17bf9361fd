"""What an execution used of its machine. None: not measurable for this execution alone."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds; the most memory resident at once; bytes read from and written to disk."""

    cpu_seconds: float
    memory_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None


def greater(one: Usage | None, other: Usage | None) -> Usage | None:
    """The greater of each figure: of two measurements of one execution, neither is too high."""
    if one is None or other is None:
        return one or other
    return Usage(
        max(one.cpu_seconds, other.cpu_seconds),
        max(_known(one.memory_bytes, other.memory_bytes), default=None),
        max(_known(one.read_bytes, other.read_bytes), default=None),
        max(_known(one.written_bytes, other.written_bytes), default=None),
    )


def total_usage(used: Sequence[Usage]) -> Usage:
    """The sum of what several use at one moment, as far as it is known."""
    memory = _known(*(each.memory_bytes for each in used))
    read = _known(*(each.read_bytes for each in used))
    written = _known(*(each.written_bytes for each in used))
    return Usage(
        round(sum(each.cpu_seconds for each in used), 2),
        sum(memory) if memory else None,
        sum(read) if read else None,
        sum(written) if written else None,
    )


def _known(*figures: int | None) -> list[int]:
    return [figure for figure in figures if figure is not None]
