"""What a coroutine begins and does not await is finished before its task ends, or the task fails with that reason."""

import asyncio
import threading

import pytest

from headgate.app import Headgate
from headgate.core.errors import Invalid, Refused
from headgate.core.states import State
from headgate.store.reading.lists import Filter
from headgate.worker.context import context
from tests.worker.conftest import until, working

PARENTS = 50


def test_children_submitted_without_an_await_are_made_before_their_parent_ends(app: Headgate):
    """Spec: D7"""

    @app.task
    async def child(of: int) -> None: ...

    @app.task
    async def parent(number: int) -> None:
        context().submit(child.call(number))
        context().log(f"parent {number}")
        context().checkpoint("number", number)

    with working(app):
        parents = app.submit_many_sync([parent.call(number) for number in range(PARENTS)])
        assert {task.wait_sync(60).status for task in parents} == {State.SUCCEEDED}
    children = app.store.tasks.find(Filter(type="child"), limit=100).items
    assert {task.parent_id for task in children} == {task.id for task in parents}
    for number, task in enumerate(parents):
        assert app.store.executions.checkpoints(task.id) == {"number": str(number)}
        assert [line.message for line in app.store.executions.log(task.id)] == [f"parent {number}"]


def test_a_report_that_failed_unseen_fails_its_task_with_that_reason(app: Headgate):
    """Spec: D7"""

    no_name = "x" * 10_000

    @app.task
    async def careless() -> None:
        context().checkpoint(no_name, 1)

    @app.task
    async def careful() -> str:
        try:
            await context().checkpoint(no_name, 1)
        except Invalid as error:
            return type(error).__name__
        return "made"

    with working(app):
        seen = careful.submit_sync().wait_sync(120)
        assert (seen.status, seen.result) == (State.SUCCEEDED, "Invalid")
        unseen = careless.submit_sync().wait_sync(120)
    assert unseen.status is State.FAILED
    assert "a report that was not awaited failed" in (unseen.error or "")


def test_a_report_that_begins_after_the_end_is_refused(app: Headgate):
    """Spec: B3"""
    refused = threading.Event()
    kept: list[asyncio.Task[None]] = []

    @app.task
    async def hasty() -> None:
        me = context()

        async def later() -> None:
            await asyncio.to_thread(ended.wait, 30)
            with pytest.raises(Refused, match="did not await what it began"):
                await me.log("too late")
            refused.set()

        kept.append(asyncio.create_task(later()))

    ended = threading.Event()
    with working(app):
        task = hasty.submit_sync()
        assert task.wait_sync(120).status is State.SUCCEEDED
        ended.set()
        until(refused.is_set)
    assert app.store.executions.log(task.id) == []
