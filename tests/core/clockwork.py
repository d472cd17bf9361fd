"""What cron ought to do, minute by minute: slow, and simple enough to be believed."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE, DAY = timedelta(minutes=1), 1440
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = {
    name: str(number)
    for names, first in (("SUN MON TUE WED THU FRI SAT", 0), ("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
    for number, name in enumerate(names.split(), first)
}


def members(field: str, low: int, high: int) -> set[int]:
    """`*`, `5`, `1-5`, `*/10`, `1-30/2`, `5/10`, and lists of these."""
    found: set[int] = set()
    for part in field.upper().split(","):
        body, _, step = part.partition("/")
        first, _, last = body.partition("-")
        if body == "*":
            begin, end = low, high
        else:
            begin = int(_NAMES.get(first, first))
            end = int(_NAMES.get(last, last)) if last else (high if step else begin)
        found.update(range(begin, end + 1, int(step or 1)))
    return found


class Expression:
    """Five fields, spelled out."""

    def __init__(self, text: str) -> None:
        fields = text.split()
        minutes, hours, self._days, self._months, weekdays = (
            members(field, *bounds) for field, bounds in zip(fields, _RANGES, strict=True)
        )
        self._weekdays = {day % 7 for day in weekdays}
        self._both = fields[2].startswith("*") or fields[4].startswith("*")
        self.times_of_day = not fields[0].startswith("*") and not fields[1].startswith("*")
        self._minutes = {hour * 60 + minute for hour in hours for minute in minutes}
        self._day = cache(self._is_day)

    def fits(self, wall: int) -> bool:
        """Whether it names this minute of a calendar."""
        return wall % DAY in self._minutes and self._day(wall // DAY)

    def _is_day(self, number: int) -> bool:
        day = date(1970, 1, 1) + timedelta(days=number)
        by_date, by_weekday = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        named = (by_date and by_weekday) if self._both else (by_date or by_weekday)
        return day.month in self._months and named


def stepped(text: str, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Every tick behind `begin`, up to `end`: look at the clock each minute."""
    expression, clock = Expression(text), ZoneInfo(zone)
    walls = _walls(clock, begin - timedelta(hours=4), end)  # so that a first pass is known when the second comes
    latest = next(walls)[1]
    for moment, wall in walls:
        if not expression.times_of_day:
            fires = expression.fits(wall)
        else:  # once for all that was jumped over and what is shown now; not for what was shown before
            fires = any(expression.fits(each) for each in range(latest + 1, wall + 1))
        latest = max(latest, wall)
        if fires and moment > begin:
            yield moment


def _walls(clock: ZoneInfo, begin: datetime, end: datetime) -> Iterator[tuple[datetime, int]]:
    """Each minute, and the minute that the clock shows then. Clocks are set at a quarter of an hour."""
    moment = begin.replace(minute=begin.minute // 15 * 15)
    while moment <= end:
        offset = moment.astimezone(clock).utcoffset()
        assert offset is not None
        wall = (moment - _EPOCH + offset) // MINUTE
        for ahead in range(15):
            if moment + ahead * MINUTE <= end:
                yield moment + ahead * MINUTE, wall + ahead
        moment += 15 * MINUTE


def changes(zone: str, first_year: int, last_year: int) -> list[datetime]:
    """The quarters of an hour at which the clock is set, once a day at most."""
    clock, found = ZoneInfo(zone), []
    moment = datetime(first_year, 1, 1, tzinfo=UTC)
    while moment.year <= last_year:
        tomorrow = moment + timedelta(days=1)
        while moment.astimezone(clock).utcoffset() != tomorrow.astimezone(clock).utcoffset():
            offset = moment.astimezone(clock).utcoffset()
            moment += timedelta(minutes=15)
            if moment.astimezone(clock).utcoffset() != offset:
                found.append(moment)
        moment = tomorrow
    return found
