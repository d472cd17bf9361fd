"""A handler holds a resource for a part of its run: it waits for its turn, and every way to end it ends the wait."""

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import headgate
from headgate import client
from headgate.core.errors import Unavailable
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import ClaimRequest
from headgate.store.store import open_store
from tests.worker import holders
from tests.worker.conftest import until, working

DISC = "disc"


@pytest.fixture
def busy(app):
    """An execution beside the workers, which holds the disc until it is told to let go."""
    app.store.types.put(TaskType("outside"))
    app.store.tasks.submit(NewTask("outside"))
    worker_id = app.store.workers.register("outside", lease_seconds=1e6)
    [execution] = app.store.claims.take(ClaimRequest(worker_id, 1, types=frozenset({"outside"}))).executions
    assert app.store.holds.take(execution.id, execution.exec_id, DISC).held
    return execution


def let_go(app, execution):
    app.store.holds.release(execution.id, execution.exec_id, [DISC])


def line(app):
    return [hold for use in app.store.holds.uses().values() for hold in use.line]


def waiting(app, count=1):
    return sum(not hold.held for hold in line(app)) == count


def ended(app, task, *states):
    until(lambda: app.store.tasks.get(task.id).status in (states or (State.SUCCEEDED,)))
    return app.store.tasks.get(task.id)


@pytest.fixture(params=["coroutine", "thread"])
def holding(request, app):
    """A task that holds the disc, on the event loop or in a thread, and what it did."""
    did = []

    if request.param == "coroutine":

        @app.task
        async def hold(number: int = 0) -> None:
            async with headgate.context().hold(DISC):
                did.append(number)

    else:

        @app.task
        def hold(number: int = 0) -> None:
            with headgate.context().hold(DISC):
                did.append(number)

    return hold, did


def test_a_handler_waits_until_there_is_room_and_lets_go_at_once(app, busy, holding):
    """Spec: C3"""
    hold, did = holding
    with working(app):
        task = hold.submit_sync()
        until(lambda: waiting(app))
        assert did == []
        let_go(app, busy)
        ended(app, task)
        assert line(app) == []
    assert did == [0]


def test_a_release_by_another_process_wakes_a_handler_that_hardly_ever_looks(app, url, busy, holding):
    """Spec: C3"""
    app._settings = replace(app._settings, poll_seconds=3600.0)
    hold, _ = holding
    with working(app), open_store(url) as other:
        task = hold.submit_sync()
        until(lambda: waiting(app))
        other.holds.release(busy.id, busy.exec_id, [DISC])
        ended(app, task)


def test_handlers_of_one_worker_hold_in_the_order_of_asking(app, busy, holding):
    """Spec: C3"""
    hold, did = holding
    with working(app):
        for number in range(4):
            hold.submit_sync(number)
            until(partial(waiting, app, number + 1))
        let_go(app, busy)
        until(lambda: len(did) == 4)
    assert did == [0, 1, 2, 3]


def test_two_workers_never_hold_more_than_the_capacity_together(app):
    """Spec: C3"""
    app.store.resources.set(DISC, 2)
    inside, most, lock = 0, 0, threading.Lock()

    @app.task
    async def hold() -> None:
        nonlocal inside, most
        for _ in range(3):
            async with headgate.context().hold(DISC):
                with lock:
                    inside += 1
                    most = max(most, inside)
                await asyncio.sleep(0.001)
                with lock:
                    inside -= 1

    with working(app), working(app):
        tasks = [hold.submit_sync() for _ in range(12)]
        for task in tasks:
            ended(app, task)
    assert 1 <= most <= 2


def test_a_cancel_ends_the_wait_at_once(app, busy, holding):
    """Spec: A7"""
    hold, did = holding
    with working(app):
        task = hold.submit_sync()
        until(lambda: waiting(app))
        task.cancel_sync()
        ended(app, task, State.CANCELLED)
        until(lambda: waiting(app, 0))
    assert did == []


def test_a_pause_takes_hold_while_a_handler_waits(app, busy, holding):
    hold, did = holding
    with working(app):
        task = hold.submit_sync()
        until(lambda: waiting(app))
        app.store.tasks.pause(task.id)
        ended(app, task, State.PAUSED)
        until(lambda: waiting(app, 0))
        let_go(app, busy)
        app.store.tasks.resume(task.id)
        ended(app, task)
    assert did == [0]


