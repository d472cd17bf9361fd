"""When a task will likely start, and when a lane drains: arithmetic on what was measured lately.

A task starts when the last of its gates lets it through, so each gate is asked when it will have let through whatever
goes first, and the latest answer counts. Those that go first may be held up by gates of their own: a million that wait
for tokens fill no lane. Where nobody can know (a pause, no worker, nothing ever measured) there is no number.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean
from typing import NamedTuple

from headgate.core.gates import Gate
from headgate.core.limits import Rate

ROUNDS = 64
A_LITTLE_MORE = 0.1  # of what it has taken: what is left of an execution that outlasts all we know of
LONGEST = 100 * 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """In how many seconds, and when, something will likely happen; None where nobody can say, and why."""

    seconds: float | None
    reason: str
    ahead: int = 0  # how many go first at the gate that decides
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How long executions of one kind took lately, in seconds, and how many of them a task needed."""

    seconds: tuple[float, ...]
    starts: float = 1.0

    @property
    def each(self) -> float:
        """How long a task fills a place, all its executions together."""
        return fmean(self.seconds) * self.starts

    def left(self, elapsed: float) -> float:
        """How long one that has gone on for `elapsed` seconds will go on: as those did that took longer."""
        longer = [seconds - elapsed for seconds in self.seconds if seconds > elapsed]
        return fmean(longer) if longer else A_LITTLE_MORE * elapsed


# A limit says when it lets the one behind `ahead` others through, and how many it lets through in a while. `each` is
# how long they fill a place. None: that depends on something nobody has measured.


