"""Errors that are the same but for what differs from one task to the next: numbers and ids."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TRACEBACK = "Traceback (most recent call last)"
_MODULES = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*(?::|$))")  # "shop.errors.Declined: …", as a traceback says
_VARYING = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b0x[0-9a-f]+\b|\d[\d.,:]*", re.IGNORECASE)
_SHORTEST, _LONGEST = 4, 200


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Tasks of one type that died of the same. `error`: what varies is an ellipsis; `contains`: text to search for."""

    type: str
    error: str
    contains: str
    count: int


def grouped(rows: Iterable[tuple[str, str | None, int]]) -> list[ErrorGroup]:
    """Groups of (type, error_info, how many), the largest first."""
    counts: dict[tuple[str, str], int] = {}
    pieces: dict[tuple[str, str], str] = {}
    for code, error, count in rows:
        line = headline(error or "")
        key = code, _VARYING.sub("…", line)
        counts[key] = counts.get(key, 0) + count
        pieces.setdefault(key, _longest_piece(line))
    found = [ErrorGroup(*key, pieces[key], count) for key, count in counts.items()]
    return sorted(found, key=lambda group: -group.count)


def headline(error: str) -> str:
    """The first line of an error, or the last of one that is a traceback and nothing else; without its modules."""
    lines = error.strip().split("\n")
    line = lines[-1] if lines[0].startswith(_TRACEBACK) else lines[0]
    return _MODULES.sub("", line.strip())


def _longest_piece(line: str) -> str:
    longest = max((piece.strip() for piece in _VARYING.split(line)), key=len)
    return longest[:_LONGEST] if len(longest) >= _SHORTEST else ""
