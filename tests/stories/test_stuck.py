"""Handlers that do not end: their room and their mutex are free when their process is dead, and not before."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.core.states import State
from headgate.settings import Settings
from tests.stories import stuck_bodies
from tests.stories.crew import PATIENCE, until
from tests.stories.ledger import VARIABLE, Ledger

BESIDE = 6
SETTINGS = {"STUCK": "0.5", "REAP": "0.2", "POLL": "0.2", "BEAT": "0.3", "SHUTDOWN": "2", "LEASE": "60"}
STUCK = ["sleep_in_c", "wait_for_a_program", "swallow_the_cancel", "block_the_loop"]


class Stage:
    """Workers as people start them, on one store; what their handlers did; the app, to submit to them."""

    def __init__(self, url: str, folder: Path, **seconds: float) -> None:
        self.ledger, self.lock, self.log = Ledger(folder / "ledger"), str(folder / "lock"), folder / "log"
        self.app = stuck_bodies.app
        self.app.close()
        self.app._settings = Settings(url=url)
        self.app.store.lanes.set_capacity("narrow", 1)
        settings = SETTINGS | {name: f"{value:g}" for name, value in seconds.items()}
        variables = {f"HEADGATE_{name}_SECONDS": value for name, value in settings.items()}
        self._environment = os.environ | variables | {"HEADGATE_URL": url, VARIABLE: str(self.ledger.path)}
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("headgate")), "work", "tests.stories.stuck_bodies", *options]
        with self.log.open("ab") as log:
            self.workers.append(
                subprocess.Popen(
                    command, cwd=Path(__file__).parents[2], env=self._environment, stdin=subprocess.DEVNULL, stderr=log
                )
            )
        return self.workers[-1]

    def said(self, words: str) -> bool:
        return self.log.exists() and words in self.log.read_text()


@contextmanager
def a_stage(url: str, folder: Path, **seconds: float) -> Iterator[Stage]:
    stage = Stage(url, folder, **seconds)
    try:
        yield stage
        for worker in stage.workers:
            worker.terminate()
        assert [worker.wait(PATIENCE) for worker in stage.workers] == [0] * len(stage.workers)
    except BaseException as error:
        error.add_note(stage.log.read_text(errors="replace")[-8000:] if stage.log.exists() else "")
        raise
    finally:
        for worker in stage.workers:
            worker.kill()
            worker.wait()
        stage.app.close()


@pytest.mark.parametrize("body", STUCK)
def test_a_handler_that_does_not_end_keeps_its_mutex_and_lane_until_its_process_is_dead(
    url: str, tmp_path: Path, body: str
):
    """Spec: A6, A10"""
    stuck = getattr(stuck_bodies, body)
    with a_stage(url, tmp_path) as stage:
        stage.start()
        stage.start()
        late = [stuck.submit_sync(stage.lock) for _ in range(2)]
        after = stuck_bodies.next_in_line.submit_sync(stage.lock)
        beside = [stuck_bodies.bystander.submit_sync(0.1) for _ in range(BESIDE)]
        beside += [stuck_bodies.bystander_in_a_thread.submit_sync(0.1) for _ in range(BESIDE)]
        assert after.wait_sync(2 * PATIENCE).status is State.SUCCEEDED
        for task in late:
            task.wait_sync(2 * PATIENCE)
            record = task.record_sync()
            assert (record.status, record.error_count, record.lost_count) == (State.FAILED, 1, 0)
            assert "the deadline had passed" in (record.error_info or "")
        for task in beside:
            assert task.wait_sync(PATIENCE).status is State.SUCCEEDED
            assert (task.record_sync().error_count, task.record_sync().lost_count) == (0, 0)
        assert stage.said("handler does not stop after being told to")
        assert stage.said(f"type={body} ")
        assert not stage.said("starting another in"), "a replacement is no crash"
        assert stage.ledger.entries("overlap") == []
        starts = stage.ledger.entries("start")
        assert len(starts) == 3, starts


def test_a_worker_told_to_go_frees_what_does_not_end_when_its_process_is_dead(url: str, tmp_path: Path):
    """Spec: D9"""
    with a_stage(url, tmp_path) as stage:
        stuck = stuck_bodies.stay.using(mutex="m").submit_sync(stage.lock)
        worker = stage.start()
        until(lambda: stage.ledger.entries("start"), "it begins")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
        record = stuck.record_sync()
        assert (record.status, record.error_count, record.lost_count) == (State.QUEUED, 0, 0)
        stage.app.store.tasks.cancel(stuck.id)
        stage.workers.clear()
    assert stage.ledger.entries("overlap") == []


def test_a_cancel_that_a_thread_does_not_hear_takes_hold_when_its_process_is_dead(url: str, tmp_path: Path):
    """Spec: B8"""
    with a_stage(url, tmp_path) as stage:
        stage.start()
        stuck = stuck_bodies.stay.submit_sync(stage.lock)
        until(lambda: stage.ledger.entries("start"), "it begins")
        stage.app.store.tasks.cancel(stuck.id)
        assert stuck.wait_sync(PATIENCE).status is State.CANCELLED
        [pid] = {entry.pid for entry in stage.ledger.entries("start")}
        assert not Path(f"/proc/{pid}").exists()
