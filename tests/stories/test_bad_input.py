"""Bad input at the front door and out of handlers: a clear error for whoever made it, and nothing for the others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.core.errors import HeadgateError, Invalid
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.worker.context import context
from tests.worker.conftest import app, working

__all__ = ["app"]
OVERSIZED = "x" * 300 * 1024
BAD_CALLS: dict[str, Callable[[Any], Any]] = {
    "an argument too many": lambda task: task.call("a", "b"),
    "none at all": lambda task: task.call(),
    "one of another kind": lambda task: task.call(1),
    "no JSON": lambda task: task.call(object()),
    "a function": lambda task: task.call(Path("x").stat),
    "oversized": lambda task: task.call(OVERSIZED),
    "a lone surrogate": lambda task: task.call("\ud800"),
    "a lane with a NUL": lambda task: task.using(lane="a\0b").call("a"),
    "a mutex with a surrogate": lambda task: task.using(mutex="\udfff").call("a"),
    "a tenant beyond 64 bits": lambda task: task.using(tenant_id=1 << 64).call("a"),
}
BAD_ENDS: dict[str, Callable[[], Any]] = {
    "no JSON": lambda: object(),
    "oversized": lambda: OVERSIZED,
    "a lone surrogate": lambda: "\ud800",
    "a set of things": lambda: {"n": {1, object()}},
}


@pytest.mark.parametrize("bad", BAD_CALLS)
def test_a_bad_call_is_refused_and_nothing_of_its_batch_is_made(app: Headgate, bad: str):
    """Spec: B1, B5"""

    @app.task
    async def read(text: str) -> str:
        return text

    before = read.submit_sync("before")
    with pytest.raises(Invalid) as refused:
        app.submit_many_sync([read.call("good"), BAD_CALLS[bad](read), read.call("good")])
    assert len(str(refused.value)) > len("invalid")
    assert [task.id for task in app.store.tasks.find().items] == [before.id]
    with working(app):
        assert before.wait_sync(120).result == "before"


def test_a_type_nobody_knows_is_refused_and_a_near_one_is_named(app: Headgate):
    """Spec: B5"""

    @app.task
    async def transcode() -> None: ...

    with pytest.raises(Invalid, match="transcode"):
        app.store.tasks.submit_many([NewTask("transcode"), NewTask("transcoed")])
    assert app.store.tasks.find().items == []


@pytest.mark.parametrize("bad", BAD_ENDS)
def test_a_bad_result_fails_its_own_task_among_many_that_end_together(app: Headgate, bad: str):
    """Spec: D3"""

    @app.task
    async def end(badly: bool) -> Any:
        return BAD_ENDS[bad]() if badly else "good"

    with working(app):
        tasks = app.submit_many_sync([end.call(number == 7) for number in range(20)])
        ends = [task.wait_sync(120) for task in tasks]
    assert [number for number, ended in enumerate(ends) if ended.status is not State.SUCCEEDED] == [7]
    assert "the handler's result cannot be stored" in (ends[7].error or "")


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 1_000_000])
def test_an_error_or_a_log_line_no_store_could_keep_is_kept_as_far_as_it_can_be(app: Headgate, text: str):
    """Spec: D3"""

    @app.task
    async def fail(badly: bool) -> None:
        if badly:
            await context().log(text)
            raise ValueError(text)

    with working(app):
        tasks = app.submit_many_sync([fail.call(number == 3) for number in range(8)])
        ends = [task.wait_sync(120) for task in tasks]
    assert [number for number, ended in enumerate(ends) if ended.status is not State.SUCCEEDED] == [3]
    assert ends[3].status is State.FAILED
    assert (ends[3].error or "").startswith("ValueError: ")
    assert len(app.store.executions.log(tasks[3].id)) == 1


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 300])
def test_a_checkpoint_no_store_could_keep_fails_where_it_is_made(app: Headgate, name: str):
    """Spec: A2"""

    @app.task
    async def save() -> str:
        try:
            await context().checkpoint(name, 1)
        except HeadgateError as error:
            return error.kind
        return "saved"

    with working(app):
        assert save.submit_sync().wait_sync(120).result == "invalid"
