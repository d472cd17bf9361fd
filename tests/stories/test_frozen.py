"""A worker that is frozen for longer than its lease: its parent kills it; without one it finds its tasks taken."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from headgate.core.states import State
from headgate.simulation.checker import check
from tests.stories import bodies, stuck_bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import PATIENCE, Crew, crew, until
from tests.stories.evidence import collected, made, rows
from tests.stories.test_stuck import a_stage

EACH = 2
FUNCTIONS = (bodies.linger, bodies.linger_in_a_thread, bodies.linger_in_a_process)


def freeze(members: Crew, worker: subprocess.Popen[bytes]) -> None:
    """Stop it, but not while it writes to a file that all share: then nobody could go on, with or without a lease."""
    while True:
        time.sleep(members.dice.uniform(0.0, 0.4))
        os.kill(worker.pid, signal.SIGSTOP)
        if _lets_others_write(members.url):
            return
        os.kill(worker.pid, signal.SIGCONT)


def _lets_others_write(url: str) -> bool:
    if not url.startswith("sqlite"):
        return True
    file = os.open(f"{url.removeprefix('sqlite:///')}.writer", os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def test_a_worker_that_wakes_after_its_lease_changes_nothing_and_works_on(url: str, tmp_path: Path):
    """Spec: B3"""
    app, gate = bound_to(url), tmp_path / "gate"
    with crew(url, tmp_path) as members:
        frozen = members.start()
        tasks = [
            function.using(mutex=f"{function._handler.code} {n}").submit_sync(str(gate))
            for function in FUNCTIONS
            for n in range(EACH)
        ]
        until(lambda: len(members.ledger.entries("start")) == len(tasks), "all begin")
        old = {entry.task_id: entry.exec_id for entry in members.ledger.entries("start")}
        [lease] = app.store.workers.all()
        freeze(members, frozen)
        second = members.start()
        until(lambda: len(members.ledger.entries("start")) == 2 * len(tasks), "others take over")
        gate.touch()
        for task in tasks:
            assert task.wait_sync(60).status is State.SUCCEEDED
        before = [(task.record_sync(), app.store.executions.checkpoints(task.id)) for task in tasks]
        os.kill(frozen.pid, signal.SIGCONT)
        stubborn = [old[task.id] for task in tasks[:EACH]]  # of the others, a request to stop may come in between
        until(lambda: refused(members).issuperset(stubborn), "it is told")
        members.stop(second)
        again = bodies.step.submit_sync(0.0)
        assert again.wait_sync(60).status is State.SUCCEEDED
        assert [entry.pid for entry in members.lines_of(again.id, "end")] == [frozen.pid]
        assert [worker.id > lease.id for worker in app.store.workers.all()] == [True]
        members.stop(frozen)
        assert [(task.record_sync(), app.store.executions.checkpoints(task.id)) for task in tasks] == before
    assert set(stubborn) <= {entry.exec_id for entry in members.ledger.entries("effect")}, "outside it went on"
    assert not {entry.exec_id for entry in members.ledger.entries("accepted")} & set(old.values())
    for task in tasks:
        record = task.record_sync()
        assert (record.lost_count, record.error_count, record.attempt) == (0, 0, 2)  # beside others: nobody is counted
        [[accepted]] = rows(
            url, f"SELECT exec_id FROM headgate_task_event WHERE task_id = {task.id} AND after = 'succeeded'"
        )
        assert str(accepted) != old[task.id]
    assert check(collected(url, members.ledger, [made([again.id, *(task.id for task in tasks)])])) == []


@pytest.mark.parametrize("body", ["stay_once", "stay_once_in_a_thread", "stay_once_in_a_process"])
def test_a_stopped_worker_process_is_killed_before_anybody_else_starts_its_task(url: str, tmp_path: Path, body: str):
    """Spec: A6. Its handler lives as long as its process, stopped or not: a lock on a file tells."""
    with a_stage(url, tmp_path, LEASE=6, BEAT=1) as stage:
        frozen = stage.start()
        task = getattr(stuck_bodies, body).submit_sync(stage.lock)
        until(lambda: stage.ledger.entries("start"), "it begins")
        stage.start()
        until(lambda: len(stage.app.store.workers.all()) == 2, "another is there to take over")
        [worker] = psutil.Process(frozen.pid).children()
        worker.suspend()
        assert task.wait_sync(PATIENCE).status is State.SUCCEEDED
        until(lambda: len(stage.app.store.workers.all()) == 2, "another process takes its place")
        assert stage.said(f"(pid {worker.pid}) is not responding: killing it")
        assert not worker.is_running()
        record = task.record_sync()
        assert (record.status, record.attempt, record.error_count) == (State.SUCCEEDED, 2, 0)
    assert [entry.what for entry in stage.ledger.entries()] == ["start", "start", "end"]


def refused(members: Crew) -> set[str]:
    return {entry.exec_id for entry in members.ledger.entries("refused")}
