"""Room in lanes, resources and buckets: claimers that meet there never start more than there is room for."""

from datetime import timedelta

import pytest

from headgate.core.limits import Rate
from headgate.core.pause import PauseScope
from headgate.core.reasons import paused_subject
from headgate.core.task import Execution, TaskType
from headgate.store.claim.contract import HeldBack
from headgate.store.events.feed import Cursor
from tests.factories import START
from tests.store.races import AFTER_THE_TAKE, BEFORE_THE_TAKE, Claimer, Rival, Stage, only, submit_many

# What DESIGN 5 tried: the snapshot, and with it the count, is older than the lock.
LOCK_COUNT_AND_CLAIM = """
WITH room AS MATERIALIZED (SELECT capacity FROM headgate_lane WHERE name = 'narrow' FOR NO KEY UPDATE),
     held AS MATERIALIZED (SELECT count(*) AS number FROM room, headgate_task
                            WHERE lane = 'narrow' AND status = 'running'),
     heads AS MATERIALIZED (SELECT id FROM headgate_task WHERE lane = 'narrow' AND status = 'queued'
                             ORDER BY priority, id
                             LIMIT (SELECT capacity - number FROM room, held) FOR NO KEY UPDATE SKIP LOCKED)
UPDATE headgate_task t SET status = 'running', exec_id = gen_random_uuid(), claim_no = nextval('headgate_claim_no')
  FROM heads WHERE t.id = heads.id
"""
RUNNING = "lane = 'narrow' AND status = 'running'"


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    """The lane `narrow` has room for five, and twenty wait in it."""
    claimer = Claimer(stage)
    claimer.store.lanes.set_capacity("narrow", 5)
    submit_many(claimer.store, 20, lane="narrow")
    return claimer


def claim_and_stay(rival: Rival) -> None:
    """Fill the lane by hand and keep the transaction open."""
    rival.run(LOCK_COUNT_AND_CLAIM)


def test_lock_count_and_claim_in_one_statement_starts_ten_in_a_lane_of_five(stage, claimer):
    """Spec: A9. This is the trap itself; if it ever shuts, the next test proves nothing."""
    first, second = stage.rival(), stage.rival()
    claim_and_stay(first)
    late = stage.beside(second.run, LOCK_COUNT_AND_CLAIM)
    stage.await_waiters(late)
    first.commit()
    only(late)
    second.commit()
    assert stage.count(RUNNING) == 10


def test_a_claim_that_meets_another_in_a_lane_is_told_so_at_once_and_starts_nothing_too_much(stage, claimer):
    """Spec: A9"""
    rival = stage.rival()
    claim_and_stay(rival)
    met = claimer.claim(20)
    assert (met.executions, met.busy) == ([], True)
    rival.commit()
    after = claimer.claim(20)
    assert (after.executions, after.busy) == ([], False)
    assert stage.count(RUNNING) == 5


def test_two_claimers_in_one_lane_start_as_many_as_it_has_room_for(stage, claimer):
    """Spec: A9"""
    rival, other = stage.rival(), Claimer(stage)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(other.claim, 3, claim_id="slow")
    stage.await_waiters(in_flight)
    assert claimer.claim(20).busy
    rival.commit()
    assert len(only(in_flight).executions) == 3
    assert len(claimer.claim(20).executions) == 2
    assert stage.count(RUNNING) == 5


@pytest.mark.parametrize(("capacity", "more"), [(2, 0), (7, 2), (None, 15)])
def test_a_capacity_that_changes_under_a_claim_waits_for_it_and_holds_for_the_next(stage, claimer, capacity, more):
    """Spec: A9"""
    rival, other = stage.rival(), Claimer(stage)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(other.claim, 5, claim_id="slow")
    stage.await_waiters(in_flight)
    change = stage.beside(stage.store().lanes.set_capacity, "narrow", capacity)
    stage.stand_still(in_flight, change)
    assert not change.done()
    rival.commit()
    only(change)
    assert len(only(in_flight).executions) == 5
    assert len(claimer.claim(20).executions) == more
    assert stage.count(RUNNING) == 5 + more


def test_a_claim_that_reads_a_capacity_just_before_it_is_lowered_does_not_use_the_old_one(stage, claimer):
    """Spec: A9"""
    rival = stage.rival()
    rival.run("UPDATE headgate_lane SET capacity = 1 WHERE name = 'narrow'")
    rival.run("UPDATE headgate_catalog SET version = version + 1")
    assert claimer.claim(20).busy
    rival.commit()
    assert len(claimer.claim(20).executions) == 1


