"""A handler that waits for other tasks does not keep them from running: it lends its slot meanwhile."""

import threading

import pytest

import headgate
from headgate import Headgate, State
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
        return sum(each.wait_sync(30).result for each in children)

    with working(app, threads=1, concurrency=1):
        assert parent.submit_sync().wait_sync(30).result == 3


def test_a_parent_on_the_event_loop_waits_for_its_children_there(app: Headgate):
    """Spec: D7"""

    @app.task
    async def child(number: int) -> int:
        return number

    @app.task
    async def parent() -> int:
        children = await headgate.context().submit_many([child.call(number) for number in range(3)])
        return sum([(await each.wait(30)).result for each in children])

    with working(app, threads=1, concurrency=1):
        assert parent.submit_sync().wait_sync(30).result == 3


def test_generations_that_wait_for_one_another_share_one_thread(app: Headgate):
    """Spec: D7"""

    @app.task
    def generation(left: int) -> int:
        if left == 0:
            return 0
        return 1 + headgate.context().submit(generation.call(left - 1)).result().wait_sync(30).result

    with working(app, threads=1):
        assert generation.submit_sync(5).wait_sync(30).result == 5


def test_a_parent_in_the_only_process_waits_for_a_child_in_a_process(app: Headgate, monkeypatch):
    """Spec: D7"""
    monkeypatch.setattr(waiters.app, "settings", app.settings)
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
        go.wait(30)

    @app.task
    def parent() -> None:
        started.append("parent")
        headgate.context().submit(child.call()).result().wait_sync(30)
        started.append("parent went on")

    with working(app, threads=1) as worker:
        first, second = parent.submit_sync(), parent.submit_sync()
        until(lambda: started == ["parent", "child"])
        assert second.record_sync().status is State.QUEUED
        [pool] = worker.pools
        assert len(pool.held) == 2
        go.set()
        assert [task.wait_sync(30).status for task in (first, second)] == [State.SUCCEEDED] * 2
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
        assert "its start_time is ahead" in parent.submit_sync().wait_sync(30).result
        until(lambda: not worker.pools[0].lent)
