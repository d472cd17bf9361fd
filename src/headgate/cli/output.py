"""What commands print: tables for people, JSON for programs."""

import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

import headgate.core.family as family
from headgate.cli.formatting import format_ago, format_number, format_time, printable
from headgate.cli.table import GAP, column_widths, total_width
from headgate.core.family import Census
from headgate.core.forecast import Forecast
from headgate.core.states import State
from headgate.core.task import Task
from headgate.environment import utc_now

# B1's names first, in its order; `show` adds events, log and checkpoints.
FIELDS = (
    "id", "tenant_id", "type", "creator", "start_time", "status", "executing_deadline", "exec_id", "error_count",
    "error_info", "category", "remark", "ext", "result", "exec_time", "create_date", "update_date",
    "name", "lane", "priority", "mutex", "rate_key", "attempt", "lost_count", "agent_id", "parent_id", "retry_of",
    "unique_key", "progress", "correlation_id", "scheduling_time", "started_at", "finished_at", "on_child_failure",
    "gave_up",
)  # fmt: skip
INDENT = "    "
AS_JSON = frozenset({"ext", "result", "progress"})
TONE: dict[str, str] = {
    State.PENDING: "cyan", State.BLOCKED: "yellow", State.QUEUED: "cyan", State.SCHEDULING: "blue",
    State.RUNNING: "blue", State.WAITING: "blue", State.PAUSED: "yellow", State.RETRYING: "yellow",
    State.NOTIFYING: "green", State.SUCCEEDED: "green", State.PARTIAL: "yellow", State.FAILED: "red",
    State.DEAD: "bold red", State.RESOLVED: "green", State.CANCELLED: "dim",
    "delivered": "green", "undeliverable": "bold red", "dropped": "dim",
    "ok": "green", "warn": "yellow", "fail": "bold red", "open": "green", "closed": "yellow",
}  # fmt: skip


# For programs


def print_json(value: Any) -> None:
    """Print one JSON document on a line."""
    print(json.dumps(value, ensure_ascii=False, default=_encode_time))


def _encode_time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def task_json(task: Task) -> dict[str, Any]:
    """A task for programs; what is stored as JSON text is a value here."""
    fields = {name: getattr(task, name) for name in FIELDS}
    return fields | {name: json.loads(fields[name]) for name in AS_JSON if fields[name] is not None}


def forecast_json(forecast: Forecast | None) -> dict[str, Any] | None:
    if forecast is None:
        return None
    seconds = None if forecast.seconds is None else round(forecast.seconds, 1)
    return {
        "at": forecast.at, "in_seconds": seconds, "reason": forecast.reason, "code": forecast.code,
        "params": forecast.params, "ahead": forecast.ahead,
    }  # fmt: skip


# For people


def _terminal_width() -> int | None:
    """The width of the terminal; None if this is no terminal: a pipe has no edge."""
    return Console(file=sys.stdout).width if sys.stdout.isatty() else None


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    drop: Sequence[str] = (),
    wrap: bool = False,
    below: bool = False,
) -> None:
    """Print rows under their headers. A cell that is in `TONE` has its colour.

    On a terminal that is too narrow, times are told from now, long cells are cut, or with `wrap` broken into lines;
    then the columns in `drop` are left out, in that order. With `below` the last column is put under its row instead.
    The first column is always whole.
    """
    rows, terminal = list(rows), _terminal_width()
    cells = [[printable(_cell_text(cell)) for cell in row] for row in rows]
    natural = _natural_widths(headers, cells)
    available = total_width(natural) if terminal is None else terminal
    if total_width(natural) <= available:
        below = False
    elif below:
        last = [row.pop() for row in cells]
        headers, natural, wrap = headers[:-1], natural[:-1], True
    else:
        now = utc_now()
        cells = [[printable(_cell_text(cell, now)) for cell in row] for row in rows]
        natural = _natural_widths(headers, cells)
    widths = column_widths(natural, available, [headers.index(header) for header in drop if header in headers])
    columns = [(headers[place], width, headers[place] in right) for place, width in widths.items()]
    texts = [[Text(row[place], style=TONE.get(row[place], "")) for place in widths] for row in cells]
    if not below:
        _print_grid(columns, texts, wrap=wrap, headed=any(headers))
        return
    _print_grid(columns, [], wrap=wrap, headed=any(headers))
    for row, text in zip(texts, last, strict=True):
        _print_grid(columns, [row], wrap=wrap, headed=False)
        print_below(text, available)


def print_below(text: str, width: int) -> None:
    """Print a text under the line that it belongs to, indented."""
    for line in textwrap.wrap(text, width - len(INDENT), break_on_hyphens=False):
        print(f"{INDENT}{line}")


def _cell_text(cell: Any, now: datetime | None = None) -> Any:
    """A time in full, or with `now` from now; anything else as it is."""
    if not isinstance(cell, datetime):
        return cell
    return format_time(cell) if now is None else format_ago(cell, now)


def _natural_widths(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max((cell_len(line) for row in (headers, *cells) for line in row[place].split("\n")), default=0)
        for place in range(len(headers))
    ]


def _print_grid(
    columns: Sequence[tuple[str, int, bool]], rows: Sequence[Sequence[Text]], *, wrap: bool, headed: bool
) -> None:
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=headed)
    for header, width, is_right in columns:
        grid.add_column(
            header,
            width=width,
            justify="right" if is_right else "left",
            no_wrap=not wrap,
            overflow="fold" if wrap else "ellipsis",
        )
    for row in rows:
        grid.add_row(*row)
    width = sum(width for _, width, _ in columns) + GAP * len(columns)
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(grid)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_fields(fields: dict[str, Any]) -> None:
    """Print a record, a field per line; without the empty ones."""
    print_table(("", ""), [(name, value) for name, value in fields.items() if value not in (None, "")], wrap=True)


def print_line(text: str) -> None:
    print(printable(text))


def print_wrapped(text: str) -> None:
    """Print a sentence; on a terminal in lines that fit."""
    width = _terminal_width()
    print(printable(text) if width is None else textwrap.fill(printable(text), width, break_on_hyphens=False))


def print_note(text: str) -> None:
    """Print something beside the answer, on stderr."""
    print(printable(text), file=sys.stderr)


def progress_text(task: Task, census: Census | None = None) -> str:
    """How far a task is: `3 of 10  packing`."""
    progress = progress_value(task, census)
    if progress is None:
        return ""
    if not isinstance(progress, dict):
        return json.dumps(progress)
    done, total, failed, text = (progress.get(name) for name in ("done", "total", "failed", "note"))
    counted = format_number(done) if total is None else f"{format_number(done)} of {format_number(total)}"
    parts = [] if done is None else [counted]
    parts += [f"{format_number(failed)} failed"] if failed else []
    return "  ".join([*parts, *([str(text)] if text else [])]) or json.dumps(progress)


def progress_value(task: Task, census: Census | None) -> Any:
    """The progress that a task reported; for a parent whose children were counted, theirs."""
    own = None if task.progress is None else json.loads(task.progress)
    return own if census is None else family.progress_of(own, task.status, census.children)
