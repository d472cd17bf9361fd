"""When a task will likely start, and when a lane drains: arithmetic on what was measured lately.

A task starts when the last of its gates lets it through. So for each gate we ask when it will have let through all the
tasks ahead, and the latest answer counts. Tasks ahead may be held up by gates of their own: a million that wait for
tokens fill no lane. Where the answer is unknown (a pause, no worker, nothing measured yet) there is no number.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from statistics import fmean
from typing import NamedTuple

from headgate.core.gates import Gate
from headgate.core.limits import Rate, limit_name
from headgate.core.reasons import Params, text_of
from headgate.core.turns import DEFAULT_WEIGHT, Weights

ROUNDS = 64
OVERRUN_SHARE = 0.1  # of its age: what is left of an execution that runs longer than any measured
LONGEST = 100 * 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """In how many seconds, and when, something will likely happen; None if that is unknown, and why."""

    seconds: float | None
    code: str  # of the reason: one of `reasons.TEXTS`
    params: Params = field(default_factory=dict)
    ahead: int = 0  # how many go first at the gate that decides
    at: datetime | None = None

    @property
    def reason(self) -> str:
        """What decides, in English."""
        return text_of(self.code, self.params)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long executions of one type took lately, in seconds, and how many of them a task needed."""

    seconds: tuple[float, ...]
    starts: float = 1.0

    @property
    def each(self) -> float:
        """How long a task fills a place, all its executions together."""
        return fmean(self.seconds) * self.starts

    def remaining(self, elapsed: float) -> float:
        """How much longer an execution `elapsed` seconds old will run, judged by executions that took longer."""
        longer = [seconds - elapsed for seconds in self.seconds if seconds > elapsed]
        return fmean(longer) if longer else OVERRUN_SHARE * elapsed


# A limit tells when it lets through the task behind `ahead` others, and how many it lets through in a given time.
# `each` is how long a task fills a place. None: it depends on something that was never measured.


@dataclass(frozen=True, slots=True)
class Slots:
    """`count` tasks at once. `busy`: how much longer each running task fills its place."""

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
        """When each place is free; if more tasks run than there are places, the first to end free none."""
        return [0.0] * (self.count - len(busy)) + sorted(busy)[max(len(busy) - self.count, 0) :]

    def reason(self, each: float | None) -> tuple[str, Params]:
        return "slots-ahead", {"slots": self.count, "each_seconds": each}


@dataclass(frozen=True, slots=True)
class Tokens:
    """A rate of starts; the bucket is full again in `full_in` seconds."""

    limit: Rate
    full_in: float = 0.0

    def wait(self, ahead: float, each: float | None) -> float | None:
        return max(0.0, self.full_in + (int(ahead) + 1 - self.limit.burst) / self.limit.rate)

    def passed(self, seconds: float, each: float | None) -> float:
        return max(0.0, self.limit.burst + (seconds - self.full_in) * self.limit.rate)

    def reason(self, each: float | None) -> tuple[str, Params]:
        return "tokens-ahead", {"rate": self.limit.rate}


Limit = Slots | Tokens


class TasksAhead(NamedTuple):
    """How many tasks go first, and the limits they pass. `each` None: how long one takes was never measured.

    Those of a `rival`, another tenant, go first as often as it is its turn: `per_turn` of them for each of ours.
    """

    tasks: float
    each: float | None
    limits: tuple[str, ...]
    rival: int | None = None
    per_turn: float = 1.0


@dataclass(frozen=True, slots=True)
class Contention:
    """What a task competes for: every limit by name, those it must pass itself, and the tasks that go first."""

    limits: Mapping[str, Limit]
    own: tuple[str, ...]
    ahead: Sequence[TasksAhead]


NO_CONTENTION = Contention({}, (), ())


