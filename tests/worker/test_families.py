"""Families as handlers make them: children by the context, and what becomes of them when somebody fails."""

import pytest

from headgate.app import Headgate
from headgate.core.errors import Invalid
from headgate.core.retry import Fatal
from headgate.core.states import State
from headgate.store.reading.lists import Filter
from headgate.worker.context import context
from tests.worker.conftest import until, working


def children_of(app: Headgate, task_id: int) -> list[State]:
    return [task.status for task in app.store.tasks.find(Filter(parent_id=task_id)).items[::-1]]


@pytest.mark.parametrize("isolation", ["coroutine", "thread"])
def test_a_handler_that_fails_for_good_takes_its_children_along(app: Headgate, isolation: str):
    """Spec: D7, D3"""

    @app.task
    async def child() -> None: ...

    later = child.using(delay_seconds=3600)

    @app.task
    async def in_a_coroutine() -> None:
        await context().submit_many([later.call() for _ in range(3)])
        raise Fatal("no more")

    @app.task
    def in_a_thread() -> None:
        context().submit(later.call())
        context().submit_many([later.call(), later.call()]).result()
        raise Fatal("no more")

    with working(app):
        task = in_a_coroutine.submit_sync() if isolation == "coroutine" else in_a_thread.submit_sync()
        ended = task.wait_sync(120)
    assert (ended.status, "no more" in (ended.error or "")) == (State.FAILED, True)
    assert children_of(app, task.id) == [State.CANCELLED] * 3


def test_a_task_that_is_no_child_has_its_mutex_to_itself_and_nobody_waits_for_it(app: Headgate):
    """Spec: D7, A10"""

    @app.task(mutex="shelf")
    async def follower() -> None: ...

    @app.task(mutex="shelf")
    async def leader() -> int:
        followers = [follower.call(), follower.using(delay_seconds=3600).call()]
        await context().submit_many(followers, children=False)
        return context().priority

    with working(app):
        task = leader.using(priority=2, correlation_id="together", tenant_id=7).submit_sync()
        assert task.wait_sync(120).result == 2  # though a follower has an hour to go
    made = app.store.tasks.find(Filter(type="follower")).items
    assert {(each.parent_id, each.tenant_id, each.correlation_id) for each in made} == {(None, 7, "together")}
    assert len(made) == 2


@pytest.mark.parametrize("how", ["declared", "using"])
def test_a_child_that_fails_cancels_the_others_where_the_handler_says_so(app: Headgate, how: str):
    """Spec: D7"""

    @app.task
    async def child(fails: bool) -> None:
        if fails:
            raise Fatal("broken")

    async def family() -> None:
        await context().submit_many([child.call(True), *[child.using(delay_seconds=3600).call(False)] * 3])

    if how == "declared":
        parent = app.task(code="family", on_child_failure="cancel")(family)
    else:
        parent = app.task(code="family")(family).using(on_child_failure="cancel")
    with working(app):
        task = parent.submit_sync()
        assert task.wait_sync(120).status is State.FAILED
    assert children_of(app, task.id) == [State.FAILED, *[State.CANCELLED] * 3]


def test_a_policy_nobody_knows_is_refused_where_it_is_declared(app: Headgate):
    """Spec: D7"""
    with pytest.raises(Invalid, match="on_child_failure"):

        @app.task(on_child_failure="panic")  # type: ignore[call-overload]
        async def family() -> None: ...


def test_a_running_child_hears_that_its_parent_gave_up(app: Headgate):
    """Spec: D7, C10"""

    @app.task
    async def child() -> None:
        await context().log("here")
        while True:
            await context().progress(0, 1)

    @app.task
    async def parent() -> None:
        made = await context().submit(child.call())
        while not app.store.executions.log(made.id):
            await context().progress(0, 1)
        raise Fatal("no more")

    with working(app):
        task = parent.submit_sync()
        assert task.wait_sync(120).status is State.FAILED
    assert children_of(app, task.id) == [State.CANCELLED]


def test_a_parent_waits_no_longer_than_its_last_child(app: Headgate):
    """Spec: D7. Whoever ends the last child ends the parent: no duty is needed for it."""

    @app.task
    async def child(depth: int) -> None:
        if depth:
            await context().submit_many([child.call(depth - 1), child.call(depth - 1)])

    with working(app):
        task = child.submit_sync(3)
        assert task.wait_sync(120).status is State.SUCCEEDED
    until(lambda: not app.store.families.waiting())
    assert len(app.store.tasks.find(limit=200).items) == 15
