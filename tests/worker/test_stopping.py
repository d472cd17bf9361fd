"""What ends a handler before its time: timeouts, cancels, pauses, a shutdown, a lost lease."""

import asyncio
import threading
import time
from pathlib import Path

import psutil
import pytest

from headgate.app import Headgate
from headgate.core.states import State
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest
from headgate.worker.context import context
from tests.worker import heavy
from tests.worker.conftest import until, working

FOREVER = 600


def test_a_coroutine_past_its_timeout_is_cancelled_and_that_counts_as_an_error(app: Headgate):
    """Spec: A6"""
    tidied = threading.Event()

    @app.task(timeout_seconds=0.3)
    async def slow() -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            tidied.set()

    with working(app):
        task = slow.submit_sync()
        ended = task.wait_sync(120)
    assert ended.status is State.FAILED
    assert ended.error == "TimeoutError: it ran for more than 0.3 s"
    assert task.record_sync().error_count == 1
    assert tidied.is_set()


def test_a_thread_past_its_timeout_is_interrupted(app: Headgate):
    """Spec: A6"""
    tidied = threading.Event()

    @app.task(timeout_seconds=0.3)
    def slow() -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            tidied.set()

    @app.task
    def next_one() -> str:
        return "unharmed"

    with working(app, threads=1):
        assert slow.submit_sync().wait_sync(120).error == "TimeoutError: it ran for more than 0.3 s"
        assert tidied.wait(60)
        assert [next_one.submit_sync().wait_sync(120).result for _ in range(3)] == ["unharmed"] * 3


def test_a_process_past_its_timeout_is_ended(app: Headgate, tmp_path: Path):
    """Spec: A6"""
    heavy.bound_to(app)
    with working(heavy.app):
        ended = heavy.hang.using(timeout_seconds=1).submit_sync(str(tmp_path / "pid")).wait_sync(60)
    assert ended.error == "TimeoutError: it ran for more than 1 s"


def test_a_process_that_will_not_stop_is_killed_with_everything_it_started(app: Headgate, tmp_path: Path):
    """Spec: A6, A11"""
    heavy.bound_to(app)
    note = tmp_path / "pids"
    with working(heavy.app):
        task = heavy.fork_and_hang.submit_sync(str(note))
        until(lambda: note.exists() and bool(note.read_text()))
        app.store.tasks.cancel(task.id)
        assert task.wait_sync(60).status is State.CANCELLED
        pids = [int(pid) for pid in note.read_text().split()]
        until(lambda: not any(psutil.pid_exists(pid) for pid in pids))  # gone, and no zombie either


def test_a_process_past_its_timeout_is_killed_with_everything_it_started(app: Headgate, tmp_path: Path):
    """Spec: A6"""
    heavy.bound_to(app)
    note = tmp_path / "pids"
    with working(heavy.app):
        ended = heavy.fork_and_hang.using(timeout_seconds=3).submit_sync(str(note)).wait_sync(60)
        assert ended.error == "TimeoutError: it ran for more than 3 s"
        pids = [int(pid) for pid in note.read_text().split()]
        assert len(pids) == 2
        until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_what_a_process_leaves_behind_is_no_zombie_when_it_ends_at_last(app: Headgate, tmp_path: Path):
    """Spec: A6"""
    heavy.bound_to(app)
    note = tmp_path / "pids"
    with working(heavy.app):
        assert heavy.leave_behind.submit_sync(str(note), 0.5).wait_sync(60).status is State.SUCCEEDED
        pids = [int(pid) for pid in note.read_text().split()]
        until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_no_zombie_stays_for_as_long_as_the_task_it_came_from(app: Headgate):
    """Spec: A6"""
    heavy.bound_to(app)
    with working(heavy.app):
        assert heavy.fork_twice.submit_sync().wait_sync(60).result is True


def test_the_exit_code_of_a_handlers_own_program_is_left_to_the_handler(app: Headgate):
    """Spec: A6"""
    heavy.bound_to(app)
    heavy.exited.clear()
    heavy.looked.clear()
    with working(heavy.app):
        asking = heavy.ask_later.submit_sync()
        assert heavy.exited.wait(60)
        assert heavy.weigh.submit_sync(1).wait_sync(60).status is State.SUCCEEDED
        heavy.looked.set()
        assert asking.wait_sync(60).result == 7