@dataclass(frozen=True, slots=True)
class Slots:
    """So many at once. `busy` is how long each of those who hold a place will go on."""

    count: int
    busy: tuple[float | None, ...] = ()

    def wait(self, ahead: float, each: float | None) -> float | None:
        number = int(ahead)
        if number < self.count - len(self.busy):
            return 0.0
        if self.count == 0:
            return math.inf
        known = [left for left in self.busy if left is not None]
        if len(known) < len(self.busy) or (each is None and number >= self.count):
            return None
        return self._frees(known)[number % self.count] + number // self.count * (each or 0.0)

    def passed(self, seconds: float, each: float | None) -> float:
        if not each:
            return math.inf if self.count else 0.0
        known = [0.0 if left is None else left for left in self.busy]
        return sum(1 + (seconds - free) // each for free in self._frees(known) if free <= seconds)

    def _frees(self, busy: list[float]) -> list[float]:
        """When each place is free; where more hold one than there are, the first to go leave none."""
        return [0.0] * (self.count - len(busy)) + sorted(busy)[max(len(busy) - self.count, 0) :]

    def told(self, each: float | None) -> str:
        return f"{self.count} at a time" + (f", about {spoken(each)} each" if each else "")


@dataclass(frozen=True, slots=True)
class Tokens:
    """So many a second; the bucket is full again in `full_in` seconds."""

    limit: Rate
    full_in: float = 0.0

    def wait(self, ahead: float, each: float | None) -> float | None:
        return max(0.0, self.full_in + (int(ahead) + 1 - self.limit.burst) / self.limit.rate)

    def passed(self, seconds: float, each: float | None) -> float:
        return max(0.0, self.limit.burst + (seconds - self.full_in) * self.limit.rate)

    def told(self, each: float | None) -> str:
        return f"{self.limit.rate:g} a second"


Limit = Slots | Tokens


class Line(NamedTuple):
    """Tasks that go first, and the limits they pass. `each` None: nobody has measured how long one takes."""

    ahead: float
    each: float | None
    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a task meets: every limit by name, those that are its own, and the lines before it."""

    limits: Mapping[str, Limit]
    own: tuple[str, ...]
    lines: Sequence[Line]


NOTHING = Scene({}, (), ())


class Crowd(NamedTuple):
    """The tasks of one stream that meet the one asked about: those of a smaller priority, and those of its own.

    Of its own tenant these are the ones before it, of another tenant all of them: tenants take turns.
    """

    tenant_id: int
    before: int
    beside: int
    each: float | None
    limits: tuple[str, ...]


def lines_of(crowds: Iterable[Crowd], tenant_id: int) -> list[Line]:
    """The lines before a task of this tenant: another's go first as often as it is their turn before ours."""
    crowds = list(crowds)
    beside: dict[int, int] = defaultdict(int)
    for crowd in crowds:
        beside[crowd.tenant_id] += crowd.beside
    turns = beside[tenant_id] + 1
    share = {other: min(1.0, turns / count) for other, count in beside.items() if count}
    share[tenant_id] = 1.0
    return _merged(
        Line(crowd.before + crowd.beside * share.get(crowd.tenant_id, 1.0), crowd.each, crowd.limits)
        for crowd in crowds
    )


def _merged(lines: Iterable[Line]) -> list[Line]:
    """One line for all that pass the same limits."""
    found: dict[tuple[bool, tuple[str, ...]], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for line in lines:
        key = (line.each is None, line.limits)
        count, work = found[key]
        found[key] = (count + line.ahead, work + line.ahead * (line.each or 0.0))
    return [
        Line(count, None if unknown else work / count, limits)
        for (unknown, limits), (count, work) in found.items()
        if count
    ]


# Asking the gates

UNMEASURED = "nothing like it has finished lately: how long one takes is not known"
FOR_GOOD = frozenset({"pause", "worker"})  # shut until somebody does something


def start_of(gates: Sequence[Gate], scene: Scene, now: datetime) -> Forecast | None:
    """When a task will likely start whose gates are `gates`; None if it has started or will not."""
    shut = {gate.name: gate for gate in gates if not gate.open}
    if "state" in shut:
        return None
    for name in FOR_GOOD & shut.keys():
        return Forecast(None, shut[name].reason)
    slowest = _slowest(scene)
    time = shut.get("time")
    if slowest.seconds is not None and time is not None and time.until is not None:
        ahead = (time.until - now).total_seconds()
        if ahead >= slowest.seconds:
            return Forecast(ahead, time.reason, at=time.until)
    return _forecast(slowest, scene, now)


def end_of(scene: Scene, each: float | None, left: Sequence[float | None], now: datetime) -> Forecast:
    """When all will have ended of which the last meets `scene` and takes `each` seconds, and `left` run already."""
    slowest = _slowest(scene)
    if slowest.seconds is None or each is None or None in left:
        return Forecast(None, UNMEASURED)
    running = max((seconds for seconds in left if seconds is not None), default=0.0)
    ends = _Answer(slowest.limit, max(slowest.seconds + each, running), slowest.ahead, slowest.each)
    return _forecast(ends, scene, now)


def _forecast(slowest: "_Answer", scene: Scene, now: datetime) -> Forecast:
    if slowest.seconds is None:
        return Forecast(None, f"{slowest.limit}: {UNMEASURED}")
    if slowest.seconds == math.inf:
        return Forecast(None, f"{slowest.limit}: its capacity is 0")
    seconds = min(slowest.seconds, LONGEST)
    at = now + timedelta(seconds=seconds)
    if not slowest.limit:
        return Forecast(seconds, "nothing is in the way", at=at)
    ahead = int(slowest.ahead)
    told = scene.limits[slowest.limit].told(slowest.each)
    reason = f"{slowest.limit}: {f'{ahead} ahead' if ahead else 'next in line'}, {told}"
    return Forecast(seconds, reason, ahead, at)


class _Answer(NamedTuple):
    """When a limit will have let everything through that goes first; `limit` is empty if none is in the way."""

    limit: str
    seconds: float | None
    ahead: float
    each: float | None


def _slowest(scene: Scene) -> _Answer:
    """The own limit that takes longest; one that nobody can know about counts as such, but for one that is shut."""
    answers = [_ask(scene, name) for name in scene.own]
    unknown = [answer for answer in answers if answer.seconds is None]
    known = max((a for a in answers if a.seconds), key=lambda a: a.seconds or 0.0, default=_Answer("", 0.0, 0.0, None))
    return unknown[0] if unknown and known.seconds != math.inf else known


def _ask(scene: Scene, name: str) -> _Answer:
    """Wait as long as what passes meanwhile takes: the longer the wait, the more of the held-up ones go first."""
    limit, lines = scene.limits[name], [line for line in scene.lines if name in line.limits]
    seconds = 0.0
    for _ in range(ROUNDS):
        counts = _let_through(scene, lines, seconds)
        ahead, each = sum(counts), _mean(lines, counts)
        answer = limit.wait(ahead, each)
        if answer is None or answer <= seconds * 1.001:
            return _Answer(name, answer, ahead, each)
        seconds = answer
    counts = [line.ahead for line in lines]
    return _Answer(name, limit.wait(sum(counts), _mean(lines, counts)), sum(counts), _mean(lines, counts))


def _let_through(scene: Scene, lines: Sequence[Line], seconds: float) -> list[float]:
    """How many of each line come this far within `seconds`, with the limits that are theirs alone in their way."""
    counts = [line.ahead for line in lines]
    for name in sorted({other for line in lines for other in line.limits} - set(scene.own)):
        members = [number for number, line in enumerate(lines) if name in line.limits]
        total = sum(counts[number] for number in members)
        each = _mean([lines[number] for number in members], [counts[number] for number in members])
        allowed = scene.limits[name].passed(seconds, each)
        if total > allowed:
            for number in members:
                counts[number] *= allowed / total
    return counts


def _mean(lines: Sequence[Line], counts: Sequence[float]) -> float | None:
    """How long one of them takes, on average; None if that is not known of all."""
    total, work = 0.0, 0.0
    for line, count in zip(lines, counts, strict=True):
        if count and line.each is None:
            return None
        total, work = total + count, work + count * (line.each or 0.0)
    return work / total if total else 0.0


def spoken(seconds: float) -> str:
    """A length of time to two digits: `0.25 s`, `40 s`, `12 min`, `3.5 h`."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


class Paces:
    """What is known of each type in each lane: as measured there, else anywhere, else as the lane's others."""

    def __init__(self, measured: Mapping[tuple[str, str], Pace]) -> None:
        self._measured = measured
        self._known: dict[tuple[str, str], Pace | None] = dict(measured)

    def of(self, lane: str, kind: str) -> Pace | None:
        if (lane, kind) not in self._known:
            alike = [pace for (_, other), pace in self._measured.items() if other == kind]
            alike = alike or [pace for (where, _), pace in self._measured.items() if where == lane]
            seconds = tuple(second for pace in alike for second in pace.seconds)
            starts = [pace.starts for pace in alike]
            self._known[lane, kind] = Pace(seconds, fmean(starts)) if seconds else None
        return self._known[lane, kind]

    def each(self, lane: str, kind: str) -> float | None:
        pace = self.of(lane, kind)
        return None if pace is None else pace.each

    def left(self, lane: str, kind: str, elapsed: float) -> float | None:
        pace = self.of(lane, kind)
        return None if pace is None else pace.left(elapsed)
