"""An execution under way: what it reports, what it is asked, how its worker lives."""

from datetime import timedelta

import pytest

from headgate.core.errors import StaleExecution, WorkerLost
from headgate.core.machine import Raised, Returned
from headgate.core.states import HELD, State
from headgate.core.task import Execution
from headgate.store.claim.contract import ClaimRequest, Control, HeldBack, Outcome
from headgate.store.execution.workers import Request
from headgate.store.store import open_store
from tests.factories import START, kinds, lose, put, record, running, settle, start, submit, worker

NEVER = "00000000-0000-4000-8000-000000000000"
REPORTS = {
    "progress": lambda store, task_id, exec_id: store.executions.progress(task_id, exec_id, '{"done": 3}'),
    "log": lambda store, task_id, exec_id: store.executions.add_log(task_id, exec_id, [("info", "a"), ("error", "b")]),
    "checkpoint": lambda store, task_id, exec_id: store.executions.save_checkpoint(task_id, exec_id, "page", "[7]"),
}


def test_progress_is_kept_and_told(store, clock):
    """Spec: D3, D6"""
    execution = running(store)
    clock.advance(3)
    assert store.executions.progress(execution.id, execution.exec_id, '{"done": 3}', actor="agent:1") == Control()
    task = store.tasks.get(execution.id)
    assert (task.progress, task.update_date, task.status) == ('{"done": 3}', START + timedelta(seconds=3), "running")
    event = store.events.of(task.id)[-1]
    assert (event.kind, event.seq, event.detail, event.actor) == ("progress", 0, '{"done": 3}', "agent:1")


def test_the_timeline_has_the_newest_progress_of_each_execution_and_a_new_one_every_second(store, clock):
    """Spec: D3, D6"""
    first = running(store)

    def told() -> list[str]:
        return [event.detail for event in store.events.of(first.id) if event.kind == "progress"]

    for done in range(15):
        store.executions.progress(first.id, first.exec_id, f'{{"done": {done}}}')
        assert store.tasks.get(first.id).progress == f'{{"done": {done}}}'
        clock.advance(0.1)
    assert told() == ['{"done": 10}'], "one a second, in place of the one before"
    ids = [event.id for event in store.events.of(first.id)]
    assert ids == sorted(set(ids))
    settle(store, first, Raised("again", 0.0))
    store.due.bring()
    [again] = start(store)
    store.executions.progress(again.id, again.exec_id, '{"done": 1}')
    assert told() == ['{"done": 10}', '{"done": 1}']


def told(store, task_id: int) -> list[str]:
    return [event.detail for event in store.events.of(task_id) if event.kind == "progress"]


def test_the_last_progress_goes_with_the_end_and_is_told_whatever_was_told_before(store, clock):
    """Spec: D3, D6"""
    execution = running(store)
    store.executions.progress(execution.id, execution.exec_id, '{"done": 1}')
    store.executions.settle([Outcome(execution, Returned(), progress='{"done": 2}')], actor="worker:1")
    assert store.tasks.get(execution.id).progress == '{"done": 2}'
    assert told(store, execution.id) == ['{"done": 2}']
    progress, end = store.events.of(execution.id)[-2:]
    assert (progress.kind, progress.exec_id, end.kind) == ("progress", execution.exec_id, "completed")


def test_the_last_progress_of_a_stale_execution_changes_nothing(store, clock):
    """Spec: B3"""
    old = running(store)
    store.executions.progress(old.id, old.exec_id, '{"done": 1}')
    store.executions.give_back(old.id, old.exec_id)
    [new] = start(store)
    store.executions.progress(new.id, new.exec_id, '{"done": 9}')
    assert store.executions.settle([Outcome(old, Returned(), progress='{"done": 2}')]) == [None]
    assert store.tasks.get(old.id).progress == '{"done": 9}'
    assert told(store, old.id) == ['{"done": 1}', '{"done": 9}']


def test_a_report_that_wants_its_event_replaces_the_one_before_at_once(store, clock):
    """Spec: D3, D6"""
    execution = running(store)
    for done in range(3):
        store.executions.progress(execution.id, execution.exec_id, f'{{"done": {done}}}', event=True)
    assert told(store, execution.id) == ['{"done": 2}']


