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
from headgate.simulation.evidence import Evidence, Known, Row, Wish
from headgate.store import Store, open_store
from headgate.store.feed import Cursor
from headgate.store.tasks import Idempotency
from tests.factories import TYPES, Clock, lose, put, robbed, running, settle, start, submit, worker


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Store]:
    with open_store("sqlite://", clock) as store:
        store.migrate()
        for kind in TYPES:
            store.put_type(kind)
        yield store


def known(task: Task) -> Known:
    finished = None if task.finished_at is None else task.finished_at.timestamp()
    return Known(
        task.id, task.tenant_id, task.type, task.status, task.lane, task.mutex, task.rate_key, task.parent_id,
        task.root_id, task.seq, task.attempt, task.exec_id, task.worker_id, finished, task.start_time.timestamp(),
        task.retry_of,
    )  # fmt: skip


def left_by(store: Store, clock: Clock) -> Evidence:
    happenings, _ = store.feed(Cursor(), 10_000)
    rows = [
        Row(
            one.id, one.task_id, one.seq, one.at.timestamp(), one.at.timestamp(), one.kind, one.before, one.after,
            one.actor, one.exec_id, one.detail,
        )
        for one in happenings
    ]  # fmt: skip
    tasks = store.find(limit=200).items
    return Evidence(
        rows,
        [known(task) for task in tasks],
        heard=[row.id for row in rows],
        uses={code: kind.uses for code, kind in store.types().items()},
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
    store.progress(new.id, new.exec_id, "1")
    settle(store, new, Snoozed(5.0))
    clock.advance(5.0)
    store.bring_due()
    [again] = start(store)
    settle(store, again, Raised("once more", 1.0))
    store.retry(again.id)
    [last] = start(store, confirm=True)
    assert store.try_start(last.id, last.exec_id)
    settle(store, last, Returned())
    copy = store.retry(last.id)
    evicted = worker(store)
    [held] = start(store)
    lose(store, evicted)
    holder = store.get(held.id).worker_id
    assert holder is not None
    lose(store, holder)
    store.rescue(holder)
    store.cancel(copy.id)
    asked = running(store)
    store.pause(asked.id)
    store.prioritize(asked.id, 1)
    store.cancel(asked.id)
    settle(store, asked, Returned())
    assert check(left_by(store, clock)) == []


def test_limits_that_are_edited_while_tasks_run_are_kept_to(store: Store, clock: Clock):
    """Spec: X5, C13"""
    store.put_type(TaskType("tooled", uses=("tool",)))
    store.set_capacity("narrow", 2)
    store.set_rate_limit("type:plain", Rate(1.0, 3))
    for number in range(6):
        submit(store, lane="narrow", mutex=f"m{number % 2}")
        submit(store, rate_key="mine")
        submit(store, "tooled")
    store.pause_lane("narrow")
    for second in range(20):
        executions = start(store, 3)
        clock.advance(0.5)
        for execution in executions:
            settle(store, execution, Returned())
        if second == 3:
            store.resume_lane("narrow")
            store.set_capacity("narrow", 1)
            store.set_resource("tool", 2)
        if second == 5:
            store.pause_lane()
        if second == 7:
            store.resume_lane()
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
            store.submit(NewTask("plain", mutex="m", parent_id=parent.id))
        stranger = submit(store, mutex="m")
        settle(store, parent, Returned())
        [child] = start(store, 5)
        if cancelled:
            store.cancel(parent.id)
        settle(store, child, Raised("no"))
        while executions := start(store, 5):
            assert cancelled or stranger.id not in [one.id for one in executions] or store.get(parent.id).finished_at
            for execution in executions:
                settle(store, execution, Returned())
    assert check(left_by(store, clock)) == []


def test_a_wish_that_is_repeated_under_its_key_is_made_once(store: Store, clock: Clock):
    """Spec: X5, B5"""
    once = Idempotency("k", "h")
    made = [store.submit(NewTask("plain"), once=once).id for _ in range(2)]
    evidence = left_by(store, clock)
    wishes = [Wish("k", "made", (task_id,)) for task_id in made]
    said = Evidence(evidence.rows, evidence.tasks, wishes=wishes, keys={"k": (made[0],)}, at_rest=False)
    assert check(said) == []
    with pytest.raises(Refused):
        store.resume(made[0])
