"""The reaper robs nobody who beats, and rescues, once, what whoever stands still had."""

from datetime import timedelta

import pytest

from headgate.core.errors import Unavailable, WorkerLost
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.duties import Reaper
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import open_store
from headgate.threads import inline
from tests.duties.turns import changed, settle_down, turn
from tests.factories import drain, kinds, lose, running, settle, start, submit, together, worker

S = State
PERIOD = Settings().reap_seconds


class Monotonic:
    """A process's own clock: it knows nothing of the hour."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def own():
    return Monotonic()


@pytest.fixture
def reaper(store, own):
    return changed(Reaper(store, Settings(), inline), monotonic=own)


def watch(reaper, own, seconds, beat=lambda: None):
    """Let the reaper look every period for so long; what its turns did. `beat` is called before each."""
    done = 0
    for _ in range(int(seconds / PERIOD)):
        own.now += PERIOD
        beat()
        done += sum(settle_down(reaper))
    return done


def held(store, count=1, **fields):
    worker_id = worker(store)
    for _ in range(count):
        submit(store, **fields)
    return worker_id, store.claims.take(ClaimRequest(worker_id, count)).executions


def beat_all(store):
    for each in store.workers.all():
        store.workers.beat(each.id)


def test_a_worker_whose_lease_moves_is_never_robbed(store, clock, reaper, own):
    """Spec: A6"""
    worker_id, [execution] = held(store)

    def beat():
        clock.advance(PERIOD)
        store.workers.beat(worker_id)

    assert watch(reaper, own, 300, beat) == 0
    assert settle(store, execution, Returned()) is S.SUCCEEDED


def test_a_worker_that_stands_still_for_its_lease_is_lost_and_its_tasks_are_given_back_once(store, reaper, own):
    """Spec: A6, B3"""
    worker_id, executions = held(store, 3)
    turn(reaper)
    assert watch(reaper, own, 25) == 0
    assert watch(reaper, own, 5) == 1 + 3
    with pytest.raises(WorkerLost):
        store.workers.beat(worker_id)
    for execution in executions:
        task = store.tasks.get(execution.id)
        assert (task.status, task.lost_count, task.error_count) == (S.QUEUED, 0, 0)
        assert kinds(store, task.id) == ["submitted", "started", "lease_lost", "retrying"]
    assert watch(reaper, own, 60) == 0
    assert settle(store, executions[0], Returned()) is None
    assert drain(store) == [execution.id for execution in executions]


def test_what_a_lost_worker_s_handlers_held_goes_with_their_executions(store, reaper, own):
    """Spec: C3"""
    _, [execution] = held(store)
    assert store.holds.take(execution.id, execution.exec_id, "disc").held
    turn(reaper)
    watch(reaper, own, 30)
    assert store.tasks.get(execution.id).status is S.QUEUED
    assert store.holds.sweep() == 0  # nothing is left to be swept


def test_a_lease_is_counted_from_when_this_reaper_first_saw_it(store, clock, own):
    """Spec: A6"""
    held(store, timeout_seconds=10**6)
    clock.advance(3600)  # long over, by the hour
    late = changed(Reaper(store, Settings(), inline), monotonic=own)
    turn(late)
    assert watch(late, own, 25) == 0
    assert watch(late, own, 5) == 2


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_beating_worker_is_not_robbed_when_the_databases_clock_jumps(store, clock, reaper, own, jump):
    """Spec: A6"""
    worker_id, [execution] = held(store, timeout_seconds=10**6)

    def beat():
        clock.advance(PERIOD)
        store.workers.beat(worker_id)

    watch(reaper, own, 20, beat)
    clock.advance(jump)
    assert turn(reaper) == 0  # before it has beaten under the new hour
    assert watch(reaper, own, 60, beat) == 0
    assert store.tasks.get(execution.id).exec_id == execution.exec_id


def test_a_worker_lost_by_the_clock_that_stands_still_for_the_database_is_lost_all_the_same(store, clock, reaper, own):
    """Spec: A6"""
    held(store)
    turn(reaper)
    watch(reaper, own, 15)
    clock.advance(-3600)
    assert watch(reaper, own, 15) == 2


def test_a_reaper_that_was_frozen_looks_again_before_it_blames_anybody(store, clock, reaper, own):
    """Spec: A6"""
    worker_id, _ = held(store)
    turn(reaper)
    own.now += 3600
    assert turn(reaper) == 0  # the workers were frozen with it, perhaps
    clock.advance(1)
    store.workers.beat(worker_id)
    assert watch(reaper, own, 25) == 0


def test_a_lease_of_another_length_is_kept_to(store, reaper, own):
    """Spec: A6"""
    long, short = store.workers.register("long", lease_seconds=120), store.workers.register("short", lease_seconds=10)
    turn(reaper)
    watch(reaper, own, 10)
    assert [found.id for found in store.workers.all()] == [long]
    watch(reaper, own, 110)
    assert store.workers.all() == []
    assert {found.id for found in store.workers.all(lost_too=True)} == {long, short}


@pytest.mark.parametrize(("type_code", "end"), [("plain", S.FAILED), ("manual", S.DEAD)])
def test_a_task_that_lost_three_executors_ends(store, reaper, own, type_code, end):
    """Spec: B3"""
    task = submit(store, type_code)
    for count in (1, 2, 3):
        assert start(store)
        turn(reaper)
        watch(reaper, own, 35)
        assert store.tasks.get(task.id).lost_count == count
    assert store.tasks.get(task.id).status is end
    assert start(store) == []


def test_a_rescue_that_was_cut_short_goes_on(store, reaper):
    """Spec: A6"""
    worker_id, executions = held(store, 3)
    lose(store, worker_id)
    store.executions.rescue(worker_id, limit=1)
    assert settle_down(reaper) == [2]
    assert {store.tasks.get(execution.id).lost_count for execution in executions} == {0}


def test_what_a_worker_held_that_left_is_given_back_at_once(store, reaper):
    """Spec: D9"""
    worker_id, [execution] = held(store)
    store.workers.leave(worker_id)
    assert settle_down(reaper) == [1]
    assert store.tasks.get(execution.id).status is S.QUEUED


def test_reapers_at_once_give_each_task_back_once(store, url, clock):
    """Spec: A6, B3"""
    _, executions = held(store, 40)
    with open_store(url, clock) as other:
        clocks = [Monotonic(), Monotonic()]
        reapers = [
            changed(Reaper(at, Settings(), inline), monotonic=own)
            for at, own in zip((store, other), clocks, strict=True)
        ]
        for reaper in reapers:
            turn(reaper)
        done = together(
            *[
                lambda reaper=reaper, own=own: watch(reaper, own, 40)
                for reaper, own in zip(reapers, clocks, strict=True)
            ]
        )
    assert sum(done) == 1 + 40
    for execution in executions:
        task = store.tasks.get(execution.id)
        assert (task.status, task.lost_count) == (S.QUEUED, 0)
        assert kinds(store, task.id).count("lease_lost") == 1


def test_a_worker_that_beats_between_the_look_and_the_mark_keeps_its_tasks(store, clock, own):
    """Spec: A6"""
    worker_id, [execution] = held(store)
    clock.advance(1)

    async def slow(work, /, *args, **kwargs):
        if work == store.workers.mark_lost:
            store.workers.beat(worker_id)
        return work(*args, **kwargs)

    reaper = changed(Reaper(store, Settings(), slow), monotonic=own)
    turn(reaper)
    assert watch(reaper, own, 30) == 0
    assert settle(store, execution, Returned()) is S.SUCCEEDED


def test_overdue_tasks_are_ended(store, clock, reaper):
    """Spec: A6, B3"""
    execution = running(store, timeout_seconds=60)
    clock.advance(60)
    beat_all(store)
    assert turn(reaper) == 0
    clock.advance(0.001)
    beat_all(store)
    assert settle_down(reaper) == [1]
    assert store.tasks.get(execution.id).status is S.FAILED
    assert settle(store, execution, Returned()) is None


LEASE, TIMEOUT = Settings().lease_seconds, 20


def pass_by(store, clock, reaper, own, seconds, beating=()):
    """Let so much time pass, in which the reaper looks at its pace and some workers beat."""
    for _ in range(int(seconds / PERIOD)):
        clock.advance(PERIOD)
        own.now += PERIOD
        for worker_id in beating:
            store.workers.beat(worker_id)
        settle_down(reaper)


def test_the_tasks_of_a_worker_that_died_are_not_charged_for_deadlines_that_passed_meanwhile(store, clock, reaper, own):
    """Spec: A6. It died with its worker, long before its deadline: nobody can say that it would have missed it."""
    _, executions = held(store, 20, timeout_seconds=TIMEOUT)
    turn(reaper)
    pass_by(store, clock, reaper, own, LEASE - PERIOD)
    assert {store.tasks.get(each.id).status for each in executions} == {S.RUNNING}
    pass_by(store, clock, reaper, own, 2 * PERIOD)
    tasks = [store.tasks.get(each.id) for each in executions]
    assert {(task.status, task.error_count) for task in tasks} == {(S.QUEUED, 0)}
    assert {tuple(kinds(store, task.id)[-2:]) for task in tasks} == {("lease_lost", "retrying")}


def test_what_the_reaper_takes_away_is_in_the_log(store, clock, reaper, own, caplog):
    """Spec: D10"""
    worker_id, [execution] = held(store, timeout_seconds=TIMEOUT)
    pass_by(store, clock, reaper, own, TIMEOUT + PERIOD, [worker_id])
    [line] = caplog.messages
    assert line.startswith(f"task overdue, taken from its executor: task={execution.id} type=plain attempt=1 seconds=")
    caplog.clear()
    lost, _ = held(store, 2)
    pass_by(store, clock, reaper, own, LEASE + PERIOD, [worker_id])
    assert caplog.messages == [
        f"worker lost, its lease was not renewed: worker={lost} name=tester",
        f"tasks taken from a lost worker: worker={lost} count=2",
    ]


def test_a_deadline_that_a_living_worker_missed_is_charged_before_its_lease_matters(store, clock, reaper, own):
    """Spec: A6, B3"""
    worker_id, [execution] = held(store, timeout_seconds=TIMEOUT)
    pass_by(store, clock, reaper, own, TIMEOUT, [worker_id])
    assert store.tasks.get(execution.id).status is S.RUNNING
    pass_by(store, clock, reaper, own, PERIOD, [worker_id])
    assert (store.tasks.get(execution.id).status, kinds(store, execution.id)[-1]) == (S.FAILED, "failed")
    assert store.tasks.get(execution.id).error_count == 1


def test_a_worker_that_died_after_a_deadline_that_it_missed_is_charged_for_it(store, clock, reaper, own):
    """Spec: A6, B3"""
    worker_id, [execution] = held(store, timeout_seconds=TIMEOUT)
    clock.advance(TIMEOUT + 1)
    store.workers.beat(worker_id)
    turn(reaper)
    assert store.tasks.get(execution.id).error_count == 1


@pytest.mark.parametrize("leased", [True, False])
def test_an_agent_that_asked_for_no_lease_is_held_to_its_deadline_alone(store, clock, reaper, own, leased):
    """Spec: B3"""
    submit(store, timeout_seconds=TIMEOUT)
    agent = store.agents.sign_on("one", tenant_id=None, types=None, lease_seconds=LEASE)
    request = ClaimRequest(agent.worker_id, 1, agent_id="one")
    [execution] = store.agents.hand_over(request, beyond_the_deadline=None if leased else 60).executions
    pass_by(store, clock, reaper, own, TIMEOUT + PERIOD)
    task = store.tasks.get(execution.id)
    assert (task.status, task.error_count) == ((S.RUNNING, 0) if leased else (S.FAILED, 1))


def test_a_mutex_is_held_as_long_as_the_settings_say(store, clock):
    """Spec: A10"""
    reaper = Reaper(store, Settings(mutex_seconds=60), inline)
    holder = running(store, mutex="m")
    following = submit(store, mutex="m")
    clock.advance(60)
    assert turn(reaper) == 0
    clock.advance(1)
    assert settle_down(reaper) == [1]
    assert settle(store, holder, Returned()) is None
    assert drain(store) == [following.id]


def test_a_family_that_holds_its_mutex_too_long_is_asked_once(store, clock, reaper):
    """Spec: A10, D7"""
    parent = running(store, mutex="m")
    submit(store, parent_id=parent.id, timeout_seconds=10**6)
    settle(store, parent, Returned())
    [child] = start(store)
    clock.advance(7201)
    assert settle_down(reaper) == [1]
    assert store.tasks.get(parent.id).status is S.WAITING
    assert store.tasks.get(child.id).cancel_requested


def test_a_step_that_fails_does_not_keep_the_others_from_theirs(store, clock):
    """Spec: A6"""
    execution = running(store, timeout_seconds=1)
    clock.advance(2)
    beat_all(store)

    async def deaf(work, /, *args, **kwargs):
        if work in (store.workers.all, store.workers.lost_holders):
            raise Unavailable("the store did not answer")
        return work(*args, **kwargs)

    with pytest.raises(Unavailable):
        turn(Reaper(store, Settings(), deaf))
    assert store.tasks.get(execution.id).status is S.FAILED


def test_a_lease_that_moves_between_two_looks_starts_anew(store, clock, reaper, own):
    """Spec: A6"""
    worker_id, _ = held(store)
    turn(reaper)
    watch(reaper, own, 25)
    clock.advance(1)
    store.workers.beat(worker_id)
    [found] = store.workers.all()
    assert watch(reaper, own, 30) == 0
    assert watch(reaper, own, 5) == 2
    assert found.lease_until - timedelta(seconds=30) == clock.now
