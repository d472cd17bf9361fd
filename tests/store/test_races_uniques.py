"""Submits that are unique for a while or debounced meet each other, a claim, and a caller's open transaction."""

import psycopg
import pytest

from headgate import Headgate
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.settings import Settings
from headgate.store.claim.contract import Outcome
from headgate.store.tasks.submit import Submitted
from tests.store.races import AFTER_THE_TAKE, BEFORE_THE_TAKE, Claimer, Stage, only, submit_many

HOURLY = NewTask("plain", unique_key="report", unique_seconds=3600)
SAVE = NewTask("plain", '{"text": "a"}', unique_key="document", debounce_seconds=5)


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    claimer = Claimer(stage)
    submit_many(claimer.store, 1, delay_seconds=60)  # its stream is known
    return claimer


@pytest.mark.parametrize("wish", [HOURLY, SAVE], ids=["for a while", "debounced"])
def test_of_two_at_once_one_makes_the_task_and_both_are_told_of_it(stage, claimer, wish):
    """Spec: X2"""
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    calls = [stage.beside(stage.store().tasks.submit, wish) for _ in range(2)]
    stage.await_waiters(*calls)
    rival.commit()
    made = [only(call) for call in calls]
    assert sorted(one.created for one in made) == [False, True]
    assert len({one.id for one in made}) == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_submit_waits_for_a_callers_transaction_that_has_its_key_and_makes_the_task_if_that_fails(
    stage, claimer, end
):
    """Spec: X2, X1"""
    app = Headgate(settings=Settings(url=stage.url))

    @app.task(code="plain", unique_key="report", unique_seconds=3600)
    def report() -> None: ...

    with psycopg.connect(stage.url) as connection:
        first = app.submit_in(connection, report.call())
        second = stage.beside(claimer.store.tasks.submit, HOURLY)
        stage.await_waiters(second)
        getattr(connection, end)()
        made = only(second)
    app.close()
    assert (made.id == first.id, made.created) == ((True, False) if end == "commit" else (False, True))
    assert stage.count("unique_key = 'report'") == 1


def test_one_that_is_made_and_ends_while_another_waits_for_its_key_is_seen_by_that_one(stage, claimer):
    """Spec: X2. Whoever looked before the lock would make a second one."""
    rival = stage.rival()
    claimer.store.tasks.submit(HOURLY._replace(unique_key="other"))
    assert claimer.ids() != []
    rival.run("INSERT INTO headgate_submit_key VALUES (0, 'plain', 'report', NULL, now(), now())")
    waits = stage.beside(stage.store().tasks.submit, HOURLY)
    stage.await_waiters(waits)
    [[first]] = rival.run(
        "INSERT INTO headgate_task (tenant_id, type, creator, start_time, status, category, ext, create_date,"
        " update_date,"
        " lane,"
        " priority, stream_id, unique_key, finished_at) SELECT tenant_id, type, creator, start_time, 'succeeded',"
        " category, ext, create_date, update_date, lane, priority, stream_id, 'report', now() FROM headgate_task"
        " WHERE status = 'pending' RETURNING id"
    )
    rival.run("UPDATE headgate_submit_key SET task_id = %s, at = %s WHERE key = 'report'", first, stage.clock.now)
    rival.commit()
    assert only(waits) == Submitted(first, False)
    assert stage.count("unique_key = 'report'") == 1


@pytest.mark.parametrize("stopped", [BEFORE_THE_TAKE, AFTER_THE_TAKE], ids=["before the take", "at the commit"])
def test_a_debounce_that_meets_a_claim_waits_for_it_and_makes_the_next_one(stage, claimer, stopped):
    """Spec: X2. What was asked last runs, whoever comes first."""
    first = claimer.store.tasks.submit(SAVE)
    stage.clock.advance(5)
    assert claimer.store.due.bring() == 1
    rival = stage.rival()
    rival.run(stopped)
    claim = stage.beside(claimer.claim, claim_id="one")
    stage.await_waiters(claim)
    again = stage.beside(stage.store().tasks.submit, SAVE._replace(ext='{"text": "b"}'))
    stage.stand_still(claim, again)
    rival.commit()
    [execution], made = only(claim).executions, only(again)
    assert execution.id == first.id
    store = claimer.store
    if made.created:  # the claim had it: the next one waits
        assert (execution.ext, store.tasks.get(made.id).ext) == ('{"text": "a"}', '{"text": "b"}')
        assert store.tasks.get(made.id).status is State.PENDING
    else:
        assert execution.ext == '{"text": "b"}'
    store.executions.settle([Outcome(execution, Returned())])


def test_two_batches_that_name_the_same_keys_in_another_order_both_come_through(stage, claimer):
    """Spec: X2"""
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    wishes = [SAVE._replace(unique_key=str(number)) for number in range(6)]
    calls = [stage.beside(stage.store().tasks.submit_many, batch) for batch in (wishes, wishes[::-1])]
    stage.await_waiters(*calls)
    rival.commit()
    made = [only(call) for call in calls]
    assert sorted(sum(one.created for one in batch) for batch in made) == [0, 6]
    assert [one.id for one in made[0]] == [one.id for one in made[1]][::-1]
