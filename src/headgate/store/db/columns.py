"""The columns of a task, written down once: every list of them in a statement is made from here."""

from collections.abc import Iterable
from typing import NamedTuple

from headgate.core.task import Execution, Task


class Column(NamedTuple):
    """One column: its type on PostgreSQL, and where its value comes from. SQLite keeps times as microseconds."""

    name: str
    type: str
    writer: str  # submit (a caller brings it), change (`machine.decide` may set it), or - (statements of their own)


_TASK = """
    id                  bigint       -
    tenant_id           bigint       submit
    type                text         submit
    creator             bigint       submit
    start_time          timestamptz  -
    status              text         -
    executing_deadline  timestamptz  -
    exec_id             uuid         -
    error_count         int          change
    error_info          text         change
    category            text         submit
    remark              text         change
    ext                 text         submit
    result              text         change
    exec_time           float8       -
    create_date         timestamptz  -
    update_date         timestamptz  -
    name                text         submit
    lane                text         submit
    priority            bigint       submit change
    mutex               text         submit
    rate_key            text         submit
    agent_id            text         submit
    unique_key          text         submit
    parent_id           bigint       submit
    root_id             bigint       -
    retry_of            bigint       submit
    correlation_id      text         submit
    attempt             int          -
    lost_count          int          change
    progress            text         -
    worker_id           bigint       -
    scheduling_time     timestamptz  -
    started_at          timestamptz  -
    finished_at         timestamptz  -
    max_error_count     int          submit
    timeout_seconds     float8       submit
    cancel_requested    bool         change
    pause_requested     bool         change
    has_children        bool         change
    skip_callback       bool         change
    seq                 int          change
    stream_id           bigint       -
    uses                text         -
    claim_no            bigint       -
    on_child_failure    text         submit
    gave_up             bool         change
    children_since      bigint       -
"""
TASK = {column.name: column for column in (Column(*line.split(maxsplit=2)) for line in _TASK.strip().splitlines())}


def written_by(writer: str) -> tuple[str, ...]:
    """The columns whose value comes from there."""
    return tuple(column.name for column in TASK.values() if writer in column.writer.split())


def listed(names: Iterable[str], form: str = "{name}") -> str:
    """The names, each put into `form` with its `{type}`, separated by commas."""
    return ", ".join(form.format(name=name, type=_type(name)) for name in names)


def rows_of(names: Iterable[str], alias: str) -> str:
    """PostgreSQL: parameters that are lists, one a name, as rows of a table named `alias`."""
    names = tuple(names)
    return f"unnest({listed(names, ':{name}::{type}[]')}) AS {alias}({', '.join(names)})"


def row_of(names: Iterable[str], alias: str) -> str:
    """PostgreSQL: the same for a single row, in half the time of a list of one."""
    return f"(SELECT {listed(names, ':{name}::{type} AS {name}')}) AS {alias}"


# Parameters that are no columns.
_PARAMETERS = {
    "delay_seconds": "float8",
    "delay": "float8",
    "before": "text",
    "after": "text",
    "kind": "text",
    "detail": "text",
}


def _type(name: str) -> str:
    return TASK[name].type if name in TASK else _PARAMETERS[name]


SUBMITTED = written_by("submit")
CHANGED = tuple(name for name in written_by("change") if name != "seq")
RECORD = tuple(Task.__dataclass_fields__)  # what a `Task` is made of
OF_ROW = Execution._fields[: Execution._fields.index("lane")]  # what an `Execution` takes from its row as it is
CLAIMED = (*OF_ROW, "stream_id", "exec_id", "attempt", "executing_deadline", "timeout_seconds", "status")
EVERYTHING = tuple(TASK)