def test_cancelling_a_running_coroutine_stops_it_at_once(app: Headgate):
    """Spec: B8, C10"""
    begun = threading.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(FOREVER)

    with working(app):
        task = slow.submit_sync()
        assert begun.wait(60)
        app.store.tasks.cancel(task.id, "changed my mind")
        assert task.wait_sync(120).status is State.CANCELLED
    assert task.record_sync().remark == "changed my mind"


def test_cancelling_a_running_thread_stops_it_and_frees_its_slot(app: Headgate):
    """Spec: B8, C10"""
    begun = threading.Event()

    @app.task
    def slow() -> None:
        begun.set()
        while not context().cancelled:
            time.sleep(0.01)
        time.sleep(FOREVER)

    @app.task
    def next_one() -> None: ...

    with working(app, threads=1):
        task = slow.submit_sync()
        assert begun.wait(60)
        app.store.tasks.cancel(task.id)
        after = next_one.submit_sync()
        assert (task.wait_sync(120).status, after.wait_sync(30).status) == (State.CANCELLED, State.SUCCEEDED)


def test_cancelling_a_process_lets_it_tidy_up_first(app: Headgate, tmp_path: Path):
    """Spec: B8"""
    heavy.bound_to(app)
    note = tmp_path / "pid"
    with working(heavy.app):
        task = heavy.hang.submit_sync(str(note))
        until(note.exists)
        app.store.tasks.cancel(task.id)
        assert task.wait_sync(60).status is State.CANCELLED
    assert Path(f"{note}.cleaned").exists()


@pytest.mark.parametrize("isolation", ["loop", "thread"])
def test_a_pause_takes_hold_at_the_next_checkpoint_and_resume_goes_on_from_there(app: Headgate, isolation: str):
    """Spec: A2"""
    seen: list[int] = []
    go_on = threading.Event()

    async def walk() -> int:
        for step in range(context().restore("step", 0), 6):
            seen.append(step)
            if step == 2 and not go_on.is_set():
                await asyncio.to_thread(go_on.wait, 30)
            await context().checkpoint("step", step + 1)
        return context().attempt

    def walk_in_a_thread() -> int:
        for step in range(context().restore("step", 0), 6):
            seen.append(step)
            if step == 2:
                go_on.wait(60)
            context().checkpoint("step", step + 1)
        return context().attempt

    task_function = app.task(walk) if isolation == "loop" else app.task(walk_in_a_thread)
    with working(app):
        task = task_function.submit_sync()
        until(lambda: 2 in seen)
        app.store.tasks.pause(task.id)
        go_on.set()
        until(lambda: task.record_sync().status is State.PAUSED)
        assert seen == [0, 1, 2]
        app.store.tasks.resume(task.id)
        assert task.wait_sync(120).result == 2
    assert seen == [0, 1, 2, 3, 4, 5]
    assert task.record_sync().error_count == 0


def test_a_shutdown_waits_for_what_runs_and_claims_nothing_more(app: Headgate):
    """Spec: D9"""
    begun, finish = threading.Event(), threading.Event()

    @app.task
    async def slow() -> str:
        begun.set()
        await asyncio.to_thread(finish.wait, 30)
        return "done"

    with working(app, concurrency=1) as worker:
        first, second = slow.submit_sync(), slow.submit_sync()
        assert begun.wait(60)
        worker.stop_from_thread()
        until(lambda: worker.stopping)
        finish.set()
    assert first.record_sync().status is State.SUCCEEDED
    assert second.record_sync().status is State.QUEUED
    assert app.store.workers.all() == []


