"""What a real store leaves behind is clean, whatever is done to it."""

from collections import Counter
from collections.abc import Iterator

import pytest

from headgate.core.errors import Refused
from headgate.core.limits import Rate
from headgate.core.machine import Raised, Returned, Snoozed
from headgate.core.states import State
from headgate.core.task import NewTask, Task, TaskType
from headgate.simulation.checker import check
from headgate.simulation.evidence import Evidence, Row, Submission, TaskRecord
from headgate.store.events.feed import Cursor
from headgate.store.store import Store, open_store
from headgate.store.tasks.idempotency import Idempotency
from tests.factories import TYPES, Clock, lose, put, robbed, running, settle, start, submit, worker


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Store]:
    with open_store("sqlite://", clock) as store:
        store.migrate()
        for task_type in TYPES:
            store.types.put(task_type)
        yield store


def record(task: Task) -> TaskRecord:
    finished = None if task.finished_at is None else task.finished_at.timestamp()
    return TaskRecord(
        task.id, task.tenant_id, task.type, task.status, task.lane, task.mutex, task.rate_key, task.parent_id,
        task.root_id, task.seq, task.attempt, task.exec_id, task.worker_id, finished, task.start_time.timestamp(),
        task.retry_of,
    )  # fmt: skip


def left_by(store: Store, clock: Clock) -> Evidence:
    happenings, _ = store.events.after(Cursor(), 10_000)
    rows = [
        Row(
            one.id, one.task_id, one.seq, one.at.timestamp(), one.at.timestamp(), one.kind, one.before, one.after,
            one.actor, one.exec_id, one.detail,
        )
        for one in happenings
    ]  # fmt: skip
    tasks = store.tasks.find(limit=200).items
    return Evidence(
        rows,
        [record(task) for task in tasks],
        feed_ids=[row.id for row in rows],
        uses={code: task_type.uses for code, task_type in store.types.by_code().items()},
        counted=Counter(str(task.status) for task in tasks),
        ended_at=clock().timestamp(),
        at_rest=False,
    )


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached_in_good_order(store: Store, clock: Clock, state: State):
    """Spec: X5, A2"""
    put(store, state)
    assert check(left_by(store, clock)) == []


def test_executions_that_end_in_every_way_leave_nothing_to_object_to(store: Store, clock: Clock):
    """Spec: X5, B3"""
    old, new = robbed(store, clock, mutex="m")
    assert settle(store, old, Returned()) is None
    store.executions.progress(new.id, new.exec_id, "1")
    settle(store, new, Snoozed(5.0))
    clock.advance(5.0)
    store.due.bring()
    [again] = start(store)
    settle(store, again, Raised("once more", 1.0))
    store.tasks.retry(again.id)
    [last] = start(store, confirm=True)
    assert store.executions.start(last.id, last.exec_id)
    settle(store, last, Returned())
    copy = store.tasks.retry(last.id)
    evicted = worker(store)
    [held] = start(store)
    lose(store, evicted)
    holder = store.tasks.get(held.id).worker_id
    assert holder is not None
    lose(store, holder)
    store.executions.rescue(holder)
    store.tasks.cancel(copy.id)
    interrupted = running(store)
    store.tasks.pause(interrupted.id)
    store.tasks.prioritize(interrupted.id, 1)
    store.tasks.cancel(interrupted.id)
    settle(store, interrupted, Returned())
    assert check(left_by(store, clock)) == []


def test_limits_that_are_edited_while_tasks_run_are_kept_to(store: Store, clock: Clock):
    """Spec: X5, C13"""
    store.types.put(TaskType("tooled", uses=("tool",)))
    store.lanes.set_capacity("narrow", 2)
    store.rate_limits.set("type:plain", Rate(1.0, 3))
    for number in range(6):
        submit(store, lane="narrow", mutex=f"m{number % 2}")
        submit(store, rate_key="mine")
        submit(store, "tooled")
    store.lanes.pause("narrow")
    for second in range(20):
        executions = start(store, 3)
        clock.advance(0.5)
        for execution in executions:
            settle(store, execution, Returned())
        if second == 3:
            store.lanes.resume("narrow")
            store.lanes.set_capacity("narrow", 1)
            store.resources.set("tool", 2)
        if second == 5:
            store.lanes.pause()
        if second == 7:
            store.lanes.resume()
    evidence = left_by(store, clock)
    assert {task.status for task in evidence.tasks} == {"succeeded"}
    assert check(evidence) == []
    assert {found.invariant for found in check(without(evidence, "resumed", "rate_changed"))} == {"I4"}


def without(evidence: Evidence, *kinds: str) -> Evidence:
    """The same, had nobody done this."""
    rows = [row for row in evidence.rows if row.kind not in kinds]
    return Evidence(rows, evidence.tasks, uses=evidence.uses, at_rest=False)


def test_families_end_behind_their_children(store: Store, clock: Clock):
    """Spec: X5"""
    for cancelled in (False, True):
        parent = running(store, mutex="m")
        for _ in range(2):
            store.tasks.submit(NewTask("plain", mutex="m", parent_id=parent.id))
        stranger = submit(store, mutex="m")
        settle(store, parent, Returned())
        [child] = start(store, 5)
        if cancelled:
            store.tasks.cancel(parent.id)
        settle(store, child, Raised("no"))
        while executions := start(store, 5):
            assert (
                cancelled or stranger.id not in [one.id for one in executions] or store.tasks.get(parent.id).finished_at
            )
            for execution in executions:
                settle(store, execution, Returned())
    assert check(left_by(store, clock)) == []


def test_a_wish_that_is_repeated_under_its_key_is_made_once(store: Store, clock: Clock):
    """Spec: X5, B5"""
    once = Idempotency("k", "h")
    made = [store.tasks.submit(NewTask("plain"), once=once).id for _ in range(2)]
    evidence = left_by(store, clock)
    submissions = [Submission("k", "made", (task_id,)) for task_id in made]
    judged = Evidence(evidence.rows, evidence.tasks, submissions=submissions, keys={"k": (made[0],)}, at_rest=False)
    assert check(judged) == []
    with pytest.raises(Refused):
        store.tasks.resume(made[0])
