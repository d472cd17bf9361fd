"""A call becomes a task, and its end can be waited for."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from headgate import Headgate, Invalid, NotFound, Refused, State, TaskFailed
from headgate.core.machine import Raised, Returned
from tests.factories import drain, settle, start


@dataclass
class Report:
    pages: int
    title: str = "none"


def declare(app: Headgate) -> Any:
    @app.task(need_manual=True)
    def scan(page: int) -> Report: ...  # type: ignore[empty-body]

    return scan


def finish(app: Headgate, event: Any) -> None:
    [execution] = start(app.store)
    settle(app.store, execution, event)


def test_submit_and_submit_sync_make_the_same_task(app):
    """Spec: D3, X6"""
    scan = declare(app)
    first, second = asyncio.run(scan.submit(page=3)), scan.submit_sync(3)
    assert first.created
    assert second.created
    assert first.record_sync().ext == second.record_sync().ext == '{"page":3}'
    assert drain(app.store) == [first.id, second.id]


def test_many_are_made_in_the_order_given(app):
    """Spec: D3"""
    scan = declare(app)
    made = asyncio.run(app.submit_many([scan.call(page) for page in range(5)]))
    assert [task.record_sync().ext for task in made] == [f'{{"page":{page}}}' for page in range(5)]
    assert app.submit_many_sync([]) == []


def test_many_are_made_or_none_of_them(app):
    """Spec: D3"""
    scan = declare(app)
    with pytest.raises(Invalid, match="mutex"):
        app.submit_many_sync([scan.call(1), scan.using(mutex="x" * 300).call(2), scan.call(3)])
    assert app.store.tasks.find().items == []


def test_a_unique_key_gives_the_task_that_is_there(app):
    """Spec: X2"""
    scan = declare(app).using(unique_key="u")
    first, second = app.submit_many_sync([scan.call(1), scan.call(2)])
    assert (second.id, first.created, second.created) == (first.id, True, False)


# waiting


def test_a_result_is_what_the_handlers_annotation_says(app):
    """Spec: D3"""
    task = declare(app).submit_sync(3)
    finish(app, Returned('{"pages": 3}'))
    for ended in (task.wait_sync(timeout=0), asyncio.run(task.wait(timeout=0))):
        assert (ended.id, ended.status, ended.succeeded, ended.error) == (task.id, State.SUCCEEDED, True, None)
        assert ended.result == Report(3)


def test_a_result_that_is_something_else_is_told_apart_from_a_failure(app):
    """Spec: D3"""
    task = declare(app).submit_sync(3)
    finish(app, Returned('{"pages": "three"}'))
    with pytest.raises(
        Invalid, match=f"task {task.id} returned a value that does not match its handler's annotation: Expected `int`"
    ):
        _ = task.wait_sync(0).result


def test_a_task_that_gives_nothing_back_has_no_result(app):
    """Spec: D3"""

    @app.task
    def quiet() -> None: ...

    task = quiet.submit_sync()
    finish(app, Returned())
    assert task.wait_sync(0).result is None


@pytest.mark.parametrize("waiting", ["wait", "wait_sync"])
def test_the_end_is_heard_of_while_waiting(app, waiting):
    """Spec: D3"""
    task = declare(app).submit_sync(3)
    worker = threading.Thread(target=finish, args=(app, Returned('{"pages": 3}')))
    if waiting == "wait_sync":
        worker.start()
        ended = task.wait_sync(timeout=60)
    else:

        async def both() -> Any:
            waits = asyncio.create_task(task.wait(timeout=60))
            await asyncio.sleep(0)
            worker.start()
            return await waits

        ended = asyncio.run(both())
    worker.join()
    assert ended.result == Report(3)


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 0.02])
def test_waiting_gives_up_in_time_and_changes_nothing(app, timeout):
    """Spec: D3"""
    task = declare(app).submit_sync(3)
    before = task.record_sync()
    with pytest.raises(TimeoutError, match=f"task {task.id} has not ended after {timeout:g} s"):
        task.wait_sync(timeout=timeout)
    with pytest.raises(TimeoutError, match="has not ended"):
        asyncio.run(task.wait(timeout=timeout))
    assert task.record_sync() == before


@pytest.mark.parametrize("waiting", ["wait", "wait_sync"])
def test_who_waits_in_vain_is_told_where_the_task_stands(app, waiting):
    """Spec: D3"""

    def message() -> str:
        with pytest.raises(TimeoutError) as raised:
            asyncio.run(task.wait(timeout=0)) if waiting == "wait" else task.wait_sync(timeout=0)
        return str(raised.value)

    task = declare(app).submit_sync(3)
    assert message() == (
        f"task {task.id} has not ended after 0 s: it is queued; no worker or agent for scan is running"
    )
    [execution] = start(app.store)
    assert message() == f"task {task.id} has not ended after 0 s: it has started and is running"
    settle(app.store, execution, Returned())


def test_a_task_is_found_again_by_its_id_and_its_result_is_typed(app):
    """Spec: D3, X6"""
    scan = declare(app)
    made = scan.submit_sync(3)
    for handle in (app.get(made.id), scan.get(made.id)):
        assert (handle.id, handle.created) == (made.id, False)
        assert handle.record_sync() == asyncio.run(handle.record()) == made.record_sync()
    finish(app, Returned('{"pages": 3}'))
    assert app.get(made.id).wait_sync(0).result == scan.get(made.id).wait_sync(0).result == Report(3)


def test_the_result_of_a_type_that_the_program_does_not_have_is_plain_json(app, url):
    """Spec: X6"""
    made = declare(app).submit_sync(3)
    finish(app, Returned('{"pages": 3}'))
    other = Headgate(url)
    assert other.get(made.id).wait_sync(0).result == {"pages": 3}
    other.close()


def test_a_handle_is_read_when_it_is_used(app):
    """Spec: D3"""

    @app.task
    def pack() -> None: ...

    with pytest.raises(NotFound, match="4711"):
        app.get(4711).wait_sync(0)
    scan = declare(app)
    made = scan.submit_sync(3)
    with pytest.raises(Invalid, match=f"task {made.id} is of type scan, not pack"):
        pack.get(made.id).wait_sync(0)
    app.get(made.id).cancel_sync()
    with pytest.raises(Refused):
        asyncio.run(app.get(made.id).snooze(60))


def test_a_failure_says_how_the_task_ended(app):
    """Spec: D3, B7"""
    task = declare(app).submit_sync(3)
    finish(app, Raised("no such page"))
    ended = task.wait_sync(0)
    assert (ended.status, ended.succeeded, ended.error) == (State.DEAD, False, "no such page")
    with pytest.raises(TaskFailed, match=f"task {task.id} is dead: no such page") as failure:
        _ = ended.result
    assert failure.value.ended is ended


@pytest.mark.parametrize("way", ["cancel", "cancel_sync"])
def test_a_task_can_be_cancelled_by_whoever_submitted_it(app, way):
    """Spec: D3"""
    task = declare(app).submit_sync(3)
    if way == "cancel":
        asyncio.run(task.cancel("changed my mind"))
    else:
        task.cancel_sync("changed my mind")
    ended = task.wait_sync(0)
    assert ended.status is State.CANCELLED
    with pytest.raises(TaskFailed, match="cancelled"):
        _ = ended.result
    assert start(app.store) == []