@pytest.mark.parametrize("isolation", ["loop", "thread"])
def test_a_shutdown_hands_back_what_does_not_end_in_time_and_counts_no_error(url: str, isolation: str):
    """Spec: D9"""
    app = Headgate(settings=Settings(url=url, shutdown_seconds=0.2, poll_seconds=0.2))
    begun = threading.Event()

    async def slow() -> None:
        begun.set()
        await asyncio.sleep(FOREVER)

    def slow_thread() -> None:
        begun.set()
        while True:
            time.sleep(0.01)

    handler = app.task(slow) if isolation == "loop" else app.task(slow_thread)
    with working(app):
        task = handler.submit_sync()
        assert begun.wait(60)
    record = task.record_sync()
    assert (record.status, record.error_count, record.lost_count) == (State.QUEUED, 0, 0)
    app.close()


def test_a_second_stop_does_not_wait(app: Headgate):
    """Spec: D9"""
    begun = threading.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(FOREVER)

    with working(app) as worker:
        task = slow.submit_sync()
        assert begun.wait(60)
        worker.stop_from_thread()
        worker.stop_from_thread()
    assert task.record_sync().status is State.QUEUED


def test_a_worker_declared_lost_stops_everything_writes_nothing_and_signs_on_anew(app: Headgate):
    """Spec: B3"""
    begun = threading.Event()
    attempts: list[int] = []

    @app.task
    async def slow() -> int:
        attempts.append(context().attempt)
        if context().attempt == 1:
            begun.set()
            await asyncio.sleep(FOREVER)
        return context().attempt

    with working(app) as worker:
        task = slow.submit_sync()
        assert begun.wait(60)
        old = worker.id
        until(
            lambda: any(
                app.store.workers.mark_lost(w.id, w.lease_until) for w in app.store.workers.all() if w.id == old
            )
        )
        assert [held.id for held in app.store.executions.rescue(old)] == [task.id]
        assert task.wait_sync(120).result == 2
        assert worker.id != old
    assert attempts == [1, 2]
    assert task.record_sync().lost_count == 1


def test_poison_ends_after_three_lost_leases_and_the_worker_lives(app: Headgate):
    """Spec: A11"""
    heavy.bound_to(app)
    with working(heavy.app):
        task = heavy.die.submit_sync()
        good = [heavy.little.submit_sync() for _ in range(5)]
        ended = task.wait_sync(120)
        assert {other.wait_sync(120).status for other in good} == {State.SUCCEEDED}
    assert ended.status is State.FAILED
    assert "its process was killed by SIGKILL" in (ended.error or "")
    assert "so it is not run again" in (ended.error or "")
    assert (task.record_sync().lost_count, task.record_sync().error_count) == (3, 0)


@pytest.mark.parametrize("body", ["devour", "gulp"])
def test_too_much_memory_is_an_error_that_follows_the_types_policy(app: Headgate, body: str):
    """Spec: A11"""
    heavy.bound_to(app)
    with working(heavy.app, due=True):
        task = getattr(heavy, body).submit_sync()
        ended = task.wait_sync(60)
        assert heavy.little.submit_sync().wait_sync(120).status is State.SUCCEEDED
    assert ended.status is State.FAILED
    assert (ended.error or "").startswith("killed: memory: its process used")
    assert (ended.error or "").endswith("MB, 120 at most")
    assert (task.record_sync().error_count, task.record_sync().lost_count, task.record_sync().attempt) == (1, 0, 1)


def test_a_daemon_that_a_process_started_ends_with_it(app: Headgate, tmp_path: Path):
    """Spec: A6"""
    heavy.bound_to(app)
    note = tmp_path / "pid"
    with working(heavy.app):
        assert heavy.become_a_daemon.submit_sync(str(note)).wait_sync(60).status is State.SUCCEEDED
        until(lambda: not psutil.pid_exists(int(note.read_text())))


def test_a_claim_whose_answer_was_lost_strands_nothing(app: Headgate):
    """Spec: B3"""

    @app.task
    async def noop() -> None: ...

    worker_id = app.store.workers.register("w", types=["noop"])
    task = noop.submit_sync()
    known = noop.submit_sync()
    _, heard_of = app.store.claims.take(ClaimRequest(worker_id, 2)).executions
    app.store.executions.give_back_strays(worker_id, {"noop"}, {heard_of.exec_id})
    assert task.record_sync().status is State.QUEUED
    assert known.record_sync().status is State.RUNNING
