"""What is compared, what Headgate has to reach, and the tables of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.percentile import percentile
from bench.table import grid

HEADS = ("", "Headgate", "peer", "ratio", "target", "")
PGQUEUER, PROCRASTINATE, CELERY, HUEY = "pgqueuer", "procrastinate", "Celery", "Huey"
DRAMATIQ, TASKIQ = "Dramatiq", "taskiq"
POSTGRES, SQLITE, BROKER = "postgres", "sqlite", "broker"
OURSELVES = {POSTGRES: "Headgate on postgres", SQLITE: "Headgate on sqlite", BROKER: "Headgate by RabbitMQ"}
PEERS = (PGQUEUER, PROCRASTINATE, CELERY, DRAMATIQ, TASKIQ, HUEY)
PAIRS = (
    (POSTGRES, PGQUEUER),
    (POSTGRES, PROCRASTINATE),
    (POSTGRES, CELERY),
    (SQLITE, HUEY),
    (BROKER, CELERY),
    (BROKER, DRAMATIQ),
    (BROKER, TASKIQ),
)
LATENCY, COMMIT, PUBLISH, OUTAGE = "latency", "commit", "publish", "outage"

Readings = dict[tuple[str, str], list[float]]  # by what was measured and of whom: one from each round
Pair = tuple[str, str]  # one of us, and a peer


@dataclass(frozen=True, slots=True)
class Quality:
    """One thing that is measured of everybody."""

    name: str
    title: str
    at_least: Mapping[Pair, float] = field(default_factory=dict)  # how many times a peer's
    at_most: Mapping[str, float] = field(default_factory=dict)  # in itself, by which of us
    share: float | None = None  # the percentile of all readings; None: their median
    digits: int = 0

    def of(self, readings: Readings, whom: str) -> float | None:
        found = readings.get((self.name, whom))
        if not found:
            return None
        return median(found) if self.share is None else percentile(found, self.share)


def _drain(processes: int, title: str, pgqueuer: float) -> Quality:
    return Quality(f"drain {processes}", title, {
        (POSTGRES, PGQUEUER): pgqueuer, (POSTGRES, PROCRASTINATE): 20.0, (POSTGRES, CELERY): 4.0,
        (SQLITE, HUEY): 5.0, (BROKER, CELERY): 2.0,
    })  # fmt: skip


P50 = Quality(LATENCY, "submit to start, p50, ms", at_most={POSTGRES: 2.5}, share=0.5, digits=1)
QUALITIES = [
    _drain(1, "finished/s, 1 process", 1.6),
    _drain(2, "finished/s, 2 processes", 1.3),
    Quality("submit", "submitted/s one by one", {(POSTGRES, PGQUEUER): 1.0, (SQLITE, HUEY): 1.0}),
    Quality("bulk", "submitted/s in bulk of 1,000", {(POSTGRES, PGQUEUER): 1.0}),
    P50,
    Quality(LATENCY, "submit to start, p99, ms", at_most={POSTGRES: 8.0}, share=0.99, digits=1),
]


def render(readings: Readings) -> str:
    """One row for everything measured of one of us and of a peer."""
    return grid([HEADS, *(row for quality in QUALITIES for row in _rows(quality, readings))])


def _rows(quality: Quality, readings: Readings) -> Iterator[Sequence[str]]:
    for us, peer in PAIRS:
        ours, theirs = quality.of(readings, us), quality.of(readings, peer)
        if ours is not None and theirs is not None:
            title = f"{quality.title}{', by RabbitMQ' if us == BROKER else ''} ÷ {peer}"
            cells = [f"{value:,.{quality.digits}f}" for value in (ours, theirs)]
            yield (title, *cells, f"{ours / theirs:.2f}", *_verdict(quality, (us, peer), ours, theirs))


def _verdict(quality: Quality, pair: Pair, ours: float, theirs: float) -> tuple[str, str]:
    """The target and whether it is met."""
    if (ratio := quality.at_least.get(pair)) is not None:
        return f"≥ {ratio:g} ×", "met" if ours >= ratio * theirs else "missed"
    if (limit := quality.at_most.get(pair[0])) is not None:
        return f"≤ {limit:g}", "met" if ours <= limit else "missed"
    return "", ""


def render_delivery(readings: Readings, poll_seconds: float) -> str:
    """What a broker between dispatcher and workers costs, and what its absence does, in milliseconds."""
    rows: list[Sequence[str]] = [("by RabbitMQ, ms", "", "target", "")]
    by_broker, direct = P50.of(readings, BROKER), P50.of(readings, POSTGRES)
    if by_broker is not None and direct is not None:
        commit, publish = (median(readings[name, BROKER]) for name in (COMMIT, PUBLISH))
        rows += [("submit to start, p50, without it", f"{direct:.1f}", "", "")]
        rows += [("one raw commit", f"{commit:.1f}", "", ""), ("one confirmed publish", f"{publish:.1f}", "", "")]
        limit = direct + 2 * commit + publish
        rows += [_limited("submit to start, p50, with it: the first, two commits and a publish", by_broker, limit)]
    if delays := readings.get((OUTAGE, BROKER)):
        limit = 1000 * (poll_seconds + 1)
        rows += [_limited("submit to start, longest after the broker was killed", max(delays), limit)]
    return grid(rows)


def _limited(title: str, found: float, limit: float) -> Sequence[str]:
    return title, f"{found:,.1f}", f"≤ {limit:,.1f}", "met" if found <= limit else "missed"