def test_a_task_s_timeout_counts_the_wait(app, busy):
    @app.task(timeout_seconds=0.5, retry=headgate.never)
    async def hold() -> None:
        async with headgate.context().hold(DISC):
            raise AssertionError

    with working(app):
        assert "ran for more than" in ended(app, hold.submit_sync(), State.FAILED).error_info
        until(lambda: waiting(app, 0))


def test_a_worker_that_drains_gives_back_what_waits(app, busy, holding):
    hold, did = holding
    with working(app) as worker:
        task = hold.submit_sync()
        until(lambda: waiting(app))
        worker.stop_from_thread()
        worker.stop_from_thread()
        ended(app, task, State.QUEUED)
    assert did == []
    assert waiting(app, 0)


def test_a_wait_that_takes_too_long_is_an_error_of_the_handler_and_leaves_the_line(app, busy):
    errors = []

    @app.task
    async def hold() -> None:
        try:
            async with headgate.context().hold(DISC, timeout_seconds=0.05):
                raise AssertionError
        except TimeoutError as error:
            errors.append(str(error))
        assert waiting(app, 0)

    with working(app):
        ended(app, hold.submit_sync())
    assert errors == ["resource disc was not free within 0.05 s"]


def test_a_handler_s_own_timeout_around_the_wait_leaves_the_line(app, busy):
    @app.task
    async def hold() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), headgate.context().hold(DISC):
                raise AssertionError
        assert waiting(app, 0)

    with working(app):
        ended(app, hold.submit_sync())


def test_an_execution_holds_a_resource_once_at_a_time(app):
    codes = []

    @app.task
    async def hold() -> None:
        context = headgate.context()
        async with context.hold(DISC), context.hold("other"):
            with pytest.raises(headgate.HeadgateError, match="in another block") as refused:
                async with context.hold(DISC):
                    raise AssertionError
            codes.append(refused.value.code)
        async with context.hold(DISC):
            codes.append("again")

    with working(app):
        ended(app, hold.submit_sync())
    assert codes == ["already-held", "again"]


def test_a_handler_whose_type_uses_the_resource_has_it_at_once_and_to_its_end(app):
    @app.task(uses=[DISC])
    async def hold() -> None:
        async with headgate.context().hold(DISC):
            assert line(app) == []

    with working(app):
        ended(app, hold.submit_sync())


def test_a_coroutine_that_forgets_the_async_is_told_so(app):
    @app.task(retry=headgate.never)
    async def hold() -> None:
        with headgate.context().hold(DISC):
            raise AssertionError

    with working(app):
        assert "async with" in ended(app, hold.submit_sync(), State.FAILED).error_info
    assert line(app) == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_that_is_none_is_refused(app, seconds):
    @app.task(retry=headgate.never)
    async def hold() -> None:
        async with headgate.context().hold(DISC, timeout_seconds=seconds):
            raise AssertionError

    with working(app):
        assert "above 0" in ended(app, hold.submit_sync(), State.FAILED).error_info


@pytest.fixture
def apart(app, url):
    """The tasks of `holders`, on this test's store."""
    holders.app._settings = app._settings
    holders.app.bind(app.store)
    yield holders
    holders.app.close()


def test_a_process_waits_for_its_turn_while_its_event_loop_goes_on(app, apart, busy):
    """Spec: C3"""
    with working(apart.app):
        plain, aware = apart.plain.submit_sync(7), apart.aware.submit_sync()
        until(lambda: waiting(app, 2))
        until(lambda: app.store.tasks.get(aware.id).progress is not None)
        let_go(app, busy)
        assert ended(app, plain).result == "7"
        ended(app, aware)
        until(lambda: line(app) == [])


def test_a_process_that_is_killed_while_it_holds_lets_go(app, apart):
    """Spec: C3"""
    with working(apart.app):
        died = apart.dies.submit_sync()
        until(lambda: app.store.tasks.get(died.id).lost_count > 0)
        app.store.tasks.cancel(died.id)
        assert ended(app, apart.plain.submit_sync(7)).result == "7"