def test_a_limit_set_while_a_claim_is_in_flight_counts_what_that_claim_starts(stage):
    """Spec: A9. The lane had no limit, so the claim holds no lock on it."""
    rival, slow, quick = stage.rival(), Claimer(stage), Claimer(stage)
    submit_many(slow.store, 2, lane="wide")
    submit_many(slow.store, 2, "manual", lane="wide")
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(slow.claim, 2, types=frozenset({"manual"}), claim_id="slow")
    stage.await_waiters(in_flight)
    change = stage.beside(stage.store().lanes.set_capacity, "wide", 2)
    stage.stand_still(in_flight, change)
    if change.done():
        quick.claim(4, types=frozenset({"plain"}))
    rival.commit()
    only(change)
    assert len(only(in_flight).executions) == 2
    assert stage.count("lane = 'wide' AND status = 'running'") == 2


PAUSES = [("lane", "narrow"), ("lane", "wide"), ("type", "plain"), ("tenant", "0"), ("key", "api"), ("all", "")]
pauses = pytest.mark.parametrize("what", PAUSES, ids=":".join)
ends = pytest.mark.parametrize("until", [None, START + timedelta(hours=1)], ids=["no end", "an end"])


@ends
@pauses
def test_nothing_starts_once_a_pause_has_returned(stage, claimer, what, until):
    """Spec: A9. A claim that was under way is waited for, or starts nothing."""
    rival, slow = stage.rival(), Claimer(stage)
    submit_many(slow.store, 3, lane="wide", rate_key="api")
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(slow.claim, 23, claim_id="slow")
    stage.await_waiters(in_flight)
    pause = stage.beside(lambda: stage.store().pauses.set(PauseScope(what[0]), what[1], until=until))
    stage.stand_still(in_flight, pause)
    started_by_then = stage.count("status = 'running'") if pause.done() else None
    rival.commit()
    only(pause)
    only(in_flight)
    assert started_by_then in (None, stage.count("status = 'running'"))


@ends
@pytest.mark.parametrize("what", PAUSES[1:], ids=":".join)
@pytest.mark.parametrize("first", ["start", "pause"])
def test_a_confirmed_start_that_meets_a_pause_comes_before_it_or_is_held_back(stage, first, what, until):
    """Spec: A9, E1"""
    rival, claimer, editor = stage.rival(), Claimer(stage), stage.store()
    submit_many(claimer.store, 1, lane="wide", rate_key="api")
    [handed] = claimer.claim(confirm=True).executions
    calls = {
        "start": lambda: stage.beside(claimer.store.executions.start, handed.id, handed.exec_id),
        "pause": lambda: stage.beside(lambda: editor.pauses.set(PauseScope(what[0]), what[1], until=until)),
    }
    rival.run(BEFORE_THE_TAKE)
    made = {}
    for name in sorted(calls, key=lambda name: name != first):
        made[name] = calls[name]()
        stage.await_waiters(*made.values())
    rival.commit()
    started = only(made["start"])
    assert only(made["pause"]) is True
    kinds = [event.kind for event in editor.events.after(Cursor(), 100)[0]]
    if first == "start":
        assert isinstance(started, Execution)
        assert kinds[-2:] == ["started", "paused"]
    else:
        subject = paused_subject({"scope": what[0], "name": what[1]})
        assert started == HeldBack(f"{subject} is paused")
        assert kinds[-2:] == ["paused", "given_back"]


