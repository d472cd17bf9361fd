"""The evidence, put in order for those who judge it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from headgate.core.states import FINAL, HELD, State
from headgate.simulation.evidence import Evidence, Row, TaskRecord


class Violation(NamedTuple):
    """What is wrong: the invariant that does not hold, and one sentence that says where to look."""

    invariant: str
    text: str
    task_id: int | None = None


@dataclass(slots=True)
class Tenure:
    """The time for which an exec_id owns a task, as the audit tells it."""

    task_id: int
    attempt: int
    ran: bool  # its start was confirmed
    until: float | None = None  # by the ledger's clock; None: it never ended


class Case:
    """Each task's rows in the order of their commits, and who owned it when."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.tasks: dict[int, TaskRecord] = {task.id: task for task in evidence.tasks}
        self.rows_by_task: dict[int, list[Row]] = defaultdict(list)  # transitions, and whatever else was recorded
        self.paths: dict[int, list[Row]] = defaultdict(list)  # its transitions
        for row in evidence.rows:
            if row.task_id is not None:
                self.rows_by_task[row.task_id].append(row)
                if row.seq:
                    self.paths[row.task_id].append(row)
        self._places: dict[tuple[str, str], tuple[str, ...]] = {}
        self.tenures: dict[str, Tenure] = {}
        self.attempts: dict[int, int] = {}
        for task_id, path in self.paths.items():
            self._read_tenures(task_id, path)

    def _read_tenures(self, task_id: int, path: Iterable[Row]) -> None:
        number, current = 0, None
        for row in path:
            if starts_execution(row) or row.after not in HELD:
                if current is not None:
                    current.until = row.at
                current = None
            if starts_execution(row):
                number += 1
                current = Tenure(task_id, number, row.after == State.RUNNING)
                if row.exec_id is not None:
                    self.tenures.setdefault(row.exec_id, current)
            elif current is not None and row.after == State.RUNNING:
                current.ran = True
        self.attempts[task_id] = number

    def places(self, task: TaskRecord) -> tuple[str, ...]:
        """What a task fills while it is held: its lane, and the resources its type uses."""
        key = (task.lane, task.type)
        if key not in self._places:
            uses = self.evidence.uses.get(task.type, ())
            self._places[key] = (f"lane {task.lane}", *(f"resource {name}" for name in uses))
        return self._places[key]

    def may_be_gone(self, task_id: int) -> bool:
        """Whether retention may have removed the task: then it had ended, if there is a row of it at all."""
        path = self.paths.get(task_id)
        return self.evidence.keep is not None and (not path or path[-1].after in FINAL)


def starts_execution(row: Row) -> bool:
    """Whether the row gives the task to an exec_id."""
    return row.after in HELD and row.before not in HELD


def changes_hands(row: Row) -> bool:
    """Whether a worker starts a task from the dispatcher: from here on the worker owns it."""
    return row.before == State.SCHEDULING and row.after == State.RUNNING and row.actor.startswith("worker:")
