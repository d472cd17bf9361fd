"""The lines of the mutexes under concurrent claims, submits and settles: one at a time, and never nobody."""

from itertools import permutations

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.store.claim.contract import Outcome
from headgate.store.db.statement import SPACE
from headgate.store.tasks.mutex_queue import stripe
from tests.factories import submit
from tests.store.races import AFTER_THE_TAKE, BEFORE_THE_TAKE, KEY, Claimer, Stage, only

HELD = "mutex IS NOT NULL AND status IN ('scheduling', 'running')"
STRIPE = f"SELECT pg_advisory_xact_lock({SPACE}, {stripe((0, KEY))})"
# Free if nobody is seen to hold it: two that look at once both see nobody.
LOOK_THEN_START = """
UPDATE headgate_task t SET status = 'running', exec_id = gen_random_uuid()
 WHERE t.id = %s AND NOT EXISTS (SELECT 1 FROM headgate_task h WHERE h.mutex = t.mutex AND h.status = 'running')
RETURNING id
"""


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    return Claimer(stage)


def heads(claimer: Claimer) -> tuple[int, int]:
    """Two tasks of one mutex, each the head of its stream."""
    plain, manual = (submit(claimer.store, kind, mutex=KEY) for kind in ("plain", "manual"))
    assert (plain.status, manual.status) == (State.QUEUED, State.QUEUED)
    return plain.id, manual.id


def status(claimer: Claimer, task_id: int) -> State:
    return claimer.store.tasks.get(task_id).status


def test_two_who_look_at_once_whether_a_mutex_is_free_both_start_where_no_index_decides(stage, claimer):
    """Spec: A10. The trap; the unique index of the real table shuts it, with an error for the second."""
    first, second = heads(claimer)
    with_index = stage.rival(), stage.rival()
    with_index[0].run(LOOK_THEN_START, first)
    late = stage.beside(with_index[1].run, LOOK_THEN_START, second)
    stage.await_waiters(late)
    with_index[0].commit()
    assert "headgate_task_mutex" in str(late.exception(20))
    with_index[1].rollback()
    copies = stage.rival(), stage.rival()
    copies[0].run("CREATE TABLE naive AS SELECT * FROM headgate_task WHERE id = %s", second)
    copies[0].run("INSERT INTO naive SELECT * FROM headgate_task WHERE id = %s", first)
    copies[0].run("UPDATE naive SET status = 'queued'")
    copies[0].commit()
    try:
        naive = LOOK_THEN_START.replace("headgate_task", "naive")
        assert copies[0].run(naive, first) == [(first,)]
        assert copies[1].run(naive, second) == [(second,)]
    finally:
        copies[0].commit()
        copies[1].commit()
        copies[0].run("DROP TABLE naive")
        copies[0].commit()


def test_of_two_heads_claimed_at_once_one_starts_and_the_other_goes_back(stage, claimer):
    """Spec: A10"""
    plain, manual = heads(claimer)
    rival, other = stage.rival(), Claimer(stage)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(other.ids, 1, types=frozenset({"plain"}), claim_id="slow")
    stage.await_waiters(in_flight)
    met = claimer.claim(types=frozenset({"manual"}))
    assert (met.executions, met.busy) == ([], True)
    rival.commit()
    assert only(in_flight) == [plain]
    assert claimer.ids(types=frozenset({"manual"})) == []
    assert (stage.count(HELD), status(claimer, manual)) == (1, State.BLOCKED)


def test_a_head_that_another_claimer_looks_at_goes_back_when_it_is_next_chosen(stage, claimer):
    """Spec: A10"""
    plain, manual = heads(claimer)
    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", manual)
    assert claimer.ids() == [plain]
    assert status(claimer, manual) is State.QUEUED
    rival.rollback()
    stage.clock.advance(1)
    assert claimer.ids() == []
    assert (stage.count(HELD), status(claimer, manual)) == (1, State.BLOCKED)


