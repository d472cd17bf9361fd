"""A handler that has returned is done: no request to stop undoes that, however close behind it comes."""

import ctypes
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headgate.worker.worker as worker_module
from headgate.app import Headgate
from headgate.core.states import State
from headgate.task_function import TaskFunction
from headgate.worker.context import Interrupted
from headgate.worker.stage import Stage
from headgate.worker.worker import Worker
from tests.worker import heavy
from tests.worker.conftest import until, working

ROUNDS, TASKS = 8, 60


class Reference(weakref.ref[Any]):
    _as_parameter_ = 0  # for C, which its callback goes to


class Ordinary: ...


def stop_at_once(worker: Worker) -> None:
    worker.stop_from_thread()
    worker.stop_from_thread()


def test_a_thread_told_to_stop_when_its_handler_has_just_returned_keeps_the_result(app: Headgate):
    """Spec: D9"""
    returned, go = threading.Event(), threading.Event()

    class Watched(Stage):
        @contextmanager
        def entered(self, task_id: int) -> Generator[None, None, None]:
            with super().entered(task_id):
                yield
            returned.set()
            go.wait(60)

    @app.task
    def answer() -> int:
        return 42

    with working(app, stage=Watched()) as worker:
        task = answer.submit_sync()
        assert returned.wait(60)
        [run] = worker.held.values()
        assert run.thread is not None
        job = run.thread
        stop_at_once(worker)
        until(lambda: job._stopped)
        go.set()
    assert (task.record_sync().status, task.record_sync().result) == (State.SUCCEEDED, "42")


def test_an_interrupt_on_its_way_when_the_handler_returns_is_dropped(app: Headgate):
    """Spec: D9"""
    references = []

    @app.task
    def answer() -> int:
        thread = ctypes.c_ulong(threading.get_ident())
        interrupt = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, thread, ctypes.py_object(Interrupted))
        local = Ordinary()
        references.append(Reference(local, interrupt))  # sent when `local` goes, which it does when this has returned
        return 42

    with working(app, threads=1):
        assert [answer.submit_sync().wait_sync(120).result for _ in range(20)] == [42] * 20


def test_threads_told_to_stop_at_any_moment_do_nothing_twice(app: Headgate):
    """Spec: D9"""
    done: dict[int, bool] = {}

    @app.task
    def count(number: int) -> None:
        end = time.monotonic() + 0.0002 * (number % 7)
        while time.monotonic() < end:
            pass
        done[number] = True  # nothing is raised between this and the return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for each in range(ROUNDS):
            numbers = range(each * TASKS, (each + 1) * TASKS)
            with working(app) as worker:
                tasks = app.submit_many_sync([count.call(number) for number in numbers])
                until(lambda: any(number in done for number in numbers))  # noqa: B023
                stop_at_once(worker)
            ends = {number: task.record_sync().status for number, task in zip(numbers, tasks, strict=True)}
            expected = {number: State.SUCCEEDED if number in done else State.QUEUED for number in numbers}
            assert ends == expected
            for number, task in zip(numbers, tasks, strict=True):
                if number not in done:
                    app.store.tasks.cancel(task.id)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("answer", [heavy.answer, heavy.answer_async])
def test_a_process_told_to_stop_when_its_handler_has_just_returned_keeps_the_result(
    app: Headgate, tmp_path: Path, answer: TaskFunction[[str], Any, datetime]
):
    """Spec: D9"""
    with working(heavy.bound_to(app)) as worker:
        task = answer.submit_sync(str(tmp_path))
        until((tmp_path / "returned").exists)
        stop_at_once(worker)
        until(lambda: all(run.stopped for run in worker.held.values()))
        (tmp_path / "go").touch()
    assert (task.record_sync().status, task.record_sync().result) == (State.SUCCEEDED, '"2026-11-18T00:00:00Z"')


@contextmanager
def nobody_writes(url: str) -> Iterator[None]:
    """Somebody else's transaction is open meanwhile."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE headgate_task IN SHARE MODE")
            yield


def test_a_worker_told_to_go_at_once_waits_until_the_store_has_taken_what_ended(
    app: Headgate, url: str, monkeypatch: pytest.MonkeyPatch
):
    """Spec: D9"""
    monkeypatch.setattr(worker_module, "GIVE_BACK_SECONDS", 0.0)
    begun, go = threading.Semaphore(0), threading.Semaphore(0)

    @app.task
    def answer() -> int:
        begun.release()
        go.acquire()
        return 42

    with working(app) as worker:
        [pool] = worker.pools
        tasks = app.submit_many_sync([answer.call() for _ in range(3)])
        for _ in tasks:
            assert begun.acquire(timeout=60)
        until(lambda: pool._busy == 0)
        with nobody_writes(url):
            for busy in (1, 2):
                go.release()
                until(lambda: pool._busy == busy and not pool._ended)  # noqa: B023
            go.release()
            until(lambda: len(pool._ended) == 1)
            stop_at_once(worker)
            until(lambda: worker._handing_back)
    assert [task.record_sync().status for task in tasks] == [State.SUCCEEDED] * 3