def test_a_late_progress_event_is_written_after_the_end_and_only_once(store, clock):
    """Spec: D3, D6"""
    execution = running(store)
    for done in (1, 2):
        store.executions.progress(execution.id, execution.exec_id, f'{{"done": {done}}}')
    settle(store, execution, Returned())
    for _ in range(2):
        store.executions.note_late_progress(execution.id, execution.exec_id, '{"done": 2}', actor="agent:1")
    store.executions.note_late_progress(execution.id, execution.exec_id, '{"done": 1}', actor="agent:1")
    assert told(store, execution.id) == ['{"done": 1}', '{"done": 2}']


def test_log_lines_are_kept_in_order_with_their_attempt(store, clock):
    """Spec: A12, D3"""
    execution = running(store)
    store.executions.add_log(
        execution.id, execution.exec_id, [("info", "one, \"two\" {3} \\ 'four'\n"), ("error", "中文")]
    )
    store.executions.add_log(execution.id, execution.exec_id, [])
    settle(store, execution, Raised("again", 0.0))
    store.due.bring()
    [again] = start(store)
    clock.advance(1)
    store.executions.add_log(again.id, again.exec_id, [("debug", "")])
    lines = store.executions.log(execution.id)
    assert [(line.level, line.message, line.attempt) for line in lines] == [
        ("info", "one, \"two\" {3} \\ 'four'\n", 1), ("error", "中文", 1), ("debug", "", 2),
    ]  # fmt: skip
    assert [line.at for line in lines] == [START, START, START + timedelta(seconds=1)]
    assert store.executions.log(execution.id, after=lines[0].id, limit=1) == lines[1:2]


def test_a_checkpoint_replaces_the_last_of_its_name_and_later_executions_find_it(store):
    """Spec: D3"""
    execution = running(store)
    for name, state in (("page", "1"), ("page", "2"), ("file", '"a"')):
        store.executions.save_checkpoint(execution.id, execution.exec_id, name, state)
    settle(store, execution, Raised("again", 0.0))
    assert store.executions.checkpoints(execution.id) == {"file": '"a"', "page": "2"}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize(("act", "told"), [("cancel", Control(cancel=True)), ("pause", Control(pause=True))])
def test_a_report_is_answered_with_what_is_asked_of_the_execution(store, report, act, told):
    """Spec: C10, A2"""
    execution = running(store)
    getattr(store.tasks, act)(execution.id)
    assert REPORTS[report](store, execution.id, execution.exec_id) == told


@pytest.mark.parametrize("exec_id", [NEVER, "no uuid at all", ""])
@pytest.mark.parametrize("state", [State.RUNNING, State.QUEUED])
def test_an_exec_id_that_never_was_is_as_stale_as_an_old_one(store, exec_id, state):
    """Spec: B3"""
    task = put(store, state)
    before = record(store, task.id)
    for report in (*REPORTS.values(), lambda at, task_id, exec_id: at.executions.give_back(task_id, exec_id)):
        with pytest.raises(StaleExecution):
            report(store, task.id, exec_id)
    assert store.executions.start(task.id, exec_id) is None
    assert record(store, task.id) == before


@pytest.mark.parametrize("end", [Returned(), Raised("no")])
def test_a_settlement_under_an_exec_id_that_is_none_is_stale_and_spoils_no_batch(store, end):
    """Spec: B3"""
    submit(store), submit(store)
    one, two = start(store, 2)
    before = record(store, two.id)
    forged = two._replace(exec_id="no uuid at all")
    assert store.executions.settle([Outcome(one, Returned()), Outcome(forged, end)]) == [State.SUCCEEDED, None]
    assert record(store, two.id) == before


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_upon_a_task_that_never_was_is_stale(store, report):
    """Spec: B3"""
    with pytest.raises(StaleExecution):
        REPORTS[report](store, 4711, NEVER)
    assert store.executions.start(4711, NEVER) is None


