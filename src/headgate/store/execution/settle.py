"""The end of executions, in batches: decided by the state machine, written under the exec_id that reports it."""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from headgate.core.errors import Invalid
from headgate.core.machine import (
    CancelReached,
    Event,
    GivenBack,
    LeaseLost,
    PauseReached,
    Raised,
    Returned,
    Snoozed,
    decide,
)
from headgate.core.states import HELD, State
from headgate.core.task import Execution, check_json
from headgate.store.catalog.catalog import Catalog
from headgate.store.claim.contract import Outcome
from headgate.store.claim.freed import give_up
from headgate.store.db.statement import Db, Statement
from headgate.store.execution.usage import Measured, keep
from headgate.store.tasks.mutex_queue import lock, settle_queues
from headgate.store.tasks.rows import hold
from headgate.store.tasks.transitions import Write, apply, finish

_ENDS = Raised | Snoozed | PauseReached | CancelReached | GivenBack | LeaseLost
_A_RUNNING_TASK = Execution(
    id=0, exec_id="", tenant_id=0, type="", ext="{}", attempt=1, executing_deadline=datetime.max.replace(tzinfo=UTC),
    error_count=0, lost_count=0, max_error_count=None, lane="", mutex=None, priority=0, creator=0, parent_id=None,
    root_id=None, correlation_id=None, name=None, category="", timeout_seconds=0.0,
)  # fmt: skip


def settle(db: Db, catalog: Catalog, outcomes: Sequence[Outcome], actor: str) -> list[State | None]:
    """Record how executions ended; what each task is now, None if its exec_id does not own it any more."""
    reports = _first_reports(outcomes)
    keys = [(e.tenant_id, e.mutex) for e, _ in reports.values() if e.mutex is not None]
    lock(db, keys)
    # Of two reports on one task one at least is stale: the second, and what is no exec_id at all, is looked at singly.
    firsts: dict[int, Report] = {}
    for report in reports:
        if _UUID.fullmatch(report[1]):
            firsts.setdefault(report[0], report)
    plain: dict[tuple[str, bool], list[tuple[int, str, str]]] = defaultdict(list)
    others: list[Write] = []
    for execution, event in (reports[report] for report in firsts.values()):
        if isinstance(event, Returned):
            plain[execution.type, event.completed].append((execution.id, execution.exec_id, event.result))
        else:
            change = decide(execution, event, catalog.type(execution.type))
            others.append(Write(execution.id, execution.status, change, exec_id=execution.exec_id))
    done: dict[Report, State] = {}
    for (type_code, completed), ended in plain.items():
        # A plain success is decided once for all of its type: nothing but the result differs.
        change = decide(_A_RUNNING_TASK, Returned(completed=completed), catalog.type(type_code))
        done |= {firsts[task_id]: change.status for task_id in finish(db, change, ended, actor)}
    written = apply(db, others, actor)
    done |= {firsts[write.id]: write.change.status for write in others if write.id in written}
    missed = {report: told for report, told in reports.items() if report not in done}
    if missed:
        done |= _settle_again(db, catalog, missed, actor)
    if measured := _measured(outcomes, done):
        keep(db, measured)
    give_up(db, catalog, [reports[report][0] for report in done])
    settle_queues(db, keys)
    return [done.get((outcome.execution.id, outcome.execution.exec_id)) for outcome in outcomes]


Report = tuple[int, str]  # a task and the exec_id that reports on it
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _measured(outcomes: Sequence[Outcome], done: dict[Report, State]) -> list[tuple[int, Measured]]:
    """What those executions used that were measured and whose reports were accepted; the first report counts."""
    found: dict[int, Measured] = {}
    for execution, _, usage in outcomes:
        if usage is not None and (execution.id, execution.exec_id) in done:
            found.setdefault(execution.id, Measured(execution.attempt, usage))
    return list(found.items())


def _first_reports(outcomes: Sequence[Outcome]) -> dict[Report, tuple[Execution, Event]]:
    """Each execution's report, the first one if it reports twice; `Invalid` for what cannot be one."""
    reports: dict[Report, tuple[Execution, Event]] = {}
    for outcome in outcomes:
        execution, event = outcome.execution, outcome.event
        if isinstance(event, Returned):
            if event.result != "null":
                check_json("result", event.result)
        elif not isinstance(event, _ENDS):
            raise Invalid(f"{type(event).__name__} does not end an execution")
        reports.setdefault((execution.id, execution.exec_id), (execution, event))
    return reports


def _settle_again(
    db: Db, catalog: Catalog, missed: dict[Report, tuple[Execution, Event]], actor: str
) -> dict[Report, State]:
    """What `decide` could not know: a parent waits for its children, a request comes first. The rest was stale."""
    held = {task.id: task for task in hold(db, [task_id for task_id, _ in missed])}
    writes, stale = [], []
    for (task_id, exec_id), (execution, event) in missed.items():
        task = held.get(task_id)
        if task is not None and task.status in HELD and task.exec_id == exec_id:
            change = decide(task, event, catalog.type(task.type))
            writes.append(Write(task.id, task.status, change, task.seq, task.exec_id))
        else:
            stale.append(execution)
    refuse(db, stale, actor)
    written = apply(db, writes, actor)
    return {(write.id, write.exec_id or ""): write.change.status for write in writes if write.id in written}


REFUSE = Statement(
    """
    INSERT INTO headgate_task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT id, tenant_id, 0, {now}, 'refused', :actor, :exec_id, :detail FROM headgate_task WHERE id = :id
    """
)


def refuse(db: Db, stale: Sequence[Execution], actor: str) -> None:
    """Put on record that a report came under an exec_id that owns its task no more (seq 0: no transition)."""
    for execution in stale:
        exec_id = execution.exec_id if _UUID.fullmatch(execution.exec_id) else None
        db.send(REFUSE, id=execution.id, exec_id=exec_id, actor=actor, detail="stale exec_id")
