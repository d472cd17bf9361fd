"""Submits that meet: one task per unique key, one answer per idempotency key, every stream known to everybody."""

import pytest

from headgate.core.errors import KeyReused
from headgate.core.machine import Returned
from headgate.core.task import NewTask
from headgate.store.claim.contract import Outcome
from headgate.store.tasks.idempotency import Idempotency
from tests.store.races import BEFORE_THE_TAKE, KEY, Claimer, Stage, only, submit_many

UNIQUE = NewTask("plain", unique_key="one")
ONCE = Idempotency("call-1", "digest")
LOOK_THEN_INSERT = """
INSERT INTO naive SELECT 'one' WHERE NOT EXISTS (SELECT 1 FROM naive WHERE unique_key = 'one') RETURNING unique_key
"""


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    claimer = Claimer(stage)
    submit_many(claimer.store, 1, delay_seconds=60)  # its stream is known
    return claimer


def test_two_submits_that_look_first_and_insert_later_make_two(stage):
    """Spec: X2. The trap."""
    setup, first, second = stage.rival(), stage.rival(), stage.rival()
    setup.run("CREATE TABLE naive (unique_key text)")
    setup.commit()
    try:
        assert [len(rival.run(LOOK_THEN_INSERT)) for rival in (first, second)] == [1, 1]
    finally:
        first.rollback()
        second.rollback()
        setup.run("DROP TABLE naive")
        setup.commit()


def test_two_submits_of_one_unique_key_make_one_task_and_both_are_told_of_it(stage, claimer):
    """Spec: X2"""
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    calls = [stage.beside(stage.store().tasks.submit, UNIQUE) for _ in range(2)]
    stage.await_waiters(*calls)
    rival.commit()
    made = [only(call) for call in calls]
    assert sorted(one.created for one in made) == [False, True]
    assert len({one.id for one in made}) == 1
    assert stage.count("unique_key = 'one'") == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_submit_waits_for_the_one_that_has_its_unique_key_and_is_made_if_that_fails(stage, claimer, end):
    """Spec: X2"""
    rival = stage.rival()
    [[first]] = rival.run(
        "INSERT INTO headgate_task (tenant_id, type, creator, start_time, status, category, ext, create_date,"
        " update_date,"
        " lane,"
        " priority, stream_id, unique_key) SELECT tenant_id, type, creator, start_time, 'queued', category, ext,"
        " create_date, update_date, lane, priority, stream_id, 'one' FROM headgate_task RETURNING id"
    )
    second = stage.beside(claimer.store.tasks.submit, UNIQUE)
    stage.await_waiters(second)
    getattr(rival, end)()
    made = only(second)
    assert (made.id == first, made.created) == ((True, False) if end == "commit" else (False, True))
    assert stage.count("unique_key = 'one'") == 1


def test_a_submit_whose_rival_ended_meanwhile_makes_a_task_of_its_own(stage, claimer):
    """Spec: X2. The key is taken when it inserts, and free when it looks who has it."""
    claimer.store.tasks.submit(UNIQUE)
    [execution] = claimer.claim().executions
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    calls = [
        stage.beside(stage.store().executions.settle, [Outcome(execution, Returned())]),
        stage.beside(stage.store().tasks.submit, UNIQUE),
    ]
    stage.await_waiters(*calls)
    rival.commit()
    assert all(only(call) for call in calls)
    open_ones = stage.count("unique_key = 'one' AND status = 'queued'")
    assert (open_ones, only(calls[1]).created) in ((1, True), (0, False))


@pytest.mark.parametrize("mutex", [None, KEY], ids=["free", "in line"])
def test_two_calls_of_one_idempotency_key_make_one_task_and_get_one_answer(stage, claimer, mutex):
    """Spec: X2"""
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    wish = NewTask("plain", mutex=mutex)
    calls = [stage.beside(stage.store().tasks.submit, wish, once=ONCE) for _ in range(3)]
    stage.await_waiters(*calls)
    rival.commit()
    assert len({only(call).id for call in calls}) == 1
    assert sorted(only(call).created for call in calls) == [False, False, True]
    assert stage.count("status = 'queued'") == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_call_waits_for_the_one_that_has_its_idempotency_key_and_is_made_if_that_fails(stage, claimer, end):
    """Spec: X2"""
    rival = stage.rival()
    rival.run("INSERT INTO headgate_idempotency VALUES (0, 'call-1', 'digest', '[77]', now())")
    second = stage.beside(claimer.store.tasks.submit, NewTask("plain"), once=ONCE)
    stage.await_waiters(second)
    getattr(rival, end)()
    made = only(second)
    assert (made.id == 77, made.created) == ((True, False) if end == "commit" else (False, True))
    assert stage.count("status = 'queued'") == (end == "rollback")


def test_a_call_that_waited_is_refused_if_the_key_was_used_for_something_else(stage, claimer):
    """Spec: X2"""
    rival = stage.rival()
    rival.run("INSERT INTO headgate_idempotency VALUES (0, 'call-1', 'another digest', '[77]', now())")
    second = stage.beside(claimer.store.tasks.submit, NewTask("plain"), once=ONCE)
    stage.await_waiters(second)
    rival.commit()
    assert isinstance(second.exception(20), KeyReused)
    assert stage.count("status = 'queued'") == 0


def test_two_processes_that_make_one_stream_at_once_make_one(stage, claimer):
    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_catalog FOR UPDATE")
    calls = [stage.beside(stage.store().tasks.submit, NewTask("plain", lane="new")) for _ in range(3)]
    stage.await_waiters(*calls)
    rival.commit()
    made = [only(call).id for call in calls]
    assert sorted(claimer.ids(5)) == sorted(made)


def test_a_stream_that_is_committed_after_a_later_one_is_still_served(stage, claimer):
    """Its id was handed out first; a process that knows the later one must learn of it as well."""
    rival, slow = stage.rival(), stage.store()
    rival.run("LOCK TABLE headgate_rate_limit IN SHARE MODE")
    making = stage.beside(
        slow.tasks.submit_many, [NewTask("plain", lane="slow"), NewTask("plain", lane="slower", rate_key="new")]
    )
    stage.await_waiters(making)  # the first stream has its id, the second waits for its bucket
    later = stage.beside(submit_many, stage.store(), 1, lane="quick")
    stage.stand_still(making, later)
    started = claimer.ids(5) if later.done() else []
    rival.commit()
    made = [*(one.id for one in only(making)), *only(later)]
    assert sorted(started + claimer.ids(5)) == sorted(made)
    assert len(submit_many(claimer.store, 1, lane="slow")) == 1
