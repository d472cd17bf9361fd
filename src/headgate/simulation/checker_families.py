"""I8, families: a parent ends after its children and as they did, and gets none after its end."""

from collections import defaultdict
from collections.abc import Iterator

from headgate.core.family import ENDED_WELL
from headgate.core.states import FINAL, OPEN, State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.evidence import Row

_CHILDLESS = FINAL | {State.DEAD, State.NOTIFYING}  # a task in these states gets no child
_ENDS = _CHILDLESS
_WAS_OVER = frozenset({State.DEAD, State.NOTIFYING})  # a task that leaves these states has been judged before


class _Family:
    """What is known of a task as a parent, in the life it has: a dead one that is retried begins another."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.children: set[int] = set()
        self.cancelled = False
        self.gave_up = False

    def read(self, row: Row) -> None:
        if row.before == State.DEAD and row.after in OPEN:
            self.__init__()  # type: ignore[misc]
        self.status = row.after
        self.cancelled |= row.kind == "cancel_requested"
        self.gave_up |= row.kind == "giving_up"

    @property
    def is_ending(self) -> bool:
        return self.status == State.WAITING and (self.cancelled or self.gave_up)


def judge_families(case: Case) -> Iterator[Violation]:
    families: dict[int, _Family] = defaultdict(_Family)
    for row in case.evidence.rows:
        task = None if row.task_id is None or not row.seq else case.tasks.get(row.task_id)
        if task is None:
            continue
        if row.before is None and task.parent_id is not None:
            parent = families[task.parent_id]
            if parent.status in _CHILDLESS or parent.is_ending:
                state = "going" if parent.is_ending else parent.status
                text = f"row {row.id} makes task {task.id} when its parent {task.parent_id} was {state}"
                yield Violation("I8", text, task.id)
            parent.children.add(task.id)
        family = families[task.id]
        if family.children and row.after in _ENDS and row.before not in _WAS_OVER:
            states = [families[child].status for child in sorted(family.children)]
            if wrong := _wrong_end(row, family, states, all_there=case.evidence.keep is None):
                yield Violation("I8", f"row {row.id} makes task {task.id} {row.after} {wrong}", task.id)
        family.read(row)


def _wrong_end(row: Row, family: _Family, states: list[str | None], *, all_there: bool) -> str | None:
    """What is wrong with a parent's end; how its children ended is judged only if none was removed since."""
    still_open = sum(state in OPEN for state in states)
    if still_open:
        return f"with {still_open} of its children open"
    if row.before != State.WAITING:
        return f"from {row.before}, without a look at its children"
    well = sum(state in ENDED_WELL for state in states)
    right = _right_ends(family, well, len(states) - well)
    if all_there and row.after not in right:
        return f"with {well} of its {len(states)} children succeeded: it should be {' or '.join(sorted(right))}"
    return None


def _right_ends(family: _Family, well: int, badly: int) -> set[State]:
    if family.cancelled:
        return {State.CANCELLED}
    if family.gave_up:
        return {State.FAILED, State.DEAD}
    if not badly:
        return {State.SUCCEEDED, State.NOTIFYING}
    return {State.PARTIAL if well else State.FAILED}