def test_a_claim_that_finds_its_head_taken_from_under_it_sends_nobody_back(stage, claimer):
    """Spec: A10. Nobody holds the mutex then: a head in another stream must stay where a claim can find it."""
    claimer.store.lanes.set_capacity("narrow", 5)
    first = submit(claimer.store, lane="narrow", mutex=KEY).id
    second = submit(claimer.store, "manual", mutex=KEY).id
    rival = stage.rival()
    rival.run("SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE", first)  # as a submit of a child does
    assert claimer.ids(types=frozenset({"plain"})) == []
    assert status(claimer, second) is State.QUEUED
    claimer.store.lanes.pause("narrow")
    assert claimer.ids() == [second], "a task whose lane is shut holds up nobody"


def test_a_line_that_somebody_moves_in_is_busy_and_its_head_is_found_at_once_afterwards(stage, claimer):
    """Spec: A10"""
    task_id = submit(claimer.store, mutex=KEY).id
    rival = stage.rival()
    rival.run(STRIPE)
    met = claimer.claim()
    assert (met.executions, met.busy) == ([], True)
    rival.rollback()
    assert claimer.ids() == [task_id], "who is told to ask again at once must find what was there"


@pytest.mark.parametrize("order", list(permutations(["settle", "plain", "manual"])), ids=" ".join)
def test_submits_that_meet_their_holders_end_leave_one_head_per_stream_and_one_starts(stage, claimer, order):
    """Spec: A10. In whichever order they get at the line, which is first come, first served."""
    submit(claimer.store, mutex=KEY)
    [holder] = claimer.claim().executions
    rival, waiting = stage.rival(), []
    rival.run(STRIPE)
    for name in order:
        if name == "settle":
            waiting.append(stage.beside(claimer.store.executions.settle, [Outcome(holder, Returned())]))
        else:
            waiting.append(stage.beside(claimer.store.tasks.submit, NewTask(name, mutex=KEY)))
        stage.await_waiters(*waiting)
    rival.commit()
    for call in waiting:
        only(call)
    assert stage.count("mutex IS NOT NULL AND status = 'queued'") == 2
    assert len(claimer.claim(5).executions) == 1
    assert stage.count(HELD) == 1


def test_a_submit_while_the_holders_end_is_not_committed_yet_comes_forward_with_it(stage, claimer):
    """Spec: A10. Without the stripe it would see the holder still running and be blocked for ever."""
    submit(claimer.store, mutex=KEY)
    [holder] = claimer.claim().executions
    rival, submitter = stage.rival(), stage.store()
    rival.run(BEFORE_THE_TAKE)
    ending = stage.beside(claimer.store.executions.settle, [Outcome(holder, Returned())])
    stage.await_waiters(ending)
    making = stage.beside(submitter.tasks.submit, NewTask("plain", mutex=KEY))
    stage.stand_still(ending, making)
    assert not making.done()
    rival.commit()
    only(ending)
    assert status(claimer, only(making).id) is State.QUEUED
    assert claimer.ids() == [only(making).id]


def test_a_cancelled_head_and_a_claim_of_it_leave_the_line_with_a_head_or_a_holder(stage, claimer):
    """Spec: A10, B8"""
    first, second = (submit(claimer.store, mutex=KEY).id for _ in range(2))
    rival = stage.rival()
    rival.run(BEFORE_THE_TAKE)
    calls = [stage.beside(claimer.claim), stage.beside(stage.store().tasks.cancel, first)]
    stage.await_waiters(*calls[:1])
    stage.stand_still(*calls)
    rival.commit()
    for call in calls:
        only(call)
    standing = {status(claimer, first), status(claimer, second)}
    assert standing in ({State.CANCELLED, State.QUEUED}, {State.RUNNING, State.BLOCKED})


def test_whoever_is_next_comes_forward_though_it_is_given_a_child_at_that_moment(stage, claimer):
    """Spec: A10, D7"""
    holder, following = submit(claimer.store, mutex=KEY), submit(claimer.store, mutex=KEY)
    [execution] = claimer.claim().executions
    assert execution.id == holder.id
    mother = stage.rival()
    mother.run("UPDATE headgate_task SET has_children = true, seq = seq + 1 WHERE id = %s", following.id)
    settling = stage.beside(claimer.store.executions.settle, [Outcome(execution, Returned())])
    stage.await_waiters(settling)
    mother.commit()
    assert settling.result(20) == [State.SUCCEEDED]
    assert status(claimer, following.id) is State.QUEUED
