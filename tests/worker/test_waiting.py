"""A handler that waits for other tasks does not keep them from running: it lends its slot meanwhile."""

import asyncio
import threading
from typing import Any

import pytest

import headgate
import headgate.client as client
from headgate import Headgate, State
from headgate.store.reading.lists import Filter
from tests.worker import waiters
from tests.worker.conftest import until, working


def test_a_parent_in_the_only_thread_waits_for_its_children_in_that_thread(app: Headgate):
    """Spec: D7"""

    @app.task
    def child(number: int) -> int:
        return number

    @app.task
    def parent() -> int:
        children = headgate.context().submit_many([child.call(number) for number in range(3)]).result()
        return sum(each.wait_sync(120).result for each in children)

    with working(app, threads=1, concurrency=1):
        assert parent.submit_sync().wait_sync(120).result == 3


def test_a_parent_on_the_event_loop_waits_for_its_children_there(app: Headgate):
    """Spec: D7"""

    @app.task
    async def child(number: int) -> int:
        return number

    @app.task
    async def parent() -> int:
        children = await headgate.context().submit_many([child.call(number) for number in range(3)])
        return sum([(await each.wait(60)).result for each in children])

    with working(app, threads=1, concurrency=1):
        assert parent.submit_sync().wait_sync(120).result == 3


def test_generations_that_wait_for_one_another_share_one_thread(app: Headgate):
    """Spec: D7"""

    @app.task
    def generation(left: int) -> int:
        if left == 0:
            return 0
        return 1 + headgate.context().submit(generation.call(left - 1)).result().wait_sync(120).result

    with working(app, threads=1):
        assert generation.submit_sync(5).wait_sync(120).result == 5


def test_a_parent_in_the_only_process_waits_for_a_child_in_a_process(app: Headgate, monkeypatch):
    """Spec: D7"""
    monkeypatch.setattr(waiters.app, "_settings", app._settings)
    with working(waiters.app, children=1):
        assert waiters.parent.submit_sync().wait_sync(60).result == 7
        assert waiters.patient.submit_sync().wait_sync(60).result == 3
    waiters.app.close()


def test_a_slot_is_lent_only_to_what_is_waited_for_and_only_for_so_long(app: Headgate):
    """Spec: D7"""
    started: list[str] = []
    go = threading.Event()

    @app.task
    def child() -> None:
        started.append("child")
        go.wait(60)

    @app.task
    def parent() -> None:
        started.append("parent")
        headgate.context().submit(child.call()).result().wait_sync(120)
        started.append("parent went on")

    with working(app, threads=1) as worker:
        first, second = parent.submit_sync(), parent.submit_sync()
        until(lambda: started == ["parent", "child"])
        assert second.record_sync().status is State.QUEUED
        [pool] = worker.pools
        assert len(pool.held) == 2
        go.set()
        assert [task.wait_sync(120).status for task in (first, second)] == [State.SUCCEEDED] * 2
    assert started == ["parent", "child", "parent went on"] * 2


@pytest.mark.parametrize("timeout", [0.0, 0.05])
def test_a_slot_is_given_back_by_who_gives_up_waiting(app: Headgate, timeout):
    """Spec: D7"""

    @app.task
    def never_served() -> None: ...

    @app.task
    def parent() -> str:
        absent = never_served.using(delay_seconds=3600).submit_sync()
        try:
            absent.wait_sync(timeout)
        except TimeoutError as error:
            absent.cancel_sync()
            return str(error)
        return ""

    with working(app, threads=1) as worker:
        assert "the start time has not come yet" in parent.submit_sync().wait_sync(120).result
        until(lambda: not worker.waits.awaited)


def test_a_lent_slot_goes_to_the_awaited_task_and_not_to_an_older_one_of_its_type(app: Headgate):
    """Spec: D7. Else a worker would have as many threads as there are tasks."""
    most, running, lock = 0, 0, threading.Lock()

    @app.task
    def descend(left: int) -> int:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        below = headgate.context().submit(descend.call(left - 1)).result().wait_sync(120).result if left else 0
        with lock:
            running -= 1
        return below + 1

    tasks = app.submit_many_sync([descend.call(2) for _ in range(20)])
    with working(app, threads=1):
        assert [task.wait_sync(60).result for task in tasks] == [3] * 20
    assert most == 3, "as many as the tree is deep"


