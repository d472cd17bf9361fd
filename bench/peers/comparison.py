"""What is compared, what Headgate has to reach, and the table of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.percentile import percentile
from bench.table import grid

HEADS = ("", "Headgate", "peer", "ratio", "target", "")
PGQUEUER, PROCRASTINATE, CELERY, HUEY = "pgqueuer", "procrastinate", "Celery", "Huey"
OURS = {
    PGQUEUER: "postgres",
    PROCRASTINATE: "postgres",
    CELERY: "postgres",
    HUEY: "sqlite",
}  # beside which of our stores
LATENCY = "latency"

Readings = dict[tuple[str, str], list[float]]  # by what was measured and of whom: one from each round


@dataclass(frozen=True, slots=True)
class Quality:
    """One thing that is measured of everybody."""

    name: str
    title: str
    at_least: Mapping[str, float] = field(default_factory=dict)  # how many times a peer's
    at_most: Mapping[str, float] = field(default_factory=dict)  # in itself, by our store
    share: float | None = None  # the percentile of all readings; None: their median
    digits: int = 0

    def of(self, readings: Readings, whom: str) -> float | None:
        found = readings.get((self.name, whom))
        if not found:
            return None
        return median(found) if self.share is None else percentile(found, self.share)


QUALITIES = [
    Quality("drain 1", "finished/s, 1 process", {PGQUEUER: 1.6, PROCRASTINATE: 20.0, CELERY: 4.0, HUEY: 5.0}),
    Quality("drain 2", "finished/s, 2 processes", {PGQUEUER: 1.3, PROCRASTINATE: 20.0, CELERY: 4.0, HUEY: 5.0}),
    Quality("submit", "submitted/s one by one", {PGQUEUER: 1.0, HUEY: 1.0}),
    Quality("bulk", "submitted/s in bulk of 1,000", {PGQUEUER: 1.0}),
    Quality(LATENCY, "submit to start, p50, ms", at_most={"postgres": 2.5}, share=0.5, digits=1),
    Quality(LATENCY, "submit to start, p99, ms", at_most={"postgres": 8.0}, share=0.99, digits=1),
]


def render(readings: Readings) -> str:
    """One row for everything measured of Headgate and of a peer."""
    return grid([HEADS, *(row for quality in QUALITIES for row in _rows(quality, readings))])


def _rows(quality: Quality, readings: Readings) -> Iterator[Sequence[str]]:
    for peer, store in OURS.items():
        ours, theirs = quality.of(readings, store), quality.of(readings, peer)
        if ours is not None and theirs is not None:
            cells = [f"{value:,.{quality.digits}f}" for value in (ours, theirs)]
            yield (f"{quality.title} ÷ {peer}", *cells, f"{ours / theirs:.2f}", *_verdict(quality, peer, ours, theirs))


def _verdict(quality: Quality, peer: str, ours: float, theirs: float) -> tuple[str, str]:
    """The target and whether it is met."""
    if (ratio := quality.at_least.get(peer)) is not None:
        return f"≥ {ratio:g} ×", "met" if ours >= ratio * theirs else "missed"
    if (limit := quality.at_most.get(OURS[peer])) is not None:
        return f"≤ {limit:g}", "met" if ours <= limit else "missed"
    return "", ""
