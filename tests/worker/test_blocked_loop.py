"""A coroutine that blocks the event loop is named, and blamed; those beside it are not."""

import asyncio
import logging
import threading
import time

import pytest

from headgate.app import Headgate
from headgate.core.states import State
from headgate.worker.context import context
from tests.worker.conftest import until, working

BESIDE = 40


def test_those_whose_deadline_passed_while_another_blocked_the_loop_run_again_uncounted(
    app: Headgate, caplog: pytest.LogCaptureFixture
):
    """Spec: A6"""
    begun: list[int] = []
    go = threading.Event()

    @app.task(timeout_seconds=30)
    async def block() -> str:
        await asyncio.to_thread(go.wait, 30)
        time.sleep(3)  # noqa: ASYNC251
        return "done"

    @app.task(timeout_seconds=2)
    async def beside() -> int:
        begun.append(context().task_id)
        await asyncio.sleep(0.5 if context().attempt > 1 else 1.0)
        return context().attempt

    with caplog.at_level(logging.WARNING), working(app):
        blocker = block.submit_sync()
        tasks = app.submit_many_sync([beside.call() for _ in range(BESIDE)])
        until(lambda: len(set(begun)) == BESIDE)
        go.set()
        ends = [task.wait_sync(60) for task in tasks]
        assert blocker.wait_sync(120).result == "done"
    assert {end.status for end in ends} == {State.SUCCEEDED}
    assert {(task.record_sync().error_count, task.record_sync().lost_count) for task in tasks} == {(0, 0)}
    assert 2 in {end.result for end in ends}
    [named] = [text for text in caplog.messages if "event loop blocked" in text]
    assert f": task={blocker.id} type=block\n" in named
    assert "time.sleep(3)" in named


def test_a_result_that_came_after_the_deadline_is_refused_though_the_loop_could_not_say_so_sooner(app: Headgate):
    """Spec: B3"""

    @app.task(timeout_seconds=0.5)
    async def block() -> str:
        time.sleep(1.5)  # noqa: ASYNC251
        return "too late"

    with working(app):
        task = block.submit_sync()
        ended = task.wait_sync(120)
    assert (ended.status, ended.error) == (State.FAILED, "TimeoutError: it ran for more than 0.5 s")
    assert task.record_sync().error_count == 1
    assert task.record_sync().result is None


def test_a_thread_that_returns_after_its_deadline_is_refused(app: Headgate):
    """Spec: B3"""

    @app.task(timeout_seconds=0.3)
    def late() -> str:
        time.sleep(0.8)  # in C: the interrupt comes when it is over
        return "too late"

    with working(app):
        ended = late.submit_sync().wait_sync(120)
    assert (ended.status, ended.error) == (State.FAILED, "TimeoutError: it ran for more than 0.3 s")


def test_a_thread_that_ended_in_time_counts_though_the_loop_was_blocked_then(app: Headgate):
    """Spec: A6"""
    blocked = threading.Event()

    @app.task
    async def block() -> None:
        blocked.set()
        time.sleep(5)  # noqa: ASYNC251

    @app.task(timeout_seconds=4)
    def quick() -> str:
        assert blocked.wait(3)
        return "in time"

    with working(app):
        task = quick.submit_sync()
        until(lambda: task.record_sync().status is State.RUNNING)
        block.submit_sync()
        assert task.wait_sync(120).result == "in time"
    assert task.record_sync().attempt == 1
