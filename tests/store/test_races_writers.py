"""Many writers at once: no deadlock and no locked database reaches a caller."""

import multiprocessing
import sqlite3
from collections import Counter
from contextlib import closing
from multiprocessing.synchronize import Barrier

import pytest

from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import Outcome
from headgate.store.store import open_store
from tests.store.races import Claimer, Stage, only, submit_many

# The store is to be the one that is told of the deadlock.
PATIENT = "SET LOCAL deadlock_timeout = '60s'"
HOLD = "SELECT 1 FROM headgate_task WHERE id = %s FOR NO KEY UPDATE"
EACH = 200
PROCESSES = 4


@pytest.fixture
def stage(postgres, clock):
    with Stage(postgres, clock) as stage:
        yield stage


@pytest.fixture
def claimer(stage):
    return Claimer(stage)


def meet(stage, call, *args, ids):
    """Let `call`, which locks `ids` in order, close a circle with a rival that locks them the other way round."""
    rival = stage.rival()
    rival.run(PATIENT)
    rival.run(HOLD, ids[-1])
    waiting = stage.beside(call, *args)
    stage.await_waiters(waiting)
    circle = stage.beside(rival.run, HOLD, ids[0])
    only(circle)  # the store has given way
    rival.commit()
    return only(waiting)


def test_a_settle_that_is_told_of_a_deadlock_runs_again(stage, claimer):
    """Spec: X4"""
    submit_many(claimer.store, 3)
    executions = claimer.claim(3).executions
    outcomes = [Outcome(execution, Returned()) for execution in executions]
    done = meet(stage, claimer.store.executions.settle, outcomes, ids=[execution.id for execution in executions])
    assert done == [State.SUCCEEDED] * 3


def test_a_rescue_that_is_told_of_a_deadlock_runs_again(stage, claimer):
    """Spec: X4"""
    ids = submit_many(claimer.store, 3)
    claimer.claim(3)
    claimer.store.workers.leave(claimer.worker_id)
    assert [task.id for task in meet(stage, claimer.store.executions.rescue, claimer.worker_id, ids=ids)] == ids


def test_due_tasks_that_meet_a_deadlock_are_brought_once(stage, claimer):
    """Spec: X4"""
    ids = submit_many(claimer.store, 3, delay_seconds=10)
    stage.clock.advance(10)
    assert meet(stage, claimer.store.due.bring, ids=ids) == 3
    assert stage.count("status = 'queued' AND seq = 2") == 3


def test_two_settles_in_opposite_order_end_each_task_once(stage, claimer):
    """Spec: B3. Reports come in any order, and the types of one come one after the other."""
    submit_many(claimer.store, 1)
    submit_many(claimer.store, 1, "manual")
    outcomes = [Outcome(execution, Returned()) for execution in claimer.claim(2).executions]
    rival = stage.rival()
    for outcome in outcomes:
        rival.run(HOLD, outcome.execution.id)
    calls = [
        stage.beside(claimer.store.executions.settle, outcomes),
        stage.beside(stage.store().executions.settle, outcomes[::-1]),
    ]
    stage.await_waiters(*calls)
    rival.rollback()
    first, second = only(calls[0]), only(calls[1])[::-1]
    assert [sorted(pair, key=str) for pair in zip(first, second, strict=True)] == [[None, State.SUCCEEDED]] * 2


def test_two_submits_with_the_same_unique_keys_in_opposite_order_both_get_an_answer(stage, claimer):
    """Spec: X2"""
    submit_many(claimer.store, 1, delay_seconds=60)
    wishes = [NewTask("plain", unique_key=str(number)) for number in range(40)]
    rival = stage.rival()
    rival.run("LOCK TABLE headgate_task IN SHARE MODE")
    calls = [
        stage.beside(stage.store().tasks.submit_many, wishes),
        stage.beside(stage.store().tasks.submit_many, wishes[::-1]),
    ]
    stage.await_waiters(*calls)
    rival.rollback()
    assert [made.id for made in only(calls[0])] == [made.id for made in only(calls[1])][::-1]
    assert stage.count("unique_key IS NOT NULL") == 40


# SQLite


def _submit_in_a_process(url: str, creator: int, start: Barrier) -> None:
    with open_store(url) as store:
        start.wait()
        for _ in range(EACH):
            store.tasks.submit(NewTask("plain", creator=creator))


def test_a_transaction_that_reads_first_and_writes_later_finds_the_database_locked(tmp_path):
    """Spec: X4. The trap: waiting does not help it, its snapshot is old."""
    paths = [sqlite3.connect(tmp_path / "naive.db", isolation_level=None) for _ in range(2)]
    with closing(paths[0]) as first, closing(paths[1]) as second:
        first.execute("PRAGMA journal_mode = WAL")
        first.execute("CREATE TABLE naive (n)")
        second.execute("BEGIN")
        second.execute("SELECT * FROM naive").fetchall()
        first.execute("INSERT INTO naive VALUES (1)")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.execute("INSERT INTO naive VALUES (2)")


def test_processes_that_write_one_file_get_no_error_and_each_its_turn(tmp_path):
    """Spec: X4. Left to SQLite's own lock, one of four got 33 commits while the others got 9,000."""
    url = f"sqlite:///{tmp_path}/shared.db"
    with open_store(url) as store:
        store.migrate()
        store.types.put(TaskType("plain"))
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(PROCESSES)
    processes = [spawn.Process(target=_submit_in_a_process, args=(url, number, start)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    with closing(sqlite3.connect(tmp_path / "shared.db")) as connection:
        order = [creator for (creator,) in connection.execute("SELECT creator FROM headgate_task ORDER BY id")]
    assert Counter(order) == dict.fromkeys(range(PROCESSES), EACH)
    done: Counter[int] = Counter()
    for creator in order:
        done[creator] += 1
        if done[creator] == EACH:
            break
    assert min(done[number] for number in range(PROCESSES)) >= EACH // 10, f"somebody was passed over: {done}"
