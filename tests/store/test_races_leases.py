"""Whoever ends an execution first has ended it; whoever still lives is not robbed."""

from datetime import timedelta

import pytest

from headgate.core.errors import StaleExecution, WorkerLost
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.store.claim.contract import Outcome
from headgate.store.execution.revoke import Death
from tests.store.races import AFTER_THE_TAKE, BEFORE_THE_TAKE, KEY, Claimer, Stage, only, submit_many

# The reaper without rule 9: tasks are given back by an old look at the lease.
ROB = """
UPDATE headgate_task SET status = 'queued', exec_id = NULL
 WHERE worker_id IN (SELECT id FROM headgate_worker WHERE lease_until < %s)
RETURNING id
"""


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    return Claimer(stage)


def lease(claimer: Claimer):
    [found] = [w for w in claimer.store.workers.all(lost_too=True) if w.id == claimer.worker_id]
    return found.lease_until


def path(claimer: Claimer, task_id: int) -> list[str]:
    """What happened to a task, but for its place in the line."""
    told = [event for event in claimer.store.events.of(task_id) if event.seq]
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    return [event.kind for event in told if event.kind not in ("came_forward", "sent_back")]


@pytest.mark.parametrize("event", [Returned(), Raised("again", 60.0), Raised("no")])
@pytest.mark.parametrize("mutex", [None, KEY], ids=["free", "in line"])
@pytest.mark.parametrize("first", ["settle", "rescue"])
def test_a_settle_that_meets_the_reaper_is_one_transition_and_the_other_changes_nothing(
    stage, claimer, event, mutex, first
):
    """Spec: B3"""
    [task_id] = submit_many(claimer.store, 1, mutex=mutex)
    [execution] = claimer.claim().executions
    reaper, rival = stage.store(), stage.rival()
    assert reaper.workers.mark_lost(claimer.worker_id, lease(claimer))
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", task_id)
    calls = {
        "settle": lambda: stage.beside(claimer.store.executions.settle, [Outcome(execution, event)]),
        "rescue": lambda: stage.beside(reaper.executions.rescue, claimer.worker_id),
    }
    waiting = {name: calls[name]() for name in sorted(calls, key=lambda name: name != first)}
    stage.stand_still(*waiting.values())
    rival.rollback()
    [settled], rescued = only(waiting["settle"]), only(waiting["rescue"])
    assert (settled is None) == bool(rescued), "exactly one of them ended it"
    ends = path(claimer, task_id)[2:]
    assert ends == ["lease_lost"] if rescued else len(ends) == 1
    with pytest.raises(StaleExecution):
        claimer.store.executions.progress(task_id, execution.exec_id, "1")


def test_a_settle_between_the_reapers_look_and_its_write_is_kept(stage, claimer):
    """Spec: B3"""
    [task_id] = submit_many(claimer.store, 1)
    [execution] = claimer.claim().executions
    reaper, rival = stage.store(), stage.rival()
    reaper.workers.mark_lost(claimer.worker_id, lease(claimer))
    rival.run(BEFORE_THE_TAKE)
    ending = stage.beside(claimer.store.executions.settle, [Outcome(execution, Returned())])
    stage.await_waiters(ending)
    rescuing = stage.beside(reaper.executions.rescue, claimer.worker_id)
    stage.stand_still(ending, rescuing)
    rival.commit()
    results = only(ending), only(rescuing)
    assert stage.count("id = %s AND status = 'succeeded'", task_id) == (results[0] == [State.SUCCEEDED])
    assert path(claimer, task_id) in (["submitted", "started", "completed"], ["submitted", "started", "lease_lost"])


def test_an_overdue_task_that_settles_meanwhile_is_ended_once(stage, claimer):
    """Spec: B3, A6"""
    submit_many(claimer.store, 1, timeout_seconds=10.0)
    [execution] = claimer.claim().executions
    stage.clock.advance(11)
    claimer.store.workers.beat(claimer.worker_id)
    rival, reaper = stage.rival(), stage.store()
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", execution.id)
    calls = [
        stage.beside(reaper.executions.end_overdue),
        stage.beside(stage.store().executions.end_overdue),
        stage.beside(claimer.store.executions.settle, [Outcome(execution, Returned())]),
    ]
    stage.stand_still(*calls)
    rival.rollback()
    ended, again, [settled] = (only(call) for call in calls)
    assert [bool(ended), bool(again), settled is not None].count(True) == 1
    assert len(path(claimer, execution.id)) == 3


def test_two_reapers_give_a_task_back_once(stage, claimer):
    """Spec: B3"""
    [task_id] = submit_many(claimer.store, 1)
    claimer.claim()
    rival, reapers = stage.rival(), [stage.store(), stage.store()]
    assert reapers[0].workers.mark_lost(claimer.worker_id, lease(claimer))
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", task_id)
    calls = [stage.beside(reaper.executions.rescue, claimer.worker_id) for reaper in reapers]
    stage.await_waiters(*calls)
    rival.rollback()
    assert sorted(len(only(call)) for call in calls) == [0, 1]
    assert claimer.store.tasks.get(task_id).lost_count == 1


def test_a_reaper_that_trusts_an_old_look_robs_a_worker_that_has_beaten_since(stage, claimer):
    """Spec: A6. The trap: its snapshot is older than the beat."""
    submit_many(claimer.store, 1)
    claimer.claim()
    stage.clock.advance(31)
    beat, robber = stage.rival(), stage.rival()
    beat.run("UPDATE headgate_worker SET lease_until = lease_until + interval '1 hour'")
    assert robber.run(ROB, stage.clock.now)
    beat.commit()
    robber.commit()
    assert claimer.store.workers.beat(claimer.worker_id) == []
    assert stage.count("status = 'running'") == 0


