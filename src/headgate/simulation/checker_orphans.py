"""I7 and I8: nothing is kept for too long, and nothing is left without its owner."""

from collections import Counter
from collections.abc import Iterator

from headgate.core.states import HELD, OPEN
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.checker_families import judge_families
from headgate.simulation.evidence import TaskRecord

SLACK_SECONDS = 60.0  # retention looks every few seconds and takes a batch at a time


def judge_retention(case: Case) -> Iterator[Violation]:
    keep = case.evidence.keep
    if keep is None:
        return
    for task in case.evidence.tasks:
        parent = None if task.parent_id is None else case.tasks.get(task.parent_id)
        if task.finished is None or (parent is not None and parent.status in OPEN):
            continue  # a child stays until its parent has ended
        age = case.evidence.ended_at - max(task.finished, (parent and parent.finished) or task.finished)
        if age > keep + SLACK_SECONDS:
            text = f"task {task.id} is {task.status} for {age:.0f} s and still there: {keep:.0f} s are allowed"
            yield Violation("I7", text, task.id)


def judge_orphans(case: Case) -> Iterator[Violation]:
    for task_id, rows in case.rows_by_task.items():
        if task_id not in case.tasks and not case.may_be_gone(task_id):
            text = f"task {task_id} is nowhere, its last row {rows[-1].id} says {rows[-1].after or rows[-1].kind}"
            yield Violation("I8", text, task_id)
    for task in case.evidence.tasks:
        for wrong in _judge_holder(case, task):
            yield Violation("I8", f"task {task.id} is {task.status} {wrong}", task.id)
        if task.parent_id is not None and task.parent_id not in case.tasks and not case.may_be_gone(task.parent_id):
            yield Violation("I8", f"task {task.id} has the parent {task.parent_id}, which is nowhere", task.id)
    yield from judge_families(case)
    yield from _judge_counts(case)


def _judge_holder(case: Case, task: TaskRecord) -> Iterator[str]:
    held = task.status in HELD
    for name, value in (("exec_id", task.exec_id), ("worker_id", task.worker_id)):
        if held and value is None:
            yield f"and has no {name}"
        elif not held and value is not None:
            yield f"and still has {name} {value}"
    if held and case.evidence.at_rest:
        yield f"under {task.exec_id} at the end, and is never recovered"


def _judge_counts(case: Case) -> Iterator[Violation]:
    if case.evidence.counted is None:
        return
    there = Counter(str(task.status) for task in case.evidence.tasks)
    for state in sorted({*there, *case.evidence.counted}):
        counted = case.evidence.counted.get(state, 0)
        if counted != there[state]:
            yield Violation("I8", f"{there[state]} tasks are {state}, the store counts {counted}")
