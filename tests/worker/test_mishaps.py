"""What goes wrong around a handler harms neither its neighbours nor the worker."""

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.core.retry import Retry, fixed
from headgate.core.states import State
from headgate.core.task import MAX_ERROR_BYTES
from headgate.settings import Settings
from headgate.worker.context import Interrupted, context
from headgate.worker.run import Snooze
from headgate.worker.threads import Threads, call_handler
from tests.worker import heavy
from tests.worker.conftest import until, working

FOREVER = 600


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("do not look")


@pytest.mark.parametrize("delay", [float("inf"), float("nan"), 1e300, "soon"])
def test_a_snooze_that_no_clock_knows_holds_up_nobody(app: Headgate, delay: Any):
    """Spec: X2"""

    @app.task
    async def sleepy() -> Any:
        return Snooze(delay)

    @app.task
    async def good() -> str:
        return "fine"

    with working(app):
        tasks = app.submit_many_sync([sleepy.call(), good.call()])
        assert tasks[1].wait_sync(120).result == "fine"
        until(lambda: tasks[0].record_sync().status in (State.PENDING, State.FAILED))


def test_a_result_that_is_no_json_fails_instead_of_being_nothing(app: Headgate):
    """Spec: D3"""

    @app.task
    async def measured() -> Any:
        return {"mean": float("nan")}

    with working(app):
        task = measured.submit_sync()
        until(lambda: task.record_sync().status is State.FAILED)
        assert "the handler's result cannot be stored" in (task.record_sync().error_info or "")


def test_a_retry_delay_that_is_no_number_is_none(app: Headgate):
    """Spec: D4"""

    @app.task(retry=fixed(60, retries=1))
    async def again() -> Any:
        return "done" if context().attempt == 2 else Retry(delay=float("nan"))

    with working(app, due=True):
        assert again.submit_sync().wait_sync(120).result == "done"


@pytest.mark.parametrize("isolation", ["loop", "thread"])
def test_an_error_that_cannot_be_looked_at_fails_its_task_and_frees_its_slot(app: Headgate, isolation: str):
    """Spec: A12"""

    async def broken() -> None:
        raise Unspeakable

    def broken_thread() -> None:
        raise Unspeakable

    function = app.task(broken) if isolation == "loop" else app.task(broken_thread)
    with working(app, concurrency=1, threads=1):
        ends = [function.submit_sync().wait_sync(120) for _ in range(2)]
    assert {end.status for end in ends} == {State.FAILED}
    assert "Unspeakable" in (ends[0].error or "")


def test_a_job_interrupted_while_it_ends_is_told_of_all_the_same():
    """Spec: A6"""
    threads = Threads()
    for _ in range(50):
        done = threading.Event()
        inside, outside = threading.Event(), threading.Lock()
        outside.acquire()

        def body(inside: threading.Event = inside, outside: threading.Lock = outside) -> None:
            inside.set()
            with outside:  # in C when the interrupt comes
                raise ValueError("and then it raises")

        def on_done(error: BaseException | None, done: threading.Event = done) -> None:
            done.set()

        job = threads.start(partial(call_handler, [], body, {}), on_done)
        assert inside.wait(60)
        job.interrupt()
        outside.release()
        assert done.wait(60)
    after = threading.Event()
    threads.start(lambda: None, lambda error: after.set())
    assert after.wait(60)


def test_a_thread_that_calls_another_task_function_is_interrupted_there_too(app: Headgate):
    """Spec: A6"""

    @app.task
    def inner() -> None:
        while True:
            time.sleep(0.01)

    @app.task(timeout_seconds=0.3)
    def outer() -> None:
        try:
            inner()
        except Interrupted:
            raise
        finally:
            ended.set()

    ended = threading.Event()
    with working(app):
        assert (outer.submit_sync().wait_sync(120).error or "").startswith("TimeoutError")
        assert ended.wait(60)


def test_what_was_taken_from_outside_is_stopped_by_its_worker(app: Headgate):
    """Spec: A10"""
    begun, stopped = threading.Event(), threading.Event()
    exec_ids: list[str] = []

    @app.task(mutex="only")
    async def hog() -> None:
        exec_ids.append(context().exec_id)
        begun.set()
        try:
            await asyncio.sleep(FOREVER if len(exec_ids) == 1 else 0)
        finally:
            stopped.set()

    with working(app):
        task = hog.submit_sync()
        assert begun.wait(60)
        app.store.executions.give_back(task.id, exec_ids[0])
        assert stopped.wait(60)
        assert task.wait_sync(120).status is State.SUCCEEDED


def test_a_mutex_held_too_long_is_freed_by_the_worker_that_holds_it(url: str):
    """Spec: A10"""
    app = Headgate(settings=Settings(url=url, poll_seconds=0.2, mutex_seconds=0.5, reap_seconds=0.1))
    stopped = threading.Event()

    @app.task(mutex="only")
    async def hog() -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            stopped.set()

    with working(app, due=True):
        task = hog.submit_sync()
        assert task.wait_sync(120).error == "TimeoutError: it held its mutex for more than 0.5 s"
        assert stopped.is_set()
    assert task.record_sync().error_count == 1
    app.close()


def test_a_pause_that_was_taken_back_is_not_obeyed(app: Headgate):
    """Spec: A2"""
    begun, go_on = threading.Event(), threading.Event()

    @app.task
    def walk() -> str:
        context().progress(1)
        begun.set()
        go_on.wait(60)
        context().checkpoint("here", 1)
        return "arrived"

    with working(app) as worker:
        task = walk.submit_sync()
        assert begun.wait(60)
        app.store.tasks.pause(task.id)
        until(lambda: any(run.pausing for run in worker.held.values()))
        app.store.tasks.resume(task.id)
        go_on.set()
        assert task.wait_sync(120).result == "arrived"


def test_a_lease_that_cannot_be_renewed_stops_what_runs(url: str):
    """Spec: A6"""
    # It may have begun anew by the end, and nobody waits for it then.
    app = Headgate(settings=Settings(url, beat_seconds=0.2, lease_seconds=1.0, poll_seconds=0.2, shutdown_seconds=0.2))
    begun, stopped = threading.Event(), threading.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(FOREVER)
        finally:
            stopped.set()

    with working(app) as worker:
        slow.submit_sync()
        assert begun.wait(60)
        hang = threading.Event()
        worker._beat._held = lambda: hang.wait(60) and {}  # type: ignore[assignment,return-value]  # a beat that hangs
        assert stopped.wait(60)
        hang.set()
        worker._beat._held = dict
    app.close()


@pytest.mark.parametrize("isolation", ["loop", "thread", "process"])
def test_a_log_line_of_any_length_is_cut_and_not_fatal(app: Headgate, isolation: str):
    """Spec: A12"""
    characters = 8_000_000

    async def chatter() -> str:
        await context().log("x" * characters)
        return "said"

    def chatter_in_a_thread() -> str:
        context().log("x" * characters)
        return "said"

    if isolation == "process":
        working_app, call = heavy.bound_to(app), heavy.chatter.call(characters)
    else:
        function = app.task(chatter) if isolation == "loop" else app.task(chatter_in_a_thread)
        working_app, call = app, function.call()
    with working(working_app):
        task = working_app.submit_sync(call)
        assert task.wait_sync(60).result == "said"
    [line] = app.store.executions.log(task.id)
    assert set(line.message) == {"x"}
    assert len(line.message) == MAX_ERROR_BYTES
