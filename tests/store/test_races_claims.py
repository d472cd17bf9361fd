"""Claims that meet each other, people's acts, and what was given back behind their floor."""

import pytest

from headgate.core.machine import Raised, Snoozed
from headgate.core.states import State
from headgate.store.claim.contract import Outcome
from tests.store.races import AFTER_THE_TAKE, BEFORE_THE_TAKE, Claimer, Stage, only, submit_many

READ_THEN_WRITE = (
    "SELECT id FROM headgate_task WHERE status = 'queued' ORDER BY priority, id LIMIT 1",
    "UPDATE headgate_task SET status = 'running', exec_id = gen_random_uuid() WHERE id = %s RETURNING id",
)

_COLUMNS = (
    "tenant_id, type, creator, start_time, status, category, ext, create_date, update_date, lane, priority, stream_id"
)
SUBMIT_LIKE = f"INSERT INTO headgate_task ({_COLUMNS}) SELECT {_COLUMNS} FROM headgate_task WHERE id = %s RETURNING id"


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    return Claimer(stage)


def test_a_claim_that_reads_first_and_writes_later_starts_one_task_twice(stage, claimer):
    """Spec: D2. The trap: without the lock and the guard both believe that they have it."""
    submit_many(claimer.store, 1)
    first, second = stage.rival(), stage.rival()
    [found] = {*first.run(READ_THEN_WRITE[0]), *second.run(READ_THEN_WRITE[0])}
    assert first.run(READ_THEN_WRITE[1], *found) == [found]
    late = stage.beside(second.run, READ_THEN_WRITE[1], *found)
    stage.await_waiters(late)
    first.commit()
    assert only(late) == [found]


def test_two_claimers_of_one_stream_neither_wait_for_each_other_nor_get_the_same_task(stage, claimer):
    """Spec: A4, D2"""
    rival, other = stage.rival(), Claimer(stage)
    ids = submit_many(claimer.store, 6)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(other.ids, 2, claim_id="slow")
    stage.await_waiters(in_flight)
    assert claimer.ids(2) == ids[2:4]
    rival.commit()
    assert only(in_flight) == ids[:2]
    assert claimer.ids(6) == ids[4:]


def test_what_a_claim_skipped_comes_back_within_a_second_if_the_other_claimer_dies(stage, claimer):
    rival = stage.rival()
    first, second = submit_many(claimer.store, 2)
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", first)
    assert claimer.ids() == [second]
    rival.rollback()
    stage.clock.advance(1)
    assert claimer.ids() == [first]


@pytest.mark.parametrize("lane", ["narrow", "wide"])
class TestActsAgainstClaims:
    """An act that meets a claim comes before it or after it; never both half."""

    @pytest.fixture
    def claimer(self, stage):
        claimer = Claimer(stage)
        claimer.store.lanes.set_capacity("narrow", 5)
        return claimer

    @pytest.mark.parametrize(
        ("act", "after"), [("cancel", State.CANCELLED), ("pause", State.PAUSED), ("prioritize", State.QUEUED)]
    )
    def test_a_claim_does_not_wait_for_an_act_that_came_first(self, stage, claimer, lane, act, after):
        """Spec: B8, A2"""
        first, second = submit_many(claimer.store, 2, lane=lane)
        rival = stage.rival()
        rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", first)
        doing = stage.beside(getattr(stage.store().tasks, act), first)
        stage.await_waiters(doing)
        met = claimer.claim()
        taken = [execution.id for execution in met.executions]
        assert taken == [second] or (taken == [] and met.busy), "what somebody holds is busy, not empty"
        rival.rollback()
        assert only(doing).status is after
        stage.clock.advance(1)
        left = [first, second] if act == "prioritize" else [second]
        assert claimer.ids(2) == [task_id for task_id in left if task_id not in taken]

    @pytest.mark.parametrize(("act", "flag"), [("cancel", "cancel_requested"), ("pause", "pause_requested")])
    def test_an_act_that_comes_second_waits_for_the_claim_and_asks_the_execution(self, stage, claimer, lane, act, flag):
        """Spec: B8, A2"""
        [task_id] = submit_many(claimer.store, 1, lane=lane)
        rival = stage.rival()
        rival.run(AFTER_THE_TAKE)
        in_flight = stage.beside(claimer.claim, 1, claim_id="slow")
        stage.await_waiters(in_flight)
        doing = stage.beside(getattr(stage.store().tasks, act), task_id)
        stage.stand_still(in_flight, doing)
        rival.commit()
        [execution] = only(in_flight).executions
        task = only(doing)
        assert (task.status, getattr(task, flag), task.exec_id) == (State.RUNNING, True, execution.exec_id)

    @pytest.mark.parametrize("act", ["cancel", "pause", "prioritize"])
    def test_an_act_between_a_claims_choice_and_its_take_is_not_overwritten(self, stage, claimer, lane, act):
        """Spec: B8, A2"""
        [task_id] = submit_many(claimer.store, 1, lane=lane)
        rival = stage.rival()
        rival.run(BEFORE_THE_TAKE)
        in_flight = stage.beside(claimer.claim, 1)
        stage.await_waiters(in_flight)
        doing = stage.beside(getattr(stage.store().tasks, act), task_id)
        stage.stand_still(in_flight, doing)
        rival.commit()
        taken, task = only(in_flight).executions, only(doing)
        told = [event for event in claimer.store.events.of(task_id) if event.seq]
        assert [event.seq for event in told] == list(range(1, len(told) + 1))
        assert [event.before for event in told] == [None, *(event.after for event in told[:-1])]
        assert (task.status is State.RUNNING) == bool(taken) or act == "prioritize"


