"""The partial indexes of tasks and events: which rows are in each; for list indexes also the name and columns."""

from dataclasses import dataclass

from headgate.core.events import ACT_KINDS

# The planner uses an index only for a statement that names the index's states.
HELD_STATES = "('scheduling', 'running')"  # headgate_task_held, headgate_task_using
LINE_STATES = "('queued', 'blocked', 'waiting')"  # headgate_task_line
TIMED_STATES = "('pending', 'retrying')"  # headgate_task_timed
STOPPED_STATES = "('dead', 'notifying')"  # headgate_task_stopped

_ACT_KINDS = ", ".join(f"'{kind}'" for kind in ACT_KINDS)
# headgate_task_event_act
ACTS = (
    f"(task_id IS NULL OR (kind IN ({_ACT_KINDS})"
    " AND substr(actor, 1, 7) <> 'worker:' AND substr(actor, 1, 6) <> 'agent:'))"
)

LIVE, PAST = TABLES = ("headgate_task", "headgate_task_his")


@dataclass(frozen=True, slots=True)
class Index:
    """The rows of a table that have the same in `columns`, in the order of their ids; without a name: all its rows."""

    table: str
    name: str = ""
    columns: tuple[tuple[str, str], ...] = ()  # with PostgreSQL's types
    only: str = "1 = 1"  # which rows are in it
    in_order: bool = True


FOR_LISTS = "id + 0 > 0"  # a statement must have this condition to use an index made for lists
WHOLE = {table: Index(table) for table in TABLES}
BY_KEY = {  # the first of these that is asked for says most
    (table, name): Index(table, f"{table}_by_{name}", ((name, kind),), f"{FOR_LISTS} AND {only}")
    for name, kind, only in (
        ("correlation_id", "text", "correlation_id IS NOT NULL"),
        ("mutex", "text", "mutex IS NOT NULL"),
        ("creator", "bigint", "creator <> 0"),
    )
    for table in TABLES
}
CHILDREN = {
    table: Index(table, f"{table}_child", (("parent_id", "bigint"), ("status", "text")), "parent_id IS NOT NULL")
    for table in TABLES
}
_STATUS = (("status", "text"), ("stream_id", "bigint"))
BY_STATUS = {
    LIVE: Index(
        LIVE,
        "headgate_task_by_status",
        _STATUS,
        f"{FOR_LISTS} AND status <> 'queued' AND status <> 'scheduling' AND status <> 'running'",
    ),
    PAST: Index(PAST, "headgate_task_his_by_status", _STATUS, FOR_LISTS),
}
READY = Index(LIVE, "headgate_task_ready", (("stream_id", "bigint"), ("priority", "bigint")), "status = 'queued'")
RUNNING = Index(LIVE, "headgate_task_held", (), f"status IN {HELD_STATES}", in_order=False)
