"""I11: no result is accepted after its deadline, nor before everything that its handler began is done."""

from collections import Counter
from collections.abc import Iterator

from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.evidence import Row

ACCEPTED = frozenset({"completed", "snoozed"})


def judge_results(case: Case) -> Iterator[Violation]:
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    promised: Counter[str] = Counter()
    children = Counter(task.parent_id for task in case.evidence.tasks)
    for entry in case.evidence.ledger:
        if entry.what == "start":
            began.setdefault(entry.exec_id, entry.at)
        elif entry.what == "end":
            ended.setdefault(entry.exec_id, entry.at)
        elif entry.what == "child":
            promised[entry.exec_id] += 1
    for row in case.evidence.rows:
        if row.kind not in ACCEPTED or row.exec_id is None or row.exec_id not in began or row.task_id is None:
            continue
        if row.exec_id in ended:
            yield from _judge_deadline(case, row, ended[row.exec_id] - began[row.exec_id])
        if promised[row.exec_id] > children[row.task_id] and not case.may_be_gone(row.task_id):
            text = (
                f"task {row.task_id}: row {row.id} ({row.kind}) accepts the end of {row.exec_id}, which began "
                f"{promised[row.exec_id]} children; there are {children[row.task_id]}"
            )
            yield Violation("I11", text, row.task_id)


def _judge_deadline(case: Case, row: Row, seconds: float) -> Iterator[Violation]:
    task = case.tasks.get(row.task_id or 0)
    timeout = None if task is None else (case.evidence.timeouts or {}).get(task.type)
    if timeout is not None and seconds > timeout + case.evidence.skew:
        text = (
            f"task {row.task_id}: row {row.id} ({row.kind}) accepts the end of {row.exec_id} after {seconds:.3f} s, "
            f"{timeout:g} s at most"
        )
        yield Violation("I11", text, row.task_id)