def test_a_task_that_is_prioritized_while_others_start_goes_next(stage, claimer):
    """Spec: A4"""
    ids = submit_many(claimer.store, 5)
    rival, other = stage.rival(), Claimer(stage)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(other.ids, 2, claim_id="slow")
    stage.await_waiters(in_flight)
    claimer.store.tasks.prioritize(ids[4])
    assert claimer.ids() == [ids[4]]
    rival.commit()
    assert only(in_flight) == ids[:2]


class TestTheFloor:
    """A process reads each stream from where it left it; what comes back before that place is found none the less."""

    def test_a_task_given_back_is_found_at_once_by_its_own_process_and_in_a_second_by_another(self, stage, claimer):
        """Spec: A4, X4"""
        other = Claimer(stage)
        ids = submit_many(claimer.store, 6)
        [first] = claimer.claim().executions
        assert other.ids() == [ids[1]]
        assert claimer.ids() == [ids[2]]
        claimer.store.executions.give_back(first.id, first.exec_id)
        assert other.ids() == [ids[3]], "the other process reads on from its floor"
        assert claimer.ids() == [ids[0]]
        [again] = claimer.claim().executions
        assert again.id == ids[4]
        claimer.store.executions.give_back(again.id, again.exec_id)
        stage.clock.advance(1)
        assert other.ids() == [ids[4]]

    @pytest.mark.parametrize("back", [Raised("again", 0.0), Snoozed(0.0)])
    def test_a_task_that_falls_due_again_is_found_at_once_by_the_process_that_brought_it(self, stage, claimer, back):
        """Spec: A4, X2"""
        ids = submit_many(claimer.store, 2)
        [first] = claimer.claim().executions
        assert claimer.ids(2) == [ids[1]]
        assert claimer.ids() == []
        claimer.store.executions.settle([Outcome(first, back)])
        assert claimer.store.due.bring() == 1
        assert claimer.ids() == [ids[0]]

    def test_a_task_that_is_resumed_is_found_at_once_by_the_process_that_did_it(self, stage, claimer):
        """Spec: A2"""
        ids = submit_many(claimer.store, 2)
        claimer.store.tasks.pause(ids[0])
        assert claimer.ids(2) == [ids[1]]
        claimer.store.tasks.resume(ids[0])
        assert claimer.ids(2) == [ids[0]]

    def test_a_task_that_an_uncommitted_submit_put_before_the_floor_is_found_in_a_second(self, stage, claimer):
        """Spec: A4, X4. Ids are handed out before they are committed."""
        rival = stage.rival()
        [kept] = submit_many(claimer.store, 1)
        [[early]] = rival.run(SUBMIT_LIKE, kept)
        [late] = submit_many(claimer.store, 1)
        assert early < late
        assert claimer.ids(5) == [kept, late]
        rival.commit()
        stage.clock.advance(1)
        assert claimer.ids(5) == [early]
