"""I10: no task is charged with an error or a loss that it did not cause."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from math import inf

from headgate.core.end_reasons import EndReason
from headgate.core.states import HELD, State
from headgate.simulation.checker_case import Case, Violation, changes_hands, starts_execution
from headgate.simulation.evidence import Row
from headgate.store.execution.revoke import MOST_UNCOUNTED, REAPER
from headgate.worker.executor import SHARE_BEFORE_DEADLINE

COUNTS_AN_ERROR = frozenset({"retrying", "overdue"})
ENOUGH = 1 - SHARE_BEFORE_DEADLINE  # of its timeout: a worker stops its handlers a little before


def judge_charges(case: Case) -> Iterator[Violation]:
    if case.evidence.timeouts is None:
        return
    deserves, losses = _Deserts(case), _counted_losses(case)
    for task_id, path in case.paths.items():
        life = _last_life(path)
        deserved = 0
        for start, row in _executions(life):
            good = deserves.error(start)
            deserved += good
            if row is not None and row.kind in COUNTS_AN_ERROR and not good:
                text = (
                    f"task {task_id}: row {row.id} ({row.kind}) counts an error of {start.exec_id}, whose handler "
                    "raised none and did not live to its deadline"
                )
                yield Violation("I10", text, task_id)
        if (task := case.tasks.get(task_id)) is None:
            continue
        if task.error_count > deserved:
            text = f"task {task_id} is charged with {task.error_count} errors, of which its handlers made {deserved}"
            yield Violation("I10", text, task_id)
        alone = sum(row.id in losses for row in life)
        if task.lost_count > alone:
            text = f"task {task_id} is charged with {task.lost_count} losses, and was alone at {alone} of them"
            yield Violation("I10", text, task_id)


def _last_life(path: list[Row]) -> list[Row]:
    """The rows since a person last brought it back from the dead, which forgets what was charged before."""
    revived = (number for number, row in enumerate(path) if row.before == State.DEAD and row.kind == "retried")
    begin = max(revived, default=0)
    return path[begin:]


def _executions(path: list[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Each execution: the row of its start, or of its confirmation, and the row that ends it."""
    start: Row | None = None
    for row in path:
        if row.after == State.RUNNING and row.before != State.RUNNING:
            start = row
        elif start is not None and row.after not in HELD:
            yield start, row
            start = None
    if start is not None:
        yield start, None


class _Deserts:
    """Which executions have earned an error, by the ledger and both clocks."""

    def __init__(self, case: Case) -> None:
        self._case = case
        entries = case.evidence.ledger
        self._failed = {entry.exec_id for entry in entries if entry.what == "error"}
        self._started = {entry.exec_id for entry in entries if entry.what == "start"}
        self._gone: dict[str, float] = {}
        self._died = {entry.exec_id: entry.at for entry in entries if entry.what == "died"}
        for entry in entries:
            if entry.what in ("end", "died"):
                self._gone.setdefault(entry.exec_id, entry.at)
        # Where the store's clock was set forward: between which two rows, and by how many seconds.
        steps = (
            (one.at, two.at, (two.wall - two.at) - (one.wall - one.at)) for one, two in pairwise(case.evidence.rows)
        )
        self._steps = [step for step in steps if step[2] > case.evidence.skew]

    def error(self, start: Row) -> bool:
        """Whether its handler failed, or lived to miss its deadline. True too if the ledger has no start of it."""
        if start.exec_id is None or start.exec_id in self._failed or start.exec_id not in self._started:
            return True
        task = self._case.tasks.get(start.task_id or 0)
        timeout = None if task is None else (self._case.evidence.timeouts or {}).get(task.type)
        if timeout is None:
            return True
        # An agent that forgets to report lives on, and misses the deadline.
        by_agent = start.before == State.SCHEDULING and not changes_hands(start)
        gone = (self._died if by_agent else self._gone).get(start.exec_id, inf)
        set_forward = sum(by for since, until, by in self._steps if until >= start.at and since <= gone)
        return gone - start.at + set_forward >= ENOUGH * timeout - self._case.evidence.skew


def _counted_losses(case: Case) -> set[int]:
    """The rows of losses that may be counted: of a task that was alone in its process, or that was lost too often."""
    counted: set[int] = set()
    workers: dict[int, str] = {}  # by task, who holds it
    held: dict[str, set[int]] = defaultdict(set)
    lost: dict[int, int] = defaultdict(int)
    rescued: dict[str, tuple[float, int]] = {}  # by worker: the last rescue, and how many it held then
    for row in case.evidence.rows:
        if row.task_id is None or not row.seq:
            continue
        if starts_execution(row) or changes_hands(row):
            held[workers.get(row.task_id, "")].discard(row.task_id)
            workers[row.task_id] = row.actor
            held[row.actor].add(row.task_id)
        elif row.before in HELD and row.after not in HELD:
            worker = workers.pop(row.task_id, "")
            if row.actor == worker and (row.kind == "lease_lost" or EndReason.POISON in (row.detail or "")):
                counted.add(row.id)  # it ran in a process of its own, which its worker saw die
            elif row.actor == REAPER and row.kind not in ("overdue", "given_back"):
                at, beside = rescued.get(worker, (-inf, 0))
                if at != row.at:
                    beside = len(held[worker])
                    rescued[worker] = (row.at, beside)
                if beside == 1 or lost[row.task_id] >= MOST_UNCOUNTED:
                    counted.add(row.id)
                lost[row.task_id] += row.kind == "lease_lost"
            held[worker].discard(row.task_id)
    return counted
