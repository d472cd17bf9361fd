"""The end of executions, in batches: decided by the state machine, written under the exec_id that reports it."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from headgate.core.errors import Invalid
from headgate.core.machine import (
    CancelReached,
    GivenBack,
    PauseReached,
    Raised,
    Returned,
    Snoozed,
    decide,
)
from headgate.core.states import State
from headgate.core.task import Execution
from headgate.store.catalog import Catalog
from headgate.store.claims import Outcome
from headgate.store.line import lock, settle_lines
from headgate.store.rows import hold
from headgate.store.sql import Db, Statement
from headgate.store.transitions import Write, apply, finish

_ENDS = Raised | Snoozed | PauseReached | CancelReached | GivenBack
_A_RUNNING_TASK = Execution(
    0, "", 0, "", "{}", 1, datetime.max.replace(tzinfo=UTC), 0, 0, None, "", None, 0, 0, None, None, None, None, ""
)


def settle(db: Db, catalog: Catalog, outcomes: Sequence[Outcome], actor: str) -> list[State | None]:
    """Record how executions ended; what each task is now, None if its exec_id does not own it any more."""
    keys = [(o.execution.tenant_id, o.execution.mutex) for o in outcomes if o.execution.mutex is not None]
    lock(db, keys)
    plain: dict[tuple[str, bool], list[tuple[int, str, str]]] = defaultdict(list)
    others: list[Write] = []
    for outcome in outcomes:
        execution, event = outcome.execution, outcome.event
        if isinstance(event, Returned):
            plain[execution.type, event.completed].append((execution.id, execution.exec_id, event.result))
        elif isinstance(event, _ENDS):
            change = decide(execution, event, catalog.type(execution.type))
            others.append(Write(execution.id, execution.status, change, exec_id=execution.exec_id))
        else:
            raise Invalid(f"{type(event).__name__} does not end an execution")
    done: dict[int, State] = {}
    for (type_code, completed), ended in plain.items():
        # A plain success is decided once for all of its type: nothing but the result differs.
        change = decide(_A_RUNNING_TASK, Returned(completed=completed), catalog.type(type_code))
        done |= dict.fromkeys(finish(db, change, ended, actor), change.status)
    written = apply(db, others, actor)
    done |= {write.id: write.change.status for write in others if write.id in written}
    if len(done) < len(outcomes):
        done |= _settle_again(db, catalog, [o for o in outcomes if o.execution.id not in done], actor)
    settle_lines(db, keys)
    return [done.get(outcome.execution.id) for outcome in outcomes]


def _settle_again(db: Db, catalog: Catalog, missed: Sequence[Outcome], actor: str) -> dict[int, State]:
    """What `decide` could not know: a parent waits for its children, a request comes first. The rest was stale."""
    held = {task.id: task for task in hold(db, [outcome.execution.id for outcome in missed])}
    writes, stale = [], []
    for outcome in missed:
        task = held.get(outcome.execution.id)
        if task is not None and task.status is State.RUNNING and task.exec_id == outcome.execution.exec_id:
            change = decide(task, outcome.event, catalog.type(task.type))
            writes.append(Write(task.id, task.status, change, task.seq, task.exec_id))
        else:
            stale.append(outcome.execution)
    refuse(db, stale, actor)
    written = apply(db, writes, actor)
    return {write.id: write.change.status for write in writes if write.id in written}


REFUSE = Statement(
    """
    INSERT INTO task_event (task_id, tenant_id, seq, at, kind, actor, exec_id, detail)
    SELECT id, tenant_id, 0, {now}, 'refused', :actor, :exec_id, :detail FROM task WHERE id = :id
    """
)


def refuse(db: Db, stale: Sequence[Execution], actor: str) -> None:
    """Put on record that a report came under an exec_id that owns its task no more (seq 0: no transition)."""
    for execution in stale:
        db.send(REFUSE, id=execution.id, exec_id=execution.exec_id, actor=actor, detail="stale exec_id")
