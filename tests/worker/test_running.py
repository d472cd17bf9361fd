"""How handlers run: on the loop, in threads, in processes; and what comes of what they give back or raise."""

import asyncio
import os
import threading
from contextlib import closing
from typing import Any

import pytest

from headgate.app import Headgate
from headgate.client import TaskFailed
from headgate.core.limits import Rate
from headgate.core.retry import Fatal, Retry, fixed
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.settings import Settings
from headgate.store.claim.visits import MOST_STREAMS
from headgate.worker.context import context
from headgate.worker.run import Snooze
from tests.worker.conftest import working


def test_an_async_handler_runs_on_the_loop_and_its_result_is_kept(app: Headgate):
    """Spec: D3"""

    @app.task
    async def add(a: int, b: int = 2) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"sum": a + b}

    with working(app):
        ended = add.submit_sync(1).wait_sync(120)
    assert (ended.status, ended.result) == (State.SUCCEEDED, {"sum": 3})


def test_a_plain_handler_runs_in_a_thread_of_its_own(app: Headgate):
    """Spec: D3"""

    @app.task
    def where() -> str:
        return threading.current_thread().name

    with working(app):
        assert where.submit_sync().wait_sync(120).result.startswith("headgate task")


def test_many_handlers_run_at_once_up_to_the_slots_there_are(app: Headgate):
    together = threading.Barrier(4)

    @app.task
    def meet() -> None:
        together.wait(60)

    with working(app, threads=4):
        tasks = app.submit_many_sync([meet.call() for _ in range(8)])
        assert {task.wait_sync(120).status for task in tasks} == {State.SUCCEEDED}


def test_what_a_handler_raises_is_told_with_its_stack(app: Headgate):
    """Spec: A12"""

    @app.task
    async def divide(by: int) -> float:
        return 1 / by

    with working(app):
        ended = divide.submit_sync(0).wait_sync(120)
    assert ended.status is State.FAILED
    assert ended.error is not None
    assert ended.error.startswith("ZeroDivisionError: division by zero\n")
    assert "return 1 / by" in ended.error
    with pytest.raises(TaskFailed, match="ZeroDivisionError"):
        assert ended.result


def test_a_fatal_error_is_not_tried_again_and_a_retryable_one_is(app: Headgate):
    """Spec: A5, D4"""
    tries: list[str] = []

    @app.task(retry=fixed(0, retries=5))
    async def hopeless() -> None:
        tries.append("hopeless")
        raise Fatal("no use")

    @app.task(retry=fixed(0, retries=2))
    async def shaky() -> None:
        tries.append("shaky")
        raise ConnectionError("again")

    with working(app, due=True):
        assert hopeless.submit_sync().wait_sync(120).status is State.FAILED
        assert shaky.submit_sync().wait_sync(120).status is State.FAILED
    assert tries == ["hopeless", "shaky", "shaky", "shaky"]


def test_a_handler_may_ask_to_run_again_as_an_answer_or_an_exception(app: Headgate):
    """Spec: D4, X2"""

    @app.task(retry=fixed(60, retries=3))
    async def patient() -> Any:
        match context().attempt:
            case 1:
                return Snooze(0)
            case 2:
                return Retry("not yet", delay=0)
            case 3:
                raise Retry(delay=0)
        return "at last"

    with working(app, due=True):
        task = patient.submit_sync()
        assert task.wait_sync(120).result == "at last"
    assert task.record_sync().error_count == 2  # a snooze is no error
    assert task.record_sync().attempt == 4


@pytest.mark.parametrize("result", [object(), {"x": {1: object()}}, "x" * 300_000, float])
def test_a_result_that_cannot_be_kept_fails_its_task_and_no_other(app: Headgate, result: Any):
    """Spec: D3"""

    @app.task(retry=fixed(0, retries=3))
    async def odd() -> Any:
        return result

    @app.task
    async def good() -> str:
        return "fine"

    with working(app):
        tasks = app.submit_many_sync([good.call(), odd.call(), good.call()])
        ends = [task.wait_sync(120) for task in tasks]
    assert [end.status for end in ends] == [State.SUCCEEDED, State.FAILED, State.SUCCEEDED]
    assert "the handler's result cannot be stored" in (ends[1].error or "")


def test_arguments_a_handler_does_not_understand_make_a_dead_letter_with_a_clear_error(app: Headgate):
    """Spec: Conflicts, settled (Arguments that no longer fit the handler)"""

    @app.task
    async def strict(n: int) -> int:
        return n

    with working(app):
        made = app.store.tasks.submit(NewTask("strict", ext='{"n": "three", "m": 1}'))
        task = strict.submit_sync(1)
        task.wait_sync(120)
        bad = app.store.tasks.get(made.id)
    assert bad.status is State.DEAD
    assert "argument n: Expected `int`, got `str`" in (bad.error_info or "")
    assert [attempt.reason for attempt in app.store.attempts.of(made.id)] == ["arguments"]


def test_what_is_not_retried_says_why_in_the_log(app: Headgate, caplog: pytest.LogCaptureFixture):
    """Spec: A5"""

    class Refused(RuntimeError): ...

    @app.task(retry=fixed(60, retries=3), fatal=[Refused])
    async def ends(kind: str) -> None:
        raise Refused("no") if kind == "fatal" else ValueError("no")

    @app.task
    async def once() -> None:
        raise ConnectionError("gone")

    with working(app):
        for task in (ends.submit_sync("fatal"), ends.submit_sync("value"), once.submit_sync()):
            task.wait_sync(120)
    assert [line.partition(" error=")[2] for line in caplog.messages if line.startswith("task failed: ")] == [
        "Refused: no (not retried: errors of this class are never retried)",
        "ValueError: no (not retried: errors of this class are never retried)",
        "ConnectionError: gone (not retried: it has no retries)",
    ]


