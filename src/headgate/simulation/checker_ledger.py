"""I5: what handlers really did. Too many run at once only if the surplus had lost its task; old ones have no effect.

While its worker lives, a handler loses its task only because the worker could not renew its lease: whatever else ends
an execution waits until the handler has ended.
"""

from collections import defaultdict
from collections.abc import Iterator
from math import inf

from headgate.core.states import HELD
from headgate.simulation.checker_case import Case, Violation, changes_hands, starts_execution
from headgate.simulation.checker_limits import Allowed
from headgate.simulation.evidence import LedgerEntry
from headgate.store.execution.revoke import REAPER

END, START = 0, 1  # at the same moment, one ends before another starts


def judge_ledger(case: Case, allowed: Allowed) -> Iterator[Violation]:
    entries = sorted(case.evidence.ledger, key=lambda entry: entry.at)
    yield from _judge_effects(entries)
    yield from _judge_overlaps(case, _runs(case, entries), allowed)
    yield from _judge_ends(case, entries)


def _judge_effects(entries: list[LedgerEntry]) -> Iterator[Violation]:
    newest: dict[int, int] = {}
    for entry in entries:
        if entry.what == "start":
            newest[entry.task_id] = max(entry.attempt, newest.get(entry.task_id, 0))
        elif entry.what == "effect" and entry.accepted and entry.attempt < newest.get(entry.task_id, 0):
            text = (
                f"the effect of attempt {entry.attempt} of task {entry.task_id}, under {entry.exec_id}, was accepted "
                f"at {entry.at:.3f}, when attempt {newest[entry.task_id]} had started"
            )
            yield Violation("I5", text, entry.task_id)


def _runs(case: Case, entries: list[LedgerEntry]) -> dict[str, tuple[float, float]]:
    """From when until when each execution ran and owned its task; what a handler does later does not count."""
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    for entry in entries:
        if entry.what in ("start", "end"):
            (starts if entry.what == "start" else ends).setdefault(entry.exec_id, entry.at)
    runs = {}
    for exec_id, start in starts.items():
        tenure = case.tenures.get(exec_id)
        if tenure is None:
            continue
        end, lost = ends.get(exec_id, inf), inf if tenure.until is None else tenure.until
        if end > lost + case.evidence.skew:
            end = lost - case.evidence.skew
        if end > start:
            runs[exec_id] = (start, end)
    return runs


def _judge_overlaps(case: Case, runs: dict[str, tuple[float, float]], allowed: Allowed) -> Iterator[Violation]:
    moments = sorted(
        (at, what, exec_id) for exec_id, run in runs.items() for at, what in zip(run, (START, END), strict=True)
    )
    running: dict[str, dict[str, int]] = defaultdict(dict)  # by place: executions, and how many there could be
    for at, what, exec_id in moments:
        task_id = case.tenures[exec_id].task_id
        for place, capacity in _gates(case, task_id, allowed.get(exec_id, {})):
            here = running[place]
            if what == END:
                here.pop(exec_id, None)
                continue
            here[exec_id] = capacity
            # The execution that the audit started last found all the others running: the capacity at its start counts.
            if len(here) > max(here.values()):
                tasks = ", ".join(str(case.tenures[other].task_id) for other in here)
                text = (
                    f"at {at:.3f} the handlers of tasks {tasks} ran at once in {place}, of which "
                    f"{max(here.values())} may, and each owned its task"
                )
                yield Violation("I5", text, task_id)


def _gates(case: Case, task_id: int, allowed: dict[str, int]) -> Iterator[tuple[str, int]]:
    known = case.tasks.get(task_id)
    if known is None:
        return
    for place in case.places(known):
        if place in allowed:
            yield place, allowed[place]
    if known.mutex is not None:
        yield f"mutex {known.mutex!r} of tenant {known.tenant_id}", 1


def _judge_ends(case: Case, entries: list[LedgerEntry]) -> Iterator[Violation]:
    """Nothing but a lost lease ends an execution whose handler still runs."""
    workers = {f"worker:{worker_id}" for worker_id in case.evidence.workers}
    started = {entry.exec_id for entry in entries if entry.what == "start"}
    gone = {entry.exec_id: entry.at for entry in entries if entry.what in ("end", "died")}
    for task_id, path in case.paths.items():
        worker, exec_id = "", ""
        for row in path:
            if starts_execution(row) or changes_hands(row):
                worker, exec_id = row.actor, row.exec_id or ""
            elif row.before in HELD and row.after not in HELD and worker in workers and exec_id in started:
                lease_lost = row.actor == REAPER and row.kind != "overdue"
                if not lease_lost and gone.get(exec_id, inf) > row.at + case.evidence.skew:
                    text = f"row {row.id} ({row.kind}) of task {task_id} ends {exec_id}, whose handler still ran"
                    yield Violation("I5", text, task_id)
