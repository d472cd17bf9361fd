"""A resource between claims and handlers that hold it: whoever has locked its row is waited for, then counted."""

import pytest

from headgate.core.task import TaskType
from headgate.store.execution.holds import ONE_CIRCLE_AT_A_TIME
from tests.store.races import AFTER_THE_TAKE, Claimer, Stage, only, submit_many

TAKE = """
INSERT INTO headgate_hold (resource, task_id, exec_id, tenant_id, held, newest_task, since)
SELECT 'disc', id, exec_id, tenant_id, true, id, now() FROM headgate_task WHERE id = %s
"""
LOCK = "SELECT 1 FROM headgate_resource WHERE name = 'disc' FOR NO KEY UPDATE"


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    """The disc has room for one, and the type `writer` uses it."""
    claimer = Claimer(stage)
    claimer.store.types.put(TaskType("writer", uses=("disc",)))
    return claimer


def running(claimer):
    submit_many(claimer.store, 1)
    [execution] = claimer.claim(types=frozenset({"plain"})).executions
    return execution


def take(store, execution):
    return store.holds.take(execution.id, execution.exec_id, "disc", insist=True).held


def test_a_handler_waits_for_the_claim_under_way_and_counts_what_it_started(stage, claimer):
    """Spec: C3"""
    rival, other, holder = stage.rival(), Claimer(stage), running(claimer)
    submit_many(claimer.store, 2, "writer")
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(other.claim, 2, types=frozenset({"writer"}), claim_id="slow")
    stage.await_waiters(in_flight)
    taking = stage.beside(take, claimer.store, holder)
    stage.await_waiters(in_flight, taking)
    rival.commit()
    assert len(only(in_flight).executions) == 1
    assert only(taking) is False


def test_a_claim_finds_a_resource_busy_while_a_handler_takes_it_and_counts_it_afterwards(stage, claimer):
    """Spec: C3"""
    rival, holder = stage.rival(), running(claimer)
    submit_many(claimer.store, 2, "writer")
    rival.run(LOCK)
    rival.run(TAKE, holder.id)
    met = claimer.claim(2)
    assert (met.executions, met.busy) == ([], True)
    rival.commit()
    after = claimer.claim(2)
    assert (after.executions, after.busy) == ([], False)


def test_of_two_handlers_that_take_the_last_place_at_once_one_gets_it(stage, claimer):
    """Spec: C3"""
    rival, first, second = stage.rival(), running(claimer), running(claimer)
    rival.run(LOCK)
    takes = [stage.beside(take, stage.store(), each) for each in (first, second)]
    stage.await_waiters(*takes)
    rival.commit()
    assert sorted(only(each) for each in takes) == [False, True]


def test_a_capacity_that_is_lowered_under_a_handler_that_takes_is_the_one_that_counts(stage, claimer):
    """Spec: X10"""
    rival, holder = stage.rival(), running(claimer)
    rival.run("UPDATE headgate_resource SET capacity = 0 WHERE name = 'disc'")
    taking = stage.beside(take, claimer.store, holder)
    stage.await_waiters(taking)
    rival.commit()
    assert only(taking) is False


def test_a_resource_that_is_removed_under_a_handler_that_takes_it_is_made_again(stage, claimer):
    """Spec: X10"""
    rival, holder = stage.rival(), running(claimer)
    rival.run("DELETE FROM headgate_resource WHERE name = 'disc'")
    taking = stage.beside(take, claimer.store, holder)
    stage.await_waiters(taking)
    rival.commit()
    assert only(taking)


def test_of_two_that_close_a_circle_at_once_one_is_told_so(stage, claimer):
    """Spec: C3"""
    rival, first, second = stage.rival(), running(claimer), running(claimer)
    for execution, name in ((first, "a"), (second, "b")):
        assert claimer.store.holds.take(execution.id, execution.exec_id, name).held
    rival.run(ONE_CIRCLE_AT_A_TIME.postgres)
    asked = [(first, "b", ["a"]), (second, "a", ["b"])]
    asking = [
        stage.beside(stage.store().holds.take, each.id, each.exec_id, name, keeps=keeps) for each, name, keeps in asked
    ]
    stage.await_waiters(*asking)
    rival.commit()
    stage.stand_still(*asking)
    assert sorted(type(call.exception()).__name__ for call in asking) == ["Deadlock", "NoneType"]
    assert [call.result().held for call in asking if call.exception() is None] == [False]
