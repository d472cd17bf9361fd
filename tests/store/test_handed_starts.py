"""Starts that the broker delivered to a worker, many at once."""

from datetime import timedelta

import pytest

from headgate.core.errors import WorkerLost
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import open_store
from tests.factories import START, lose, record, robbed, settle, submit, together, worker

NEVER = "00000000-0000-0000-0000-000000000000"


def hand_over(store, count, **fields):
    """Tasks that somebody has handed to the broker."""
    for _ in range(count):
        submit(store, **fields)
    return store.claims.take(ClaimRequest(worker(store), count, confirm=True)).executions


def reports(executions):
    return [(execution.id, execution.exec_id) for execution in executions]


def test_what_was_handed_to_a_worker_is_its_own_from_the_start_on(store, clock):
    """Spec: D2. Under the row of whoever handed it over, the worker's first beat would stop its own task."""
    handed = hand_over(store, 3, timeout_seconds=60)
    consumer = worker(store)
    clock.advance(20)
    started = store.executions.start_handed(consumer, reports(handed))
    assert reports(started.executions) == reports(handed)
    assert started.stale | started.held_back | started.busy == frozenset()
    for execution in started.executions:
        task = store.tasks.get(execution.id)
        assert (task.status, task.worker_id, task.attempt) == (State.RUNNING, consumer, 1)
        assert task.executing_deadline == execution.executing_deadline == START + timedelta(seconds=80)
        assert (task.started_at, task.scheduling_time) == (START + timedelta(seconds=20), START)
        event = store.events.of(task.id)[-1]
        assert (event.kind, event.actor, event.exec_id) == ("started", f"worker:{consumer}", execution.exec_id)
    assert store.workers.owned(consumer, [each.id for each in handed]) == {each.exec_id for each in handed}
    assert settle(store, started.executions[0], Returned()) is State.SUCCEEDED


def test_a_delivery_that_comes_again_starts_nothing(store):
    """Spec: D2"""
    handed = hand_over(store, 2)
    one, other = worker(store), worker(store)
    assert len(store.executions.start_handed(one, [*reports(handed), *reports(handed)]).executions) == 2
    before = [record(store, each.id) for each in handed]
    again = store.executions.start_handed(other, reports(handed))
    assert (again.executions, again.stale) == ([], frozenset(reports(handed)))
    assert [record(store, each.id) for each in handed] == before


@pytest.mark.parametrize("exec_id", [NEVER, "no uuid at all", ""])
def test_a_stale_delivery_spoils_no_batch(store, exec_id):
    """Spec: B3, D2"""
    good, other = hand_over(store, 2)
    wrong = [(other.id, exec_id), (4711, NEVER)]
    started = store.executions.start_handed(worker(store), [*wrong, (good.id, good.exec_id)])
    assert reports(started.executions) == [(good.id, good.exec_id)]
    assert started.stale == frozenset(wrong)
    assert store.tasks.get(other.id).status is State.SCHEDULING


def test_a_delivery_of_an_execution_that_was_taken_away_is_stale(store, clock):
    """Spec: B3"""
    old, _ = robbed(store, clock)
    before = record(store, old.id)
    assert store.executions.start_handed(worker(store), [(old.id, old.exec_id)]).stale == {(old.id, old.exec_id)}
    assert record(store, old.id) == before


@pytest.mark.parametrize("act", ["cancel", "pause"])
def test_a_task_cancelled_or_paused_in_the_broker_does_not_start(store, act):
    """Spec: B8, D2"""
    [handed] = hand_over(store, 1)
    getattr(store.tasks, act)(handed.id)
    before = record(store, handed.id)
    assert store.executions.start_handed(worker(store), reports([handed])).stale == {(handed.id, handed.exec_id)}
    assert record(store, handed.id) == before


@pytest.mark.parametrize("mutex", [None, "m"])
def test_what_was_paused_in_the_broker_is_held_back_and_nothing_is_counted(store, mutex):
    """Spec: A9, D2"""
    [paused] = hand_over(store, 1, lane="x", mutex=mutex)
    [free] = hand_over(store, 1)
    store.lanes.pause("x")
    started = store.executions.start_handed(worker(store), reports([paused, free]))
    assert reports(started.executions) == reports([free])
    assert started.held_back == {(paused.id, paused.exec_id)}
    back = store.tasks.get(paused.id)
    assert (back.status, back.error_count, back.lost_count, back.exec_id) == (State.QUEUED, 0, 0, None)


def test_a_worker_that_was_declared_lost_starts_nothing(store):
    """Spec: A11"""
    [handed] = hand_over(store, 1)
    consumer = worker(store)
    lose(store, consumer)
    before = record(store, handed.id)
    with pytest.raises(WorkerLost):
        store.executions.start_handed(consumer, reports([handed]))
    assert record(store, handed.id) == before


def test_the_ends_of_a_worker_that_was_declared_lost_are_not_settled_with_its_starts(store):
    """Spec: A11, D2. It would report them again, and be refused."""
    first, second = hand_over(store, 2)
    consumer = worker(store)
    [running] = store.executions.start_handed(consumer, reports([first])).executions
    lose(store, consumer)
    before = [record(store, each.id) for each in (first, second)]
    with pytest.raises(WorkerLost):
        store.executions.settle_and_start([Outcome(running, Returned())], consumer, reports([second]))
    assert [record(store, each.id) for each in (first, second)] == before


def test_what_another_process_has_paused_is_held_back(store, url, clock, reached_by):
    """Spec: A9, D2"""
    [paused] = hand_over(store, 1, lane="x")
    [free] = hand_over(store, 1)
    with open_store(reached_by(url), clock) as other:
        other.lanes.pause("x")
    started = store.executions.start_handed(worker(store), reports([paused, free]))
    assert reports(started.executions) == reports([free])
    assert started.held_back == {(paused.id, paused.exec_id)}


def test_a_start_has_the_timeout_that_its_type_has_by_then(store, url, clock, reached_by):
    """Spec: D2"""
    handed = hand_over(store, 1)
    with open_store(reached_by(url), clock) as other:
        other.types.put(TaskType("plain", timeout_seconds=60))
    consumer = worker(store)
    [execution] = store.executions.start_handed(consumer, reports(handed)).executions
    assert (execution.timeout_seconds, execution.executing_deadline) == (60, START + timedelta(seconds=60))
    [execution] = store.executions.start_handed(consumer, reports(hand_over(store, 1))).executions
    assert (execution.timeout_seconds, execution.executing_deadline) == (60, START + timedelta(seconds=60))


def test_of_workers_that_get_the_same_deliveries_at_once_one_starts_each(store):
    """Spec: D2"""
    handed = reports(hand_over(store, 20))
    workers = [worker(store) for _ in range(4)]
    answers = together(*(lambda each=each: store.executions.start_handed(each, handed) for each in workers))
    started = sorted((each.id, each.exec_id) for answer in answers for each in answer.executions)
    assert started == sorted(handed)
    for answer in answers:
        mine = set(reports(answer.executions))
        assert mine | answer.stale | answer.busy == set(handed)


def test_an_end_and_a_delivered_start_are_one_transaction(store):
    """Spec: D2"""
    consumer = worker(store)
    first, second = hand_over(store, 2)
    [running] = store.executions.start_handed(consumer, reports([first])).executions
    done, started = store.executions.settle_and_start([Outcome(running, Returned())], consumer, reports([second]))
    assert done == [State.SUCCEEDED]
    assert reports(started.executions) == reports([second])
