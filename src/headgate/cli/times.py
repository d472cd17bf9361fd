"""Times and durations as a person types them: `14:30`, `2026-11-20`, `2026-11-20 14:30`, `2h`."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

from headgate.core.errors import Invalid
from headgate.environment import utc_now

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:?\d{2})?")
_FORMS = "2h, 14:30, 2026-11-20 or 2026-11-20 14:30 (UTC, or with +hh:mm)"
_DAY = timedelta(days=1)
NONE = "none"  # no end


def time_ahead(option: str) -> Callable[[str], datetime]:
    """Reads a time to come: a duration counts from now, `14:30` is the next time it is half past two."""
    return lambda text: _moment(option, text, utc_now(), _DAY)


def time_past(option: str) -> Callable[[str], datetime]:
    """Reads a time gone by: a duration counts back from now, `14:30` is the last time it was half past two."""
    return lambda text: _moment(option, text, utc_now(), -_DAY)


def end_ahead(option: str) -> Callable[[str], datetime | str]:
    """Reads a time to come, or `none`."""
    read = time_ahead(option)
    return lambda text: NONE if text == NONE else read(text)


def seconds(option: str) -> Callable[[str], float]:
    """Reads a duration as seconds: `90s`, `30min`, `2h`, `1d`; a number alone is seconds."""

    def read(text: str) -> float:
        found = _duration(text)
        if found is None:
            try:
                found = float(text)
            except ValueError:
                raise Invalid(f"{option} {text!r} is not a duration: write 90s, 30min, 2h or 1d") from None
        return found

    return read


def _moment(option: str, text: str, now: datetime, day: timedelta) -> datetime:
    """A time as text; `day` is how far the next time of the same hour is, which tells the future from the past."""
    try:
        length = _duration(text)
        if length is not None:
            return now + timedelta(seconds=length) * (day // _DAY)
        if not _CLOCK.fullmatch(text):
            return _in_utc(datetime.fromisoformat(text))
        clock = time.fromisoformat(text if text[2] == ":" else f"0{text}")
        found = datetime.combine(now.astimezone(clock.tzinfo or UTC), clock, clock.tzinfo or UTC)
        return _in_utc(found + day if (found <= now) == (day > timedelta()) else found)
    except (ValueError, OverflowError):
        raise Invalid(f"{option} {text!r} is not a time: write {_FORMS}") from None


def _duration(text: str) -> float | None:
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2]]


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