def test_one_handler_that_waits_for_many_tasks_lends_one_slot(app: Headgate):
    """Spec: D7"""
    most, running, lock = 0, 0, threading.Lock()

    @app.task
    def child() -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    @app.task
    async def parent() -> None:
        children = await headgate.context().submit_many([child.call() for _ in range(20)])
        await asyncio.gather(*(each.wait(60) for each in children))

    with working(app, threads=1):
        assert parent.submit_sync().wait_sync(60).status is State.SUCCEEDED
    assert most <= 2


def test_a_slot_is_lent_to_the_children_of_an_awaited_parent(app: Headgate):
    """Spec: D7"""

    @app.task
    def grandchild() -> None: ...

    @app.task
    def child() -> None:
        headgate.context().submit_many([grandchild.call(), grandchild.call()])

    @app.task
    def parent() -> str:
        return headgate.context().submit(child.call()).result().wait_sync(120).status

    with working(app, threads=1):
        assert parent.submit_sync().wait_sync(60).result == "succeeded"


@pytest.mark.parametrize("held", ["lane", "resource", "mutex"])
@pytest.mark.parametrize("kind", ["def", "async"])
def test_waiting_for_a_task_that_needs_what_the_handler_holds_is_an_error_at_once(app: Headgate, held, kind):
    """Spec: D7"""
    app.store.lanes.set_capacity("films", 1)
    app.store.resources.set("press", 1)
    choices: dict[str, Any] = {"lane": {"lane": "films"}, "resource": {"uses": ["press"]}, "mutex": {"mutex": "one"}}
    options = choices[held]

    @app.task(**options)
    def child() -> None: ...

    if kind == "def":

        @app.task(**options)
        def parent() -> None:
            headgate.context().submit(child.call()).result().wait_sync()
    else:

        @app.task(**options)
        async def parent() -> None:
            await (await headgate.context().submit(child.call())).wait()

    with working(app):
        ended = (task := parent.submit_sync()).wait_sync(60)
    assert ended.status is State.FAILED
    error = (ended.error or "").splitlines()[0]
    assert error.startswith(f"Deadlock: task {task.id + 1} cannot start while task {task.id} waits for it, which holds")
    assert f"its {held} (" in error


def test_a_deadlock_over_a_generation_is_an_error_too(app: Headgate, monkeypatch):
    """Spec: D7"""
    monkeypatch.setattr(client, "CHECK_SECONDS", 0.1)
    app.store.lanes.set_capacity("films", 1)

    @app.task(lane="films")
    def grandchild() -> None: ...

    @app.task
    def child() -> None:
        headgate.context().submit(grandchild.call()).result().wait_sync()

    @app.task(lane="films")
    def parent() -> None:
        headgate.context().submit(child.call()).result().wait_sync()

    with working(app):
        task = parent.submit_sync()
        task.wait_sync(60)
    [waited] = app.store.tasks.find(Filter(parent_id=task.id)).items
    assert f"while task {task.id} waits for it, which holds its lane" in (waited.error_info or "")


def test_waiting_for_a_task_behind_others_in_a_full_lane_is_no_deadlock(app: Headgate, monkeypatch):
    """Spec: D7"""
    monkeypatch.setattr(client, "CHECK_SECONDS", 0.0)
    app.store.lanes.set_capacity("films", 2)
    go = threading.Event()

    @app.task(lane="films")
    def child() -> int:
        return 7

    @app.task(lane="films")
    def blocker() -> None:
        go.wait(60)

    @app.task(lane="films")
    def parent() -> int:
        return headgate.context().submit(child.call()).result().wait_sync(120).result

    with working(app):
        blocking, task = blocker.submit_sync(), parent.submit_sync()
        until(lambda: app.store.tasks.find(Filter(parent_id=task.id)).items != [])
        [waiting] = app.store.tasks.find(Filter(parent_id=task.id)).items
        until(lambda: any(gate.name == "lane" and not gate.open for gate in app.store.tasks.why(waiting.id)))
        go.set()
        assert task.wait_sync(60).result == 7
        assert blocking.wait_sync(120).succeeded