class StreamBacklog(NamedTuple):
    """The tasks of one stream that compete with a given one: of a tenant that takes turns with its own, all of them,
    otherwise only those before it."""

    rival: int | None  # the tenant that takes turns with the task's own; None: they simply go first
    tasks: int
    each: float | None
    limits: tuple[str, ...]


def tasks_ahead(backlogs: Iterable[StreamBacklog], tenant_id: int, weights: Weights) -> list[TasksAhead]:
    """The tasks that compete with one of this tenant, those that pass the same limits in one entry."""
    found: dict[tuple[bool, tuple[str, ...], int | None], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for backlog in backlogs:
        key = (backlog.each is None, backlog.limits, backlog.rival)
        count, work = found[key]
        found[key] = (count + backlog.tasks, work + backlog.tasks * (backlog.each or 0.0))
    own = weights.get(tenant_id, DEFAULT_WEIGHT)
    return [
        TasksAhead(
            count,
            None if unknown else work / count,
            limits,
            rival,
            1.0 if rival is None else weights.get(rival, DEFAULT_WEIGHT) / own,
        )
        for (unknown, limits, rival), (count, work) in found.items()
        if count
    ]


# Asking the gates


def needs_a_person(gate: Gate) -> bool:
    """Whether a gate stays closed until a person acts."""
    if gate.code == "agents-busy" and not gate.params["busy"]:  # nothing of theirs ends, so only they can ask again
        return True
    return not gate.open and gate.code in ("task-paused", "paused", "no-worker", "agent-away") and gate.until is None


def forecast_start(gates: Sequence[Gate], contention: Contention, now: datetime) -> Forecast | None:
    """When a task will likely start whose gates are `gates`; None if it has started or will not."""
    closed = {gate.name: gate for gate in gates if not gate.open}
    if "state" in closed:
        return None
    for gate in closed.values():
        if needs_a_person(gate):
            return Forecast(None, gate.code, gate.params)
    slowest = _slowest(contention)
    dated = [
        (gate.until, gate) for name, gate in closed.items() if name in ("time", "pause") and gate.until is not None
    ]
    if slowest.seconds is not None and dated:
        until, gate = max(dated, key=itemgetter(0))
        ahead = (until - now).total_seconds()
        if ahead >= slowest.seconds:
            return Forecast(ahead, gate.code, gate.params, at=until)
    return _forecast(slowest, contention, now)


def forecast_end(contention: Contention, each: float | None, left: Sequence[float | None], now: datetime) -> Forecast:
    """When all will have ended: the last meets `contention` and takes `each` seconds, `left` are running already."""
    slowest = _slowest(contention)
    if slowest.seconds is None or each is None or None in left:
        return Forecast(None, "unmeasured")
    running = max((seconds for seconds in left if seconds is not None), default=0.0)
    ends = _Wait(slowest.limit, max(slowest.seconds + each, running), slowest.ahead, slowest.each)
    return _forecast(ends, contention, now)


def _forecast(slowest: "_Wait", contention: Contention, now: datetime) -> Forecast:
    kind, _, name = slowest.limit.partition(" ")
    limit: Params = {"limit": kind, "name": limit_name(name)}
    if slowest.seconds is None:
        return Forecast(None, "limit-unmeasured", limit)
    if slowest.seconds == math.inf:
        return Forecast(None, "no-capacity", limit)
    seconds = min(slowest.seconds, LONGEST)
    at = now + timedelta(seconds=seconds)
    if not slowest.limit:
        return Forecast(seconds, "nothing-ahead", at=at)
    ahead = int(slowest.ahead)
    code, params = contention.limits[slowest.limit].reason(slowest.each)
    return Forecast(seconds, code, {**limit, "ahead": ahead, **params}, ahead, at)


class _Wait(NamedTuple):
    """When a limit will have let through all that goes first; `limit` is empty if none is in the way."""

    limit: str
    seconds: float | None
    ahead: float
    each: float | None


def _slowest(contention: Contention) -> _Wait:
    """The longest wait at a limit of its own; an unknown wait counts as longest, unless another never ends."""
    waits = [_wait_at(contention, name) for name in contention.own]
    unknown = [wait for wait in waits if wait.seconds is None]
    known = max((w for w in waits if w.seconds), key=lambda w: w.seconds or 0.0, default=_Wait("", 0.0, 0.0, None))
    return unknown[0] if unknown and known.seconds != math.inf else known


def _wait_at(contention: Contention, name: str) -> _Wait:
    """Wait as long as what passes meanwhile takes: the longer the wait, the more of the held-up ones go first."""
    limit, groups = contention.limits[name], [group for group in contention.ahead if name in group.limits]
    seconds = 0.0
    for _ in range(ROUNDS):
        counts = _in_turn(groups, _let_through(contention, groups, seconds))
        ahead, each = sum(counts), _mean(groups, counts)
        wait = limit.wait(ahead, each)
        if wait is None or wait <= seconds * 1.001:
            return _Wait(name, wait, ahead, each)
        seconds = wait
    counts = _in_turn(groups, [group.tasks for group in groups])
    return _Wait(name, limit.wait(sum(counts), _mean(groups, counts)), sum(counts), _mean(groups, counts))


def _in_turn(groups: Sequence[TasksAhead], counts: Sequence[float]) -> list[float]:
    """How many of each group start first, of the given ones: a rival's as often as it has a turn before ours."""
    turns = 1 + sum(count for group, count in zip(groups, counts, strict=True) if group.rival is None)
    rivals: dict[int, float] = defaultdict(float)
    for group, count in zip(groups, counts, strict=True):
        if group.rival is not None:
            rivals[group.rival] += count
    return [
        count if group.rival is None or not count else count * min(1.0, turns * group.per_turn / rivals[group.rival])
        for group, count in zip(groups, counts, strict=True)
    ]


def _let_through(contention: Contention, groups: Sequence[TasksAhead], seconds: float) -> list[float]:
    """How many of each group come this far within `seconds`, with the limits that are theirs alone in their way."""
    counts = [group.tasks for group in groups]
    for name in sorted({other for group in groups for other in group.limits} - set(contention.own)):
        members = [number for number, group in enumerate(groups) if name in group.limits]
        total = sum(counts[number] for number in members)
        each = _mean([groups[number] for number in members], [counts[number] for number in members])
        allowed = contention.limits[name].passed(seconds, each)
        if total > allowed:
            for number in members:
                counts[number] *= allowed / total
    return counts


def _mean(groups: Sequence[TasksAhead], counts: Sequence[float]) -> float | None:
    """How long a task takes on average; None if that is not known of all."""
    total, work = 0.0, 0.0
    for group, count in zip(groups, counts, strict=True):
        if count and group.each is None:
            return None
        total, work = total + count, work + count * (group.each or 0.0)
    return work / total if total else 0.0


class Paces:
    """The pace of each type in each lane: as measured there, else in any lane, else that of the lane's other types."""

    def __init__(self, measured: Mapping[tuple[str, str], Pace]) -> None:
        self._measured = measured
        self._known: dict[tuple[str, str], Pace | None] = dict(measured)

    def of(self, lane: str, task_type: str) -> Pace | None:
        if (lane, task_type) not in self._known:
            alike = [pace for (_, other), pace in self._measured.items() if other == task_type]
            alike = alike or [pace for (where, _), pace in self._measured.items() if where == lane]
            seconds = tuple(second for pace in alike for second in pace.seconds)
            starts = [pace.starts for pace in alike]
            self._known[lane, task_type] = Pace(seconds, fmean(starts)) if seconds else None
        return self._known[lane, task_type]

    def each(self, lane: str, task_type: str) -> float | None:
        pace = self.of(lane, task_type)
        return None if pace is None else pace.each

    def remaining(self, lane: str, task_type: str, elapsed: float) -> float | None:
        pace = self.of(lane, task_type)
        return None if pace is None else pace.remaining(elapsed)
