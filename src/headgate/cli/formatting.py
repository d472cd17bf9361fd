"""Times and texts as people read them."""

from datetime import datetime, timedelta
from typing import Any


def printable(value: Any) -> str:
    """A value as text: nothing in it can steer a terminal."""
    text = "" if value is None else str(value)
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)


def one_line(value: Any) -> str:
    """A value as text on one line."""
    return " ".join(printable(value).split())


def format_time(moment: datetime | None) -> str:
    """A time in UTC, to the second."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"


def format_ago(moment: datetime | None, now: datetime) -> str:
    """A time as people say it: `12 min ago`, `in 5 h`."""
    if moment is None:
        return ""
    length = now - moment
    return f"in {format_duration(-length)}" if length < timedelta() else f"{format_duration(length)} ago"


def format_duration(length: timedelta | float) -> str:
    """A length of time, roughly: `0.3 s`, `40 s`, `12 min`, `3.5 h`, `9 d`."""
    seconds = max(length.total_seconds() if isinstance(length, timedelta) else length, 0.0)
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if round(seconds) >= 1.5 * size:
            return f"{_rounded(seconds / size)} {unit}"
    return f"{_rounded(seconds)} s"


def format_run_time(length: timedelta | float) -> str:
    """How long something took: `8 ms` where a tenth of a second says too little."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    return f"{max(seconds * 1000, 1):.0f} ms" if 0 < seconds < 0.1 else format_duration(seconds)


def _rounded(value: float) -> str:
    """A value with one decimal place below 10, except a whole number of 1 or more."""
    text = f"{value:.0f}" if value >= 10 else f"{value:.1f}"
    return text.removesuffix(".0") if value >= 1 else text


def format_number(value: Any) -> str:
    """A number as people write it: `3`, `1.5`, `1,500,000`; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == round(value, 2) or abs(value) >= 0.01:
        return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    return f"{value:.2g}"
