"""What a measurement gives: a rate, and its ratio to another rate taken in the same moments."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything one run does."""

    rounds: int = 3
    turns: int = 4  # of each side within a round, alternating, so that both sides meet the same noise
    seconds: float = 1.0  # of each side of a round that runs by the clock
    tasks: int = 24_000  # of each side of a round that runs by the task
    depth: int = 1_000_000
    line: int = 100_000  # behind one mutex
    passing: int = 150_000  # while a snapshot is held
    contest: float = 5.0  # seconds that processes compete for
    drain: int = 60_000  # tasks that wait for worker processes
    probes: int = 200  # tasks on an idle system
    idle: float = 10.0  # seconds that a worker is left alone, and is then watched
    kills: int = 20
    pages: int = 600  # tasks of a lane whose forecasts are watched


FULL = Scale()
QUICK = Scale(1, 2, 0.5, 4_000, 100_000, 10_000, 30_000, 2.0, 4_000, 20, 3.0, 4, 300)


@dataclass(frozen=True, slots=True)
class Spent:
    """Work done and the seconds it took."""

    count: int
    seconds: float

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.count + other.count, self.seconds + other.seconds)

    @property
    def rate(self) -> float:
        return self.count / self.seconds


@dataclass(frozen=True, slots=True)
class Figure:
    rate: float
    ratio: float | None = None
    trouble: str = ""  # misses the target, whatever the ratio


Work = Callable[[], Spent]


def alone(scale: Scale, ours: Work) -> Figure:
    """The median rate of all rounds."""
    return Figure(median(_turns(scale.turns, [ours])[0].rate for _ in range(scale.rounds)))


def against(scale: Scale, base: Work, ours: Work, turns: int | None = None) -> Figure:
    """Alternate `base` and `ours`; the median rate of ours, and the median of the rounds' ratios."""
    rounds = [_turns(turns or scale.turns, [base, ours]) for _ in range(scale.rounds)]
    return Figure(median(mine.rate for _, mine in rounds), median(mine.rate / other.rate for other, mine in rounds))


def _turns(turns: int, sides: list[Work]) -> list[Spent]:
    spent = [Spent(0, 0.0)] * len(sides)
    for _ in range(turns):
        spent = [before + side() for before, side in zip(spent, sides, strict=True)]
    return spent
