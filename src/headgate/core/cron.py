"""When a schedule fires: standard cron by the clock of a time zone; and what becomes of missed ticks.

An expression has five fields (minute, hour, day of the month, month, day of the week), or six with seconds in front.
Where a zone sets its clock, the rule is Debian cron's:

- An expression that names its hours and minutes (neither field begins with `*`) means **times of day**. A time that the
  clock jumps over fires at the moment of the jump, once however many were jumped over; one that the clock shows twice
  fires the first time.
- Any other expression, and any with seconds, means a **rhythm**. It fires at every moment at which the clock shows a
  time that fits: never in an hour that is left out, and in both passes of one that comes twice.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from headgate.core.errors import Invalid
from headgate.core.task import check_name

HINTS = {
    "wrong number of fields": ": minute, hour, day, month and weekday, or a second before them",
    "bad second": ": 0-59", "bad minute": ": 0-59", "bad hour": ": 0-23", "bad month": ": 1-12 or JAN-DEC",
    "bad day-of-month": ": 1-31 or L, and one that its months have", "bad day-of-week": ": 0-7 or SUN-SAT",
}  # fmt: skip
LONGEST_STEPS = (("second", 59), ("minute", 59), ("hour", 23), ("day", 31), ("month", 12), ("weekday", 7))
GRACE = timedelta(seconds=60)  # a tick that is dealt with later than this was missed
LAST_YEAR = 9999  # of the calendar, and of no tick: it may be the next year elsewhere
MAX_MISSED = 1000  # ticks that are made good at once, the latest ones
NICKNAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)
_NEVER = datetime.max.replace(tzinfo=UTC)
_ANY_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 on no clock in particular


class Missed(StrEnum):
    """What happens to ticks that passed while no process ran."""

    SKIP = "skip"  # nothing
    ONCE = "once"  # one firing stands for all of them
    ALL = "all"  # each is fired, the latest 1,000 at most


class Overlap(StrEnum):
    """What happens to a tick while the task or call of an earlier one is still open."""

    ALLOW = "allow"  # it fires
    SKIP = "skip"  # it does not
    QUEUE = "queue"  # it fires, and what it begins waits for its turn


class Cron:
    """An expression on the clock of a zone; `Invalid` if it is none, or can never fire."""

    __slots__ = ("_text", "_times_of_day", "_zone")

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        check_name("cron_expressions", expression)
        self._zone = zone_of(timezone)
        # cronsim turns `2-2/5` into `2/5`, which runs to the end of the range.
        self._text = NICKNAMES.get(expression.strip().lower()) or re.sub(r"\b(\w+)-\1/\d+", r"\1", expression)
        fields = self._text.split()
        try:
            CronSim(self._text, _ANY_TIME)
        except CronSimError as error:
            reason = str(error).lower()
            text = f"{reason}{HINTS.get(reason, '')}"
            raise Invalid.of("bad-cron", expression=expression, error=text) from None
        _check_steps(expression)
        self._times_of_day = len(fields) == 5 and not fields[0].startswith("*") and not fields[1].startswith("*")
        if self._next_wall(_ANY_TIME) is None:
            raise Invalid.of("cron-never-fires", expression=expression)

    def following(self, after: datetime, until: datetime = _NEVER) -> datetime | None:
        """The first tick after `after`, in UTC; None if there is none for fifty years, up to `until`, or ever."""
        try:
            tick = self._next_time_of_day(after) if self._times_of_day else self._next_in_rhythm(after, until)
        except OverflowError:
            return None
        return tick if tick is not None and tick <= until and tick.year < LAST_YEAR else None

    def ticks(self, after: datetime, until: datetime = _NEVER) -> Iterator[datetime]:
        """All ticks after `after`, in order, up to `until`."""
        tick = self.following(after, until)
        while tick is not None:
            yield tick
            tick = self.following(tick, until)

    def local_time(self, tick: datetime) -> datetime:
        """A tick as the zone's clock shows it."""
        return tick.astimezone(self._zone)

    def _next_wall(self, wall: datetime) -> datetime | None:
        """The next time that fits, on a clock that is never set."""
        try:
            return next(CronSim(self._text, wall), None)
        except ValueError as error:  # how a calendar of ours may end, too
            raise OverflowError from error

    def _next_time_of_day(self, after: datetime) -> datetime | None:
        wall: datetime | None = after.astimezone(self._zone).replace(tzinfo=None)
        while wall is not None and (wall := self._next_wall(wall)) is not None:
            tick = _first_moment(wall, self._zone)
            if tick > after:  # else it came in the first pass of an hour that comes twice
                return tick
        return None

    def _next_in_rhythm(self, after: datetime, until: datetime) -> datetime | None:
        """By the clock's present offset; if the offset changes on the way, continue from there by the new one."""
        since, back = after, timedelta()
        searched = wall = datetime.max  # noqa: DTZ901 no time between the two fits
        while True:
            offset = _offset(self._zone, since)
            start = (since + offset - back).replace(tzinfo=None)
            if not searched <= start < wall:  # else the next time that fits is the one that was found already
                found = self._next_wall(start)
                if found is None:
                    return None
                searched, wall = start, found
            tick = wall.replace(tzinfo=UTC) - offset
            change = _change(self._zone, since, min(tick, until))
            if change is None:
                return tick if tick <= until else None
            since, back = change, _SECOND  # the moment of the change may be a tick itself