LIMITS = {
    "lane": "SELECT 1 FROM headgate_lane WHERE name = 'narrow' FOR NO KEY UPDATE",
    "resource": "SELECT 1 FROM headgate_resource WHERE name = 'disk-writer' FOR NO KEY UPDATE",
    "rate": "SELECT 1 FROM headgate_rate_limit WHERE name = 'type:limited' FOR NO KEY UPDATE",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_somebody_holds_is_busy_not_empty_and_nobody_waits_for_it(stage, limit):
    """Spec: A9, D8"""
    rival, claimer = stage.rival(), Claimer(stage)
    claimer.store.types.put(TaskType("limited", lane="narrow", uses=("disk-writer",)))
    claimer.store.lanes.set_capacity("narrow", 1)
    claimer.store.rate_limits.set("type:limited", Rate(1, 1))
    [waiting] = submit_many(claimer.store, 1, "limited")
    [elsewhere] = submit_many(claimer.store, 1)
    rival.run(LIMITS[limit])
    met = claimer.claim(2)
    assert met.busy
    assert [execution.id for execution in met.executions] == [elsewhere]
    rival.rollback()
    assert claimer.ids(2) == [waiting]


def test_a_bucket_gives_no_token_twice_when_two_claimers_meet(stage):
    """Spec: D8"""
    rival, slow, quick = stage.rival(), Claimer(stage), Claimer(stage)
    slow.store.rate_limits.set("type:plain", Rate(1, 3))
    submit_many(slow.store, 9)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(slow.claim, 2, claim_id="slow")
    stage.await_waiters(in_flight)
    assert quick.claim(9).busy
    rival.commit()
    assert len(only(in_flight).executions) == 2
    assert len(quick.claim(9).executions) == 1


def test_a_resource_is_not_exceeded_by_claims_that_commit_in_another_order_than_they_took(stage):
    """Spec: A11. Who claimed one resource earlier may commit later than who claimed another."""
    rival, slow, quick, third = stage.rival(), Claimer(stage), Claimer(stage), Claimer(stage)
    for name in ("left", "right"):
        slow.store.types.put(TaskType(name, uses=(name,)))
        submit_many(slow.store, 3, name)
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(slow.claim, 1, types=frozenset({"left"}), claim_id="slow")
    stage.await_waiters(in_flight)
    assert len(quick.claim(types=frozenset({"right"})).executions) == 1
    assert third.claim(9).executions == []  # left is held by a claim, right is in use; both are remembered
    rival.commit()
    assert len(only(in_flight).executions) == 1
    assert third.claim(9).executions == []
    assert stage.count("uses = 'left' AND status = 'running'") == 1


def test_a_lane_is_not_exceeded_by_two_threads_that_share_what_their_process_remembers(stage, claimer):
    """Spec: A9. A thread that looked before the other started something tells what it saw afterwards."""
    claimer.store.lanes.set_capacity("narrow", 1)
    lane, answers = stage.rival(), stage.rival()
    lane.run("SELECT 1 FROM headgate_lane WHERE name = 'narrow' FOR NO KEY UPDATE")
    answers.run("LOCK TABLE headgate_claim_answer IN ACCESS EXCLUSIVE MODE")
    looked_early = stage.beside(claimer.claim, 9, claim_id="slow")
    stage.await_waiters(looked_early)
    lane.rollback()
    assert len(claimer.claim(9).executions) == 1
    assert claimer.claim(9).executions == []
    answers.rollback()
    assert only(looked_early).executions == []
    assert claimer.claim(9).executions == []
    assert stage.count(RUNNING) == 1


@pytest.fixture
def agents(stage):
    """Two servers of one agent, to which three tasks are assigned."""
    one, other = Claimer(stage), Claimer(stage)
    submit_many(one.store, 3, agent_id="rig")
    return one, other


def test_of_two_claims_of_an_agent_that_meet_one_starts_and_the_other_is_told_so_at_once(stage, agents):
    """Spec: E3"""
    one, other = agents
    rival = stage.rival()
    rival.run(AFTER_THE_TAKE)
    in_flight = stage.beside(one.claim, 3, agent_id="rig", confirm=True, claim_id="slow")
    stage.await_waiters(in_flight)
    met = other.claim(3, agent_id="rig", confirm=True)
    assert (met.executions, met.busy) == ([], True)
    rival.commit()
    assert len(only(in_flight).executions) == 1
    after = other.claim(3, agent_id="rig", confirm=True)
    assert (after.executions, after.busy) == ([], False)
    assert stage.count("status = 'scheduling'") == 1


def test_a_task_that_somebody_else_has_in_hand_costs_an_agent_no_start(stage, agents):
    """Spec: E3"""
    one, other = agents
    rival = stage.rival()
    rival.run("SELECT id FROM headgate_task ORDER BY id LIMIT 1 FOR NO KEY UPDATE")
    met = one.claim(1, agent_id="rig", confirm=True)
    assert (met.executions, met.busy) == ([], True)
    rival.commit()
    assert len(other.claim(1, agent_id="rig", confirm=True).executions) == 1
