"""A handler that takes its process with it: whoever was beside it is not charged, and it is found out."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from headgate.core.states import State
from tests.stories import stuck_bodies
from tests.stories.crew import PATIENCE, until
from tests.stories.test_stuck import a_stage

COROUTINES, THREADS = 30, 10
CRASHES = {
    "vanish": "its process ended with exit code 3",
    "segfault": "its process was killed by SIGSEGV",
    "vanish_in_a_thread": "its process ended with exit code 3",
}


@pytest.mark.parametrize("body", CRASHES)
def test_who_ran_beside_a_crash_runs_again_uncounted_and_the_culprit_is_taken_for_poison(
    url: str, tmp_path: Path, body: str
):
    """Spec: A11"""
    gate = tmp_path / "gate"
    with a_stage(url, tmp_path) as stage:
        culprit = getattr(stuck_bodies, body).submit_sync(str(gate))
        beside = [stuck_bodies.bystander.submit_sync(3) for _ in range(COROUTINES)]
        beside += [stuck_bodies.bystander_in_a_thread.submit_sync(3) for _ in range(THREADS)]
        stage.start()
        until(lambda: len(stage.ledger.entries("beside")) == len(beside), "all run")
        until(lambda: stage.ledger.entries("start"), "the culprit runs")
        gate.touch()
        ended = culprit.wait_sync(2 * PATIENCE)
        assert (ended.status, culprit.record_sync().lost_count, culprit.record_sync().error_count) == (
            State.FAILED,
            3,
            0,
        )
        assert CRASHES[body] in (ended.error or "")
        for task in beside:
            assert task.wait_sync(PATIENCE).status is State.SUCCEEDED
            assert (task.record_sync().lost_count, task.record_sync().error_count) == (0, 0)


def test_a_killed_workers_hundred_tasks_go_on_at_once_and_none_is_charged(url: str, tmp_path: Path):
    """Spec: A6"""
    with a_stage(url, tmp_path) as stage:
        tasks = [stuck_bodies.bystander.submit_sync(2) for _ in range(90)]
        parent = stage.start()
        until(lambda: len(stage.ledger.entries("beside")) == len(tasks), "all run")
        [worker] = psutil.Process(parent.pid).children()
        os.kill(worker.pid, signal.SIGKILL)
        for task in tasks:
            assert task.wait_sync(PATIENCE).status is State.SUCCEEDED
            assert (task.record_sync().lost_count, task.record_sync().error_count, task.record_sync().attempt) == (
                0,
                0,
                2,
            )
        assert stage.said("ended with exit code -9: starting another")
        assert len({entry.pid for entry in stage.ledger.entries("beside")}) == 2, "none of them runs apart"
