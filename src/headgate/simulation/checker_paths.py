"""I2 and I3: each task's rows are a path of the state machine, and each step is taken by an actor that may take it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import product

import headgate.core.machine as machine
from headgate.core.errors import Refused
from headgate.core.family import Children
from headgate.core.machine import Event, decide
from headgate.core.retry import fixed
from headgate.core.states import FINAL, HELD, State
from headgate.core.task import MAX_LOST, TaskType
from headgate.simulation.checker_case import Case, Violation, starts_execution
from headgate.simulation.evidence import Row

# The table of the machine

EVENTS: tuple[Event, ...] = (
    machine.Due(), machine.CameForward(), machine.SentBack(), machine.Scheduled(), machine.Started(),
    machine.Returned(), machine.Returned(completed=False), machine.Raised("", 1.0), machine.Raised(""),
    machine.Snoozed(1.0), machine.PauseReached(), machine.CancelReached(), machine.GivenBack(), machine.Unconfirmed(),
    machine.LeaseLost(), machine.Overdue(), machine.CancelRequested(), machine.PauseRequested(), machine.Resumed(),
    machine.Resumed(due=False), machine.Prioritized(1), machine.Rescheduled(datetime.max.replace(tzinfo=UTC)),
    machine.Rescheduled(due=True), machine.Debounced(datetime.max.replace(tzinfo=UTC)), machine.RetryAsked(),
    machine.Resolved(""), machine.Discarded(), machine.Delivered(), machine.Adopted(),
    machine.ChildrenEnded(Children()), machine.ChildrenEnded(Children(1, 1)), machine.ChildrenEnded(Children(0, 1)),
)  # fmt: skip
_RULES = (  # and how often a task of it was lost before
    (TaskType("patient", retry=fixed(1.0, retries=1), callback={"success": {}}), 0),
    (TaskType("hasty"), MAX_LOST - 1),
    (TaskType("manual", need_manual=True), MAX_LOST - 1),
)
BIRTHS = frozenset((None, "submitted", state.value) for state in (State.PENDING, State.QUEUED, State.BLOCKED))


@dataclass(frozen=True, slots=True)
class _Anyone:
    """A task as `decide` sees it."""

    status: State
    pause_requested: bool
    cancel_requested: bool
    has_children: bool
    gave_up: bool
    skip_callback: bool
    mutex: str | None
    lost_count: int
    id: int = 0
    error_count: int = 0
    max_error_count: int | None = None


@cache
def transitions() -> frozenset[tuple[str | None, str, str]]:
    """Every (before, kind, after) that the machine knows, and how tasks come into being."""
    found: set[tuple[str | None, str, str]] = set(BIRTHS)
    for status, event in product(State, EVENTS):
        found |= _outcomes(status, event)
    return frozenset(found)


def _outcomes(status: State, event: Event) -> set[tuple[str | None, str, str]]:
    found: set[tuple[str | None, str, str]] = set()
    yes_first = (True, False)
    for flags in product(yes_first, yes_first, yes_first, yes_first, yes_first, (None, "m")):
        for rules, lost_count in _RULES:
            try:
                change = decide(_Anyone(status, *flags, lost_count), event, rules)
            except Refused:
                if not found:  # not even when asked to pause, which is tried first: the state alone refuses it
                    return found
            else:
                found.add((status.value, change.kind, change.status.value))
    return found


# I2


def judge_paths(case: Case) -> Iterator[Violation]:
    for task in case.evidence.tasks:
        if task.id not in case.paths:
            yield Violation("I2", f"task {task.id} is {task.status} and has no audit row", task.id)
    for task_id, path in case.paths.items():
        if wrong := _first_wrong(path):
            yield Violation("I2", f"task {task_id}: {wrong}", task_id)
        there, last = case.tasks.get(task_id), path[-1]
        if there is not None and (there.status, there.seq) != (last.after, last.seq):
            text = (
                f"task {task_id} is {there.status} with seq {there.seq}, its last row {last.id} says {last.after} "
                f"with seq {last.seq}"
            )
            yield Violation("I2", text, task_id)


def _first_wrong(path: list[Row]) -> str | None:
    """Where the path breaks."""
    seq, state = 0, None
    for row in path:
        if row.seq != seq + 1:
            return f"row {row.id} has seq {row.seq} behind {seq}"
        if row.before != state:
            return f"row {row.id} ({row.kind}) begins at {row.before}, the one before it ended at {state}"
        if state in FINAL:
            return f"row {row.id} ({row.kind}) changes to {row.after} after its end, {state}"
        if (row.before, row.kind, row.after) not in transitions():
            return f"row {row.id} goes from {row.before} to {row.after} by {row.kind}, which no event does"
        seq, state = row.seq, row.after
    return None


# I3


def judge_tenures(case: Case) -> Iterator[Violation]:
    begun: dict[str, int] = {}
    for task_id, rows in case.rows_by_task.items():
        holder: str | None = None
        for row in rows:
            wrong, holder = _step(row, holder, begun)
            if wrong:
                yield Violation("I3", f"task {task_id}: row {row.id} ({row.kind}) {wrong}", task_id)
        if (task := case.tasks.get(task_id)) is None:
            continue
        if task.status in HELD and task.exec_id is not None and task.exec_id != holder:
            text = f"task {task_id} is {task.status} under {task.exec_id}, its rows gave it to {holder}"
            yield Violation("I3", text, task_id)
        if task.attempt != (starts := case.attempts.get(task_id, 0)):
            text = f"task {task_id} is at attempt {task.attempt} and was started {starts} times"
            yield Violation("I3", text, task_id)
    yield from _judge_ledger_starts(case)


def _step(row: Row, holder: str | None, begun: dict[str, int]) -> tuple[str | None, str | None]:
    """What is wrong with the row, and who holds the task behind it."""
    by = row.exec_id
    if not row.seq:
        if by is None or (by == holder) != (row.kind == "refused"):
            return None, holder
        if row.kind == "refused":
            return f"refuses {by}, which holds the task", holder
        return f"is by {by}, the task is held by {holder}", holder
    if starts_execution(row):
        if by is None:
            return "starts under no exec_id", None
        first = begun.setdefault(by, row.id)
        return (f"starts {by} again, which row {first} started" if first != row.id else None), by
    after = holder if row.after in HELD else None
    if row.before in HELD:
        if by != holder and (by is not None or row.before != row.after):
            return f"is by {by}, the task is held by {holder}", after
    elif by is not None:
        return f"is by {by}, although no worker holds the task", after
    return None, after


def _judge_ledger_starts(case: Case) -> Iterator[Violation]:
    starts = [entry for entry in case.evidence.ledger if entry.what == "start"]
    for exec_id, count in Counter(entry.exec_id for entry in starts).items():
        if count > 1:
            tenure = case.tenures.get(exec_id)
            text = f"the handler was started {count} times under {exec_id}"
            yield Violation("I3", text, None if tenure is None else tenure.task_id)
    for entry in starts:
        tenure = case.tenures.get(entry.exec_id)
        if tenure is None and entry.task_id not in case.rows_by_task and case.may_be_gone(entry.task_id):
            continue
        if tenure is None or tenure.task_id != entry.task_id or not tenure.ran:
            text = f"the handler of task {entry.task_id} ran under {entry.exec_id}, which the audit never started"
            yield Violation("I3", text, entry.task_id)
        elif tenure.attempt != entry.attempt:
            text = (
                f"the handler of task {entry.task_id} ran under {entry.exec_id} as attempt {entry.attempt}, "
                f"it is number {tenure.attempt}"
            )
            yield Violation("I3", text, entry.task_id)
