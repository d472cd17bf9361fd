"""One table: a row per measurement, both stores side by side."""

from collections.abc import Mapping, Sequence

from bench.figure import Figure, Scale
from bench.measurement import Measurement

HEADS = ("", "SQLite /s", "ratio", "PostgreSQL /s", "ratio", "target", "")
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}

Figures = Mapping[str, Figure]  # by dialect


def render(results: Sequence[tuple[Measurement, Figures]], scale: Scale) -> str:
    return grid([HEADS, *(_row(measurement, figures, scale) for measurement, figures in results)])


def grid(rows: Sequence[Sequence[str]]) -> str:
    """Lines of text under a line of heads: words at the edges, figures between them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    last = len(row) - 1
    return [
        cell.ljust(width) if place in (0, last) else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _row(measurement: Measurement, figures: Figures, scale: Scale) -> tuple[str, ...]:
    cells = []
    for dialect in NAMES:
        figure = figures.get(dialect)
        cells.append("" if figure is None else f"{figure.rate:,.0f}")
        cells.append("" if figure is None or figure.ratio is None else f"{figure.ratio:.2f}")
    targets = dict.fromkeys(f"{ratio:g}" for ratio in measurement.targets.values())
    return (measurement.title(scale), *cells, " / ".join(targets), verdict(measurement, figures))


def verdict(measurement: Measurement, figures: Figures) -> str:
    """`met`, or who missed the target, and by what trouble."""
    aimed = {dialect: figures[dialect] for dialect in measurement.targets if dialect in figures}
    missed = {name: figure for name, figure in aimed.items() if _misses(figure, measurement.targets[name])}
    if not aimed:
        return ""
    if not missed:
        return "met"
    troubles = [figure.trouble for figure in missed.values() if figure.trouble]
    return ", ".join(["missed: " + " and ".join(NAMES[name] for name in missed), *troubles])


def _misses(figure: Figure, target: float) -> bool:
    return bool(figure.trouble) or figure.ratio is None or figure.ratio < target