def test_a_worker_that_beats_while_it_is_being_declared_lost_keeps_its_tasks(stage, claimer):
    """Spec: A6"""
    submit_many(claimer.store, 1)
    claimer.claim()
    seen, reaper, rival = lease(claimer), stage.store(), stage.rival()
    stage.clock.advance(31)
    rival.run(
        "UPDATE headgate_worker SET lease_until = %s + interval '30 s' WHERE id = %s",
        stage.clock.now,
        claimer.worker_id,
    )
    marking = stage.beside(reaper.workers.mark_lost, claimer.worker_id, seen)
    stage.await_waiters(marking)
    rival.commit()
    assert only(marking) is False
    assert claimer.store.workers.beat(claimer.worker_id) == []
    assert stage.count("status = 'running'") == 1


def test_a_worker_that_was_declared_lost_just_before_its_beat_hears_of_it(stage, claimer):
    """Spec: A6"""
    rival = stage.rival()
    rival.run("UPDATE headgate_worker SET lost = true WHERE id = %s", claimer.worker_id)
    calls = [stage.beside(claimer.store.workers.beat, claimer.worker_id), stage.beside(claimer.claim)]
    stage.await_waiters(*calls)
    rival.commit()
    for call in calls:
        assert isinstance(call.exception(20), WorkerLost)


def test_a_claim_in_flight_holds_off_the_declaration_and_what_it_took_is_then_rescued(stage, claimer):
    """Spec: A6. Otherwise the claim would commit for a worker whose tasks have been given back already."""
    [task_id] = submit_many(claimer.store, 1)
    seen, reaper, rival = lease(claimer), stage.store(), stage.rival()
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(claimer.claim, 1, claim_id="slow")
    stage.await_waiters(in_flight)
    marking = stage.beside(reaper.workers.mark_lost, claimer.worker_id, seen)
    stage.stand_still(in_flight, marking)
    assert not marking.done()
    rival.commit()
    assert only(marking) is True
    assert [execution.id for execution in only(in_flight).executions] == [task_id]
    assert [task.id for task in reaper.executions.rescue(claimer.worker_id)] == [task_id]
    assert reaper.workers.lost_holders() == []
    with pytest.raises(WorkerLost):
        claimer.claim()


@pytest.mark.parametrize("why", ["its deadline", "its mutex"])
def test_an_execution_that_took_over_while_the_reaper_looked_is_not_ended_for_the_one_before_it(stage, why):
    """Spec: A6, A10, B3"""
    claimer = Claimer(stage)
    [task_id] = submit_many(claimer.store, 1, mutex=KEY, timeout_seconds=10 if why == "its deadline" else 10**6)
    claimer.claim()
    stage.clock.advance(11 if why == "its deadline" else 7201)
    claimer.store.workers.beat(claimer.worker_id)
    rival = stage.rival()
    rival.run(
        "UPDATE headgate_task SET exec_id = gen_random_uuid(), executing_deadline = %s, scheduling_time = %s,"
        " seq = seq + 2"
        " WHERE id = %s",
        stage.clock() + timedelta(hours=1), stage.clock(), task_id,
    )  # fmt: skip
    reaping = stage.beside(claimer.store.executions.end_overdue)
    stage.await_waiters(reaping)
    rival.commit()
    assert only(reaping) == []
    assert claimer.store.tasks.get(task_id).status is State.RUNNING


REPORTS = {
    "progress": lambda store, execution: store.executions.progress(execution.id, execution.exec_id, '"older"'),
    "log": lambda store, execution: store.executions.add_log(execution.id, execution.exec_id, [("info", "older")]),
    "checkpoint": lambda store, execution: store.executions.save_checkpoint(
        execution.id, execution.exec_id, "at", '"older"'
    ),
}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_that_meets_the_next_execution_is_stale_and_overwrites_nothing(stage, claimer, report):
    """Spec: B3. It looked while it still owned its task, and would write when it owns it no more."""
    [task_id] = submit_many(claimer.store, 1)
    [execution] = claimer.claim().executions
    rival = stage.rival()
    rival.run(
        "UPDATE headgate_task SET exec_id = gen_random_uuid(), attempt = 2, progress = '\"newer\"' WHERE id = %s",
        task_id,
    )
    rival.run(
        "INSERT INTO headgate_checkpoint (task_id, name, state, at) VALUES (%s, 'at', '\"newer\"', now())", task_id
    )
    reporting = stage.beside(REPORTS[report], claimer.store, execution)
    stage.await_waiters(reporting)
    rival.commit()
    assert isinstance(reporting.exception(20), StaleExecution)
    assert claimer.store.executions.checkpoints(task_id) == {"at": '"newer"'}
    assert claimer.store.executions.log(task_id) == []
    assert claimer.store.tasks.get(task_id).progress == '"newer"'


def test_no_reaper_takes_what_a_dead_process_held_from_who_knows_how_it_died(stage, claimer):
    """Spec: A6"""
    rival, watcher = stage.rival(), Claimer(stage)
    submit_many(claimer.store, 1)
    [execution] = claimer.claim().executions
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR UPDATE", execution.id)
    burying = stage.beside(claimer.store.executions.bury, claimer.worker_id, Death(), actor="system:supervisor")
    stage.await_waiters(burying)
    assert watcher.store.workers.lost_holders() == []
    rival.rollback()
    assert [task.id for task in only(burying)] == [execution.id]
    task = watcher.store.tasks.get(execution.id)
    assert (task.status, task.error_count, task.lost_count) == (State.QUEUED, 0, 0)
    with pytest.raises(WorkerLost):
        claimer.claim()