def test_a_handler_that_cancels_itself_has_failed_and_the_worker_goes_on(app: Headgate):
    @app.task
    async def quits() -> None:
        raise asyncio.CancelledError

    @app.task
    def exits() -> None:
        raise SystemExit(3)

    @app.task
    async def good() -> None: ...

    with working(app):
        assert quits.submit_sync().wait_sync(120).status is State.FAILED
        assert exits.submit_sync().wait_sync(120).status is State.FAILED
        assert good.submit_sync().wait_sync(120).status is State.SUCCEEDED


def test_the_context_is_there_inside_a_task_only(app: Headgate):
    @app.task
    async def who() -> list[Any]:
        here = context()
        return [here.task_id, here.attempt, here.correlation_id, here.creator, here.tenant_id, len(here.exec_id)]

    with working(app):
        task = who.using(correlation_id="c-1", creator=7).submit_sync()
        assert task.wait_sync(120).result == [task.id, 1, "c-1", 7, 0, 36]
    with pytest.raises(LookupError, match="no task is running here"):
        context()


def test_a_log_line_of_an_unknown_level_is_refused_with_those_there_are(app: Headgate):
    """Spec: D3"""
    loud: Any = "loud"

    @app.task
    def shout() -> None:
        context().log("hey", level=loud)

    with working(app):
        ended = shout.submit_sync().wait_sync(120)
    assert "log: the level must be one of debug, info, warning, error, critical, not 'loud'" in (ended.error or "")


def test_progress_and_log_lines_are_kept_and_the_last_progress_is_never_skipped(app: Headgate):
    """Spec: A12, D3"""

    @app.task
    async def steps() -> None:
        for done in range(50):
            await context().progress(done, 50, "counting")
        await context().log("halfway", level="warning")
        context().progress(50, 50)  # not even awaited

    @app.task
    def steps_in_a_thread() -> None:
        for done in range(51):
            context().progress(done, 50)
        context().log("there")

    with working(app):
        tasks = [steps.submit_sync(), steps_in_a_thread.submit_sync()]
        assert {task.wait_sync(120).status for task in tasks} == {State.SUCCEEDED}
    assert [task.record_sync().progress for task in tasks] == ['{"done":50,"total":50}'] * 2
    assert [(line.level, line.message) for line in app.store.executions.log(tasks[0].id)] == [("warning", "halfway")]
    assert [line.message for line in app.store.executions.log(tasks[1].id)] == ["there"]


def test_children_submitted_by_a_handler_end_before_their_parent(app: Headgate):
    """Spec: D7"""

    @app.task
    async def child(n: int) -> int:
        if n == 2:
            raise Fatal("two")
        return n

    @app.task
    async def parent() -> str:
        made = await context().submit_many([child.call(n) for n in range(3)])
        one = await context().submit(child.call(9))
        return f"{len(made)} and {one.id > made[-1].id}"

    @app.task
    def parent_in_a_thread() -> int:
        return len(context().submit_many([child.call(0), child.call(1)]).result())

    with working(app):
        task = parent.using(correlation_id="family").submit_sync()
        ended = task.wait_sync(120)
        assert (ended.status, ended.result) == (State.PARTIAL, "3 and True")
        assert parent_in_a_thread.submit_sync().wait_sync(120).result == 2
    children = [app.store.tasks.get(task.id + n) for n in (1, 2, 3, 4)]
    assert {(child.parent_id, child.correlation_id) for child in children} == {(task.id, "family")}


def test_a_process_of_its_own_runs_the_handler_and_reports_like_any_other(app: Headgate, monkeypatch):
    """Spec: A11, D3"""
    monkeypatch.setenv("HEADGATE_URL", app._settings.url)
    from tests.worker import heavy

    app = heavy.bound_to(app)
    with working(app):
        task = heavy.weigh.submit_sync(3)
        ended = task.wait_sync(60)
        assert ended.status is State.SUCCEEDED, ended.error
        assert ended.result["n"] == 3
        assert ended.result["pid"] != os.getpid()
        assert heavy.weigh_async.submit_sync(4).wait_sync(60).result == 4
        assert (heavy.fail_there.submit_sync().wait_sync(60).error or "").startswith("ValueError: bad weight")
        family = heavy.breed.submit_sync()
        assert family.wait_sync(60).status is State.SUCCEEDED
    assert task.record_sync().progress == '{"done":3,"total":10}'
    assert [line.message for line in app.store.executions.log(task.id)] == ["weighing"]
    assert app.store.executions.checkpoints(task.id) == {"at": "3"}


def test_a_worker_looks_into_all_streams_though_nothing_wakes_it(url: str):
    """Spec: X12, A4"""
    with closing(Headgate(settings=Settings(url=url, poll_seconds=600.0))) as app:

        @app.task
        def late() -> None: ...

        @app.task
        def find() -> None: ...

        found = find.submit_sync()
        app.store.rate_limits.set("lane:slow", Rate(0.0001, 1))
        others = [NewTask("late", lane="slow", rate_key=f"key {n}") for n in range(5 * MOST_STREAMS)]
        for first in range(0, len(others), 100):
            app.store.tasks.submit_many(others[first : first + 100])
        with working(app):
            assert found.wait_sync(60).status is State.SUCCEEDED