def test_a_confirmed_start_runs_once_with_a_fresh_deadline(store, clock):
    """Spec: E1, D2"""
    submit(store, timeout_seconds=60)
    [handed] = start(store, confirm=True)
    clock.advance(20)
    execution = store.executions.start(handed.id, handed.exec_id, actor="agent:1")
    assert execution is not None
    assert (execution.status, execution.exec_id, execution.attempt) == (State.RUNNING, handed.exec_id, 1)
    task = store.tasks.get(handed.id)
    assert task.executing_deadline == execution.executing_deadline == START + timedelta(seconds=80)
    assert (task.started_at, task.scheduling_time) == (START + timedelta(seconds=20), START)
    assert [(e.kind, e.actor) for e in store.events.of(task.id)][-1] == ("started", "agent:1")
    before = record(store, task.id)
    assert store.executions.start(handed.id, handed.exec_id) is None
    assert record(store, task.id) == before


@pytest.mark.parametrize("act", ["cancel", "pause"])
def test_a_task_cancelled_or_paused_before_its_start_was_confirmed_does_not_start(store, act):
    """Spec: B8, D2"""
    submit(store)
    [handed] = start(store, confirm=True)
    getattr(store.tasks, act)(handed.id)
    before = record(store, handed.id)
    assert store.executions.start(handed.id, handed.exec_id) is None
    assert record(store, handed.id) == before


@pytest.mark.parametrize("mutex", [None, "m"])
@pytest.mark.parametrize("scope", ["x", None], ids=["its lane", "everything"])
def test_a_task_handed_over_before_a_pause_is_held_back_and_nothing_is_counted(store, scope, mutex):
    """Spec: A9, E1. The attempt is used up: the agent knows its number."""
    submit(store, lane="x", mutex=mutex)
    [handed] = start(store, confirm=True)
    store.lanes.pause(scope)
    held_back = store.executions.start(handed.id, handed.exec_id)
    assert held_back == HeldBack("lane x is paused" if scope else "everything is paused")
    back = store.tasks.get(handed.id)
    assert (back.status, back.error_count, back.lost_count, back.attempt) == (State.QUEUED, 0, 0, 1)
    assert (back.exec_id, back.worker_id, back.started_at) == (None, None, None)
    assert store.executions.start(handed.id, handed.exec_id) is None
    store.lanes.resume(scope)
    [again] = start(store, confirm=True)
    assert (again.id, again.attempt) == (handed.id, 2)
    assert isinstance(store.executions.start(again.id, again.exec_id), Execution)


def test_a_start_that_is_not_its_to_confirm_is_stale_whatever_is_paused(store):
    """Spec: B3, A9"""
    submit(store)
    [handed] = start(store, confirm=True)
    store.lanes.pause()
    before = record(store, handed.id)
    assert store.executions.start(handed.id, NEVER) is None
    assert record(store, handed.id) == before


def test_what_runs_when_it_is_paused_is_not_held_back(store):
    """Spec: A9"""
    execution = running(store)
    store.lanes.pause()
    before = record(store, execution.id)
    assert store.executions.start(execution.id, execution.exec_id) is None
    assert record(store, execution.id) == before


@pytest.mark.parametrize("confirm", [False, True])
def test_a_task_given_back_goes_to_the_line_with_nothing_counted(store, confirm):
    """Spec: D9"""
    task = submit(store)
    [execution] = start(store, confirm=confirm)
    store.executions.give_back(task.id, execution.exec_id, actor="worker:stopping")
    back = store.tasks.get(task.id)
    assert (back.status, back.error_count, back.lost_count) == (State.QUEUED, 0, 0)
    assert (back.exec_id, back.worker_id, back.executing_deadline) == (None, None, None)
    assert store.events.of(task.id)[-1].actor == "worker:stopping"
    assert [again.id for again in start(store)] == [task.id]


def _give_back(store, execution):
    store.executions.give_back(execution.id, execution.exec_id)


def _lose(store, execution):
    worker_id = store.tasks.get(execution.id).worker_id
    lose(store, worker_id)
    store.executions.rescue(worker_id)


