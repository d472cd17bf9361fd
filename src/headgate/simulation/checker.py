"""The judge of a run: reads what is left of it and says which of the promises I1 to I14 were broken. Pure, offline.

What it cannot judge it lets pass. For a task that retention removed, lane and mutex are unknown. Limits and pauses
without an audit row are as `Evidence` says they began. Tasks without a known submission are never reported missing.
"""

from collections import Counter
from collections.abc import Iterator

from headgate.simulation.checker_broker import judge_broker
from headgate.simulation.checker_callbacks import judge_callbacks
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.checker_charges import judge_charges
from headgate.simulation.checker_ledger import judge_ledger
from headgate.simulation.checker_limits import judge_limits
from headgate.simulation.checker_orphans import judge_orphans, judge_retention
from headgate.simulation.checker_paths import judge_paths, judge_tenures
from headgate.simulation.checker_results import judge_results
from headgate.simulation.checker_submissions import judge_submissions
from headgate.simulation.checker_ticks import judge_ticks
from headgate.simulation.checker_turns import judge_turns
from headgate.simulation.evidence import Evidence

__all__ = ["Violation", "check"]


def check(evidence: Evidence) -> list[Violation]:
    """Everything that is wrong, by invariant; empty: nothing is."""
    case = Case(evidence)
    against_limits, allowed = judge_limits(case)
    return [
        *judge_submissions(case),
        *judge_paths(case),
        *judge_tenures(case),
        *against_limits,
        *judge_ledger(case, allowed),
        *_judge_feed(case),
        *judge_callbacks(case),
        *judge_retention(case),
        *judge_orphans(case),
        *judge_ticks(case),
        *judge_charges(case),
        *judge_results(case),
        *judge_broker(case),
        *judge_turns(case),
    ]


def _judge_feed(case: Case) -> Iterator[Violation]:
    """I6: a reader of the feed gets every row once, and the rows of a task in their order."""
    if case.evidence.feed_ids is None:
        return
    rows = {row.id: row for row in case.evidence.rows}
    for row_id, times in Counter(case.evidence.feed_ids).items():
        row = rows.get(row_id)
        if times > 1:
            yield Violation("I6", f"row {row_id} was heard {times} times", row and row.task_id)
        if row is None and case.evidence.keep is None and row_id not in case.evidence.replaceable_ids:
            yield Violation("I6", f"row {row_id} was heard and is nowhere")
    if case.evidence.at_rest:
        feed_ids = set(case.evidence.feed_ids)
        for row in case.evidence.rows:
            if row.id not in feed_ids and row.id not in case.evidence.removed_ids:
                yield Violation("I6", f"row {row.id} ({row.kind} of task {row.task_id}) was never heard", row.task_id)
    last: dict[int, int] = {}
    for row_id in dict.fromkeys(case.evidence.feed_ids):
        row = rows.get(row_id)
        if row is None or row.task_id is None or not row.seq:
            continue
        before = last.get(row.task_id, 0)
        if row.seq < before:
            text = f"task {row.task_id}: row {row_id} with seq {row.seq} was heard behind seq {before}"
            yield Violation("I6", text, row.task_id)
        last[row.task_id] = max(before, row.seq)