def test_what_a_process_left_behind_is_ended_before_what_it_held_is_free(app, apart, tmp_path, monkeypatch):
    """Spec: C3"""
    file, release, ran = tmp_path / "pid", app.store.holds.release, []

    def note(*args):
        with suppress(psutil.NoSuchProcess):
            left = psutil.Process(int(file.read_text()))
            with suppress(psutil.TimeoutExpired):
                left.wait(2.0)
            if left.is_running() and left.status() != psutil.STATUS_ZOMBIE:
                ran.append(left)
        release(*args)

    monkeypatch.setattr(app.store.holds, "release", note)
    with working(apart.app):
        died = apart.leaves.submit_sync(str(file))
        until(lambda: app.store.tasks.get(died.id).lost_count > 0)
        app.store.tasks.cancel(died.id)
    assert ran == []


def test_a_process_hears_of_timeouts_refusals_and_cancels_while_it_waits(app, apart, busy):
    with working(apart.app):
        assert "was not free within 0.2 s" in ended(app, apart.late.submit_sync()).result
        task = apart.plain.submit_sync(7)
        until(lambda: waiting(app))
        task.cancel_sync()
        ended(app, task, State.CANCELLED)
        until(lambda: waiting(app, 0))
        let_go(app, busy)
        assert ended(app, apart.twice.submit_sync()).result == '"already-held"'


@pytest.mark.parametrize("needs", ["uses", "holds"])
def test_a_handler_that_waits_for_a_child_which_needs_what_it_holds_is_told_of_the_deadlock(app, needs, monkeypatch):
    """Spec: D7"""
    monkeypatch.setattr(client, "CHECK_SECONDS", 0.1)

    @app.task(uses=[DISC] if needs == "uses" else [])
    async def child() -> None:
        async with headgate.context().hold(DISC):
            pass

    @app.task(retry=headgate.never)
    async def parent() -> None:
        async with headgate.context().hold(DISC):
            await (await headgate.context().submit(child.call())).wait()

    with working(app):
        task = parent.submit_sync()
        until(lambda: (app.store.tasks.get(task.id).error_info or "").startswith("Deadlock"))
    assert f"while task {task.id} waits for it, which holds its resource" in app.store.tasks.get(task.id).error_info


@pytest.fixture(params=["coroutine", "thread", "process"])
def opposite(request, app, apart):
    """A task that holds the tape, and within that the disc once a file is there; and the program it is of."""
    if request.param == "process":
        return apart.opposite, apart.app

    if request.param == "coroutine":

        @app.task(retry=headgate.fixed(0.01, retries=1))
        async def opposite(file: str) -> None:
            async with headgate.context().hold("tape"):
                await asyncio.to_thread(until, Path(file).exists)
                async with headgate.context().hold(DISC):
                    pass

    else:

        @app.task(retry=headgate.fixed(0.01, retries=1))
        def opposite(file: str) -> None:
            with headgate.context().hold("tape"):
                until(Path(file).exists)
                with headgate.context().hold(DISC):
                    pass

    return opposite, app


def holds_tape(app, task):
    return any((hold.task_id, hold.resource, hold.held) == (task.id, "tape", True) for hold in line(app))


def test_a_handler_whose_wait_would_close_a_circle_is_told_so_and_tries_again(app, opposite, busy, tmp_path):
    """Spec: C3"""
    task_function, program = opposite
    with working(program, due=True):
        task = task_function.submit_sync(str(tmp_path / "go"))
        until(lambda: holds_tape(app, task))
        assert not app.store.holds.take(busy.id, busy.exec_id, "tape", keeps=[DISC]).held
        (tmp_path / "go").touch()
        until(lambda: app.store.tasks.get(task.id).error_count == 1)
        assert "Deadlock: " in (error := app.store.tasks.get(task.id).error_info)
        assert f"wait for resource disc in a circle with task {busy.id}: it keeps tape" in error
        until(lambda: app.store.holds.take(busy.id, busy.exec_id, "tape").held)
        app.store.holds.release(busy.id, busy.exec_id, ["tape", DISC])
        ended(app, task)


def test_others_are_told_what_a_handler_keeps_while_it_waits(app, opposite, busy, tmp_path):
    """Spec: C3"""
    task_function, program = opposite
    (tmp_path / "go").touch()
    with working(program):
        task = task_function.submit_sync(str(tmp_path / "go"))
        until(lambda: waiting(app))
        with pytest.raises(headgate.Deadlock, match=f"in a circle with task {task.id}: it keeps disc"):
            app.store.holds.take(busy.id, busy.exec_id, "tape", keeps=[DISC])
        let_go(app, busy)
        ended(app, task)