def _check_steps(expression: str) -> None:
    """`Invalid` for steps like `*/61`, which would fire only in the first minute of every hour."""
    fields = expression.split()
    for field, (name, most) in zip(reversed(fields), reversed(LONGEST_STEPS), strict=False):
        for step in re.findall(r"/(\d+)", field):
            if int(step) > most:
                raise Invalid(
                    f"{expression!r} is not a cron expression: the step of {name}s must be at most {most}, not {step}"
                )


@lru_cache(10_000)
def cron_of(expression: str, timezone: str) -> Cron:
    """A cached `Cron`, parsed once for many ticks."""
    return Cron(expression, timezone)


def preview(cron: Cron, after: datetime, count: int, enough: Callable[[], bool] = lambda: False) -> list[datetime]:
    """The next `count` ticks; fewer, but at least one, once `enough()` is true: ticks may lie decades apart."""
    ticks: list[datetime] = []
    for tick in islice(cron.ticks(after), count):
        ticks.append(tick)
        if enough():
            break
    return ticks


# Zones


@lru_cache(1_000)
def zone_of(name: str) -> tzinfo:
    """A time zone by its IANA name; UTC needs no database of zones."""
    check_name("timezone", name)
    if name == "UTC":
        return UTC
    try:
        if name.startswith(("right/", "posix/")):  # copies of the others that some systems have, one with leap seconds
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = get_close_matches(name, available_timezones(), 1)
        raise Invalid.of("unknown-time-zone", zone=name, near=near[0] if near else None) from None


def _offset(zone: tzinfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _first_moment(wall: datetime, zone: tzinfo) -> datetime:
    """When the zone's clock first shows this time, or has jumped over it."""
    before = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    behind = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if before <= behind:
        return before
    return _change(zone, behind, before) or before  # jumped over: by the later clock it would have been earlier


def _change(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """When the zone's clock is first set in that time, `until` included. It is set once a day at most."""
    if zone is UTC:
        return None
    low, offset = after.replace(microsecond=0), _offset(zone, after)
    while low < until:
        high = min(low + _DAY, until)
        if _offset(zone, high) != offset:
            while high - low > _SECOND:
                middle = low + (high - low) // _SECOND // 2 * _SECOND
                low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
            return high
        low = high
    return None


# What to do about ticks that are due


class DueTicks(NamedTuple):
    """The ticks to fire now, and the next to wait for. Ticks from `due` to the first of these are dropped."""

    fire: Sequence[datetime]
    next: datetime | None

    def dropped_until(self, due: datetime) -> datetime | None:
        """The first tick that is not dropped, if `due` is; None if nothing is dropped."""
        first = self.fire[0] if self.fire else self.next
        return None if first == due else first


def due_ticks(cron: Cron, due: datetime, now: datetime, missed: Missed) -> DueTicks:
    """What is to be done at `now` about a schedule of whose ticks `due` is the first that was not dealt with.

    A tick that is late by GRACE at most is fired, whatever the policy; of older ones `missed` decides. Where something
    fires anyhow, that is the `once` that stands for them.
    """
    if due > now:
        return DueTicks((), due)
    bound = now - GRACE
    if due > bound:
        late, after = _up_to(cron, due, now)
        return DueTicks([due, *late], after)
    late, after = _up_to(cron, bound, now)
    if missed is Missed.ALL:
        late = _latest(cron, due, bound, MAX_MISSED) + late
    elif missed is Missed.ONCE and not late:
        late = _latest(cron, due, bound, 1)
    return DueTicks(late, after)


def allowed_by_overlap(overlap: Overlap, ticks: Sequence[datetime], *, busy: bool) -> Sequence[datetime]:
    """The ticks that may fire, given whether the schedule is `busy`: something it began has not ended."""
    if overlap is Overlap.SKIP:
        return () if busy else ticks[:1]
    return ticks


def _up_to(cron: Cron, after: datetime, until: datetime) -> tuple[list[datetime], datetime | None]:
    """The ticks between the two, `until` included, and the one after them."""
    found: list[datetime] = []
    for tick in cron.ticks(after):
        if tick > until:
            return found, tick
        found.append(tick)
    return found, None


def _latest(cron: Cron, first: datetime, until: datetime, most: int) -> list[datetime]:
    """The last ticks from `first` to `until`. How far back they reach is searched for: no years of ticks are walked."""

    def ticks_after(moment: datetime) -> list[datetime]:
        return list(islice(cron.ticks(moment, until), 2 * most))

    too_late, span = until, most * _SECOND
    while len(found := ticks_after(after := max(first - _SECOND, until - span))) < most and after >= first:
        too_late, span = after, 4 * span
    while len(found) == 2 * most:  # there may be any number more; ticks are whole seconds, so the search ends
        middle = after + (too_late - after) // _SECOND // 2 * _SECOND
        if len(fewer := ticks_after(middle)) < most:
            too_late = middle
        else:
            after, found = middle, fewer
    return found[-most:]