@pytest.mark.parametrize("let_go", [_give_back, _lose])
@pytest.mark.parametrize("by", ["the same process", "another"])
def test_a_task_given_back_or_lost_keeps_its_place_before_those_that_came_later(store, url, clock, let_go, by):
    """Spec: A4"""
    first, second, third = (submit(store).id for _ in range(3))
    [execution] = start(store)
    assert execution.id == first
    with open_store(url, clock) as other:
        let_go(store, execution)
        assert [again.id for again in start(store if by == "the same process" else other, 9)] == [first, second, third]


@pytest.mark.parametrize(("act", "status"), [("cancel", State.CANCELLED), ("pause", State.PAUSED)])
def test_a_task_given_back_goes_where_it_was_asked_to(store, act, status):
    """Spec: D9, A2"""
    execution = running(store)
    getattr(store.tasks, act)(execution.id)
    store.executions.give_back(execution.id, execution.exec_id)
    assert store.tasks.get(execution.id).status is status


def test_a_beat_renews_the_lease_and_never_the_deadline(store, clock):
    """Spec: A6"""
    task, worker_id = submit(store, timeout_seconds=40), store.workers.register("w", lease_seconds=30)
    store.claims.take(ClaimRequest(worker_id, 1))
    clock.advance(25)
    assert store.workers.beat(worker_id, [task.id]) == []
    assert store.workers.all()[0].lease_until == START + timedelta(seconds=55)
    assert store.tasks.get(task.id).executing_deadline == START + timedelta(seconds=40)


def test_a_beat_is_answered_with_what_is_asked_of_the_tasks_held(store):
    """Spec: C10, A2"""
    for _ in range(3):
        submit(store)
    worker_id = worker(store)
    one, two, three = store.claims.take(ClaimRequest(worker_id, 3)).executions
    other = running(store)
    store.tasks.cancel(one.id), store.tasks.pause(two.id), store.tasks.cancel(other.id)
    held = [one.id, two.id, three.id, other.id]
    told = [Request(one.id, one.exec_id, True, False), Request(two.id, two.exec_id, False, True)]
    assert sorted(store.workers.beat(worker_id, held), key=lambda asked: asked.task_id) == told
    assert sorted(store.workers.requests(worker_id, held), key=lambda asked: asked.task_id) == told
    assert store.workers.requests(worker_id, []) == []


def test_a_lost_worker_is_told_so_by_its_beat_and_stays_lost(store):
    """Spec: A6"""
    worker_id = worker(store)
    lose(store, worker_id)
    for _ in range(2):
        with pytest.raises(WorkerLost):
            store.workers.beat(worker_id)
    assert store.workers.all() == []
    assert [lost.id for lost in store.workers.all(lost_too=True)] == [worker_id]


def test_a_worker_is_registered_with_what_it_serves(store):
    """Spec: B2"""
    first = store.workers.register("one")
    second = store.workers.register("two", types=["b", "a"], lease_seconds=5, agent_id="a1", tenant_id=3)
    one, two = store.workers.all()
    assert (one.id, one.name, one.types, one.agent_id, one.tenant_id) == (first, "one", None, None, None)
    assert (two.id, two.types, two.agent_id, two.tenant_id) == (second, ("a", "b"), "a1", 3)
    assert (two.lease_seconds, two.lease_until) == (5, START + timedelta(seconds=5))


def test_a_worker_that_leaves_is_gone_and_what_it_still_held_can_be_rescued(store):
    """Spec: D9"""
    task, worker_id = submit(store), worker(store)
    store.claims.take(ClaimRequest(worker_id, 1))
    store.workers.leave(worker_id)
    assert store.workers.all() == []
    assert store.workers.lost_holders() == [worker_id]
    assert [rescued.id for rescued in store.executions.rescue(worker_id)] == [task.id]


@pytest.mark.parametrize("state", [state for state in State if state not in HELD])
def test_nobody_owns_a_task_that_is_not_held(store, state):
    """Spec: B3"""
    task = put(store, state)
    assert (task.exec_id, task.worker_id, task.executing_deadline) == (None, None, None)
    assert ("progress" in kinds(store, task.id)) == (state is State.PARTIAL)  # a family's last, told when it ends