def test_a_wait_with_a_timeout_or_beside_the_block_closes_no_circle(app, busy):
    held = []

    @app.task
    async def hold() -> None:
        context = headgate.context()

        async def disc(seconds: float | None = None) -> None:
            async with context.hold(DISC, timeout_seconds=seconds):
                held.append(seconds)

        async with context.hold("tape"):
            with suppress(TimeoutError):
                await disc(0.05)
            beside = asyncio.create_task(disc())
            await asyncio.to_thread(until, lambda: waiting(app, 2))
        await beside

    with working(app):
        task = hold.submit_sync()
        until(lambda: holds_tape(app, task))
        assert not app.store.holds.take(busy.id, busy.exec_id, "tape", keeps=[DISC]).held
        until(lambda: app.store.holds.take(busy.id, busy.exec_id, "tape").held)
        app.store.holds.release(busy.id, busy.exec_id, ["tape", DISC])
        ended(app, task)
    assert held == [None]


@pytest.fixture(params=["coroutine", "thread", "process"])
def leaving(request, app, apart):
    """A task that leaves its block and goes on until a file is there; and the program it is of."""
    if request.param == "process":
        return apart.leaving, apart.app

    if request.param == "coroutine":

        @app.task(retry=headgate.never)
        async def leaving(file: str) -> None:
            async with headgate.context().hold(DISC):
                pass
            await asyncio.to_thread(until, Path(file).exists)

    else:

        @app.task(retry=headgate.never)
        def leaving(file: str) -> None:
            with headgate.context().hold(DISC):
                pass
            until(Path(file).exists)

    return leaving, app


@pytest.fixture
def away(app, monkeypatch):
    """No release reaches the store until `back` is set; each sets `tried`."""
    release, away = app.store.holds.release, SimpleNamespace(back=threading.Event(), tried=threading.Event())

    def release_if_back(*args):
        away.tried.set()
        if not away.back.is_set():
            raise Unavailable("the store is away")
        release(*args)

    monkeypatch.setattr(app.store.holds, "release", release_if_back)
    return away


def test_leaving_a_block_while_the_store_is_away_is_no_error_and_the_release_follows(app, leaving, away, tmp_path):
    """Spec: C3"""
    task_function, program = leaving
    with working(program):
        task = task_function.submit_sync(str(tmp_path / "go"))
        assert away.tried.wait(60)
        assert len(line(app)) == 1
        away.back.set()
        until(lambda: line(app) == [])
        assert app.store.tasks.get(task.id).status is State.RUNNING
        (tmp_path / "go").touch()
        ended(app, task)


def test_what_ends_while_the_store_is_away_lets_go_with_its_end(app, leaving, away, tmp_path):
    """Spec: C3"""
    task_function, program = leaving
    (tmp_path / "go").touch()
    with working(program):
        ended(app, task_function.submit_sync(str(tmp_path / "go")))
        assert line(app) == []


def test_a_wait_that_is_given_up_while_the_store_is_away_leaves_the_line_later(app, busy, away):
    """Spec: C3"""
    left = threading.Event()

    @app.task(retry=headgate.never)
    async def hold() -> None:
        with suppress(TimeoutError):
            async with headgate.context().hold(DISC, timeout_seconds=0.05):
                raise AssertionError
        await asyncio.to_thread(left.wait, 60)

    with working(app):
        task = hold.submit_sync()
        assert away.tried.wait(60)
        assert waiting(app, 1)
        away.back.set()
        until(lambda: waiting(app, 0))
        left.set()
        ended(app, task)


def test_what_is_taken_again_is_not_released_by_the_block_before(app, away):
    """Spec: C3"""
    inside = []

    @app.task(retry=headgate.never)
    async def hold() -> None:
        async with headgate.context().hold(DISC):
            pass
        with pytest.raises(TimeoutError, match="was not free within"):
            async with headgate.context().hold(DISC, timeout_seconds=0.05):
                raise AssertionError
        away.back.set()
        async with headgate.context().hold(DISC):
            inside.append([hold.held for hold in await asyncio.to_thread(line, app)])

    with working(app):
        ended(app, hold.submit_sync())
    assert inside == [[True]]
    assert line(app) == []
