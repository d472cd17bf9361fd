"""A user's tests: their tasks run in memory, in order, at the time the test says, as a worker would run them."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import headgate
import headgate.testing
from headgate import Event, Fatal, Headgate, State
from headgate.core.errors import Invalid, NotFound
from headgate.core.limits import Rate
from headgate.core.task import NewTask
from headgate.settings import Settings
from headgate.store.store import open_store
from headgate.testing import MOST_EXECUTIONS, Ran, sandbox
from tests.app.connections import SYNC, bare

S = State
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def app(tmp_path):
    made = Headgate(settings=Settings(url=f"sqlite:///{tmp_path}/own.db"))
    yield made
    made.close()


@pytest.fixture
def box(app):
    with sandbox(app, now=START) as made:
        yield made


def outcomes(ran):
    return [(one.type, one.status) for one in ran]


def double(number: int) -> int:
    return asyncio.run(asyncio.sleep(0, 2 * number))  # no event loop runs here


async def triple(number: int) -> int:
    await asyncio.sleep(0)
    return 3 * number


# where


def test_nothing_of_the_apps_own_store_is_touched(app, tmp_path):
    """Spec: X5"""

    @app.task
    def plain() -> None: ...

    with sandbox(app) as box:
        plain.submit_sync()
        assert outcomes(box.drain()) == [("plain", S.SUCCEEDED)]
    assert list(tmp_path.iterdir()) == []


def test_the_app_has_its_own_store_again_afterwards(app):
    """Spec: X5"""

    @app.task
    def plain() -> None: ...

    first = plain.submit_sync()
    with sandbox(app) as box:
        inside = [plain.submit_sync().id for _ in range(3)][-1]
        assert len(box.drain()) == 3
    assert app.store.tasks.get(first.id).status is S.QUEUED
    with pytest.raises(NotFound):
        app.store.tasks.get(inside)
    assert plain.submit_sync().id == first.id + 1


def test_a_sandbox_in_a_sandbox_leads_back_to_the_first(app, box):
    """Spec: X5"""

    @app.task
    def plain() -> None: ...

    plain.submit_sync()
    with sandbox(app) as inner:
        assert inner.drain() == []
    assert app.store is box.store
    assert outcomes(box.drain()) == [("plain", S.SUCCEEDED)]


def test_a_store_that_was_bound_is_bound_again_even_after_an_error(app):
    """Spec: X5"""
    with open_store("sqlite://") as bound:
        bound.migrate()
        app.bind(bound)
        with pytest.raises(ZeroDivisionError), sandbox(app):
            raise ZeroDivisionError
        assert app.store is bound


# what


@pytest.mark.parametrize("isolation", [None, "process"])
def test_functions_and_coroutines_run_and_their_answers_are_kept(app, box, isolation):
    """Spec: X5, D3"""

    declare = app.task(isolation=isolation)
    tasks = [declare(double).submit_sync(7), declare(triple).submit_sync(number=7)]
    assert box.drain() == [Ran(tasks[0].id, "double", S.SUCCEEDED), Ran(tasks[1].id, "triple", S.SUCCEEDED)]
    assert [task.wait_sync(timeout=0).result for task in tasks] == [14, 21]


def test_tasks_run_in_order_of_priority_then_creation(app, box):
    """Spec: X5, A4"""

    @app.task
    def plain() -> None: ...

    last, second, third = (plain.using(priority=priority).submit_sync() for priority in (9, 5, 5))
    first = plain.using(priority=1, mutex="m").submit_sync()
    assert [ran.id for ran in box.drain()] == [first.id, second.id, third.id, last.id]
    assert box.drain() == []


def test_handlers_find_their_context(app, box):
    """Spec: X5, D3"""

    @app.task
    def speak() -> int:
        context = headgate.context()
        context.log("hello")
        for done in range(1, 4):
            context.progress(done, total=3)
        context.checkpoint("page", context.restore("page", 0) + 1)
        return context.task_id

    @app.task
    async def speak_too() -> str:
        context = headgate.context()
        context.log("not waited for")
        for done in range(1, 4):
            await context.progress(done, total=3)
        await context.checkpoint("page", 1)
        return context.exec_id

    tasks = [speak.submit_sync(), speak_too.submit_sync()]
    assert outcomes(box.drain()) == [("speak", S.SUCCEEDED), ("speak_too", S.SUCCEEDED)]
    for task in tasks:
        assert task.record_sync().progress == '{"done":3,"total":3}'
        assert len(box.store.executions.log(task.id)) == 1
        assert box.store.executions.checkpoints(task.id) == {"page": "1"}
    with pytest.raises(LookupError):
        headgate.context()


def test_children_run_and_the_family_is_closed(app, box):
    """Spec: X5, D7"""

    @app.task
    def child(number: int) -> None:
        if number == 2:
            raise headgate.Fatal("no")

    @app.task
    async def parent() -> None:
        await headgate.context().submit_many([child.call(number) for number in range(3)])

    task = parent.submit_sync()
    assert outcomes(box.drain()) == [
        ("parent", S.WAITING), ("child", S.SUCCEEDED), ("child", S.SUCCEEDED), ("child", S.FAILED),
    ]  # fmt: skip
    assert task.record_sync().status is S.PARTIAL


def test_what_handlers_submit_by_the_app_runs_too(app, box):
    """Spec: X5"""

    @app.task
    def after() -> None: ...

    @app.task
    async def before() -> None:
        await after.submit()

    before.submit_sync()
    assert outcomes(box.drain()) == [("before", S.SUCCEEDED), ("after", S.SUCCEEDED)]


@pytest.mark.parametrize(
    ("error", "status", "error_line"),
    [
        (ConnectionError("gone"), S.RETRYING, "ConnectionError: gone"),
        (ValueError("bad"), S.FAILED, "ValueError: bad"),
        (headgate.Fatal("never"), S.FAILED, "Fatal: never"),
    ],
)
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_errors_are_told_apart_as_in_a_worker(app, box, kind, error, status, error_line):
    """Spec: X5, A5"""
    if kind == "function":

        @app.task(retry=headgate.fixed(10, retries=1))
        def fails() -> None:
            raise error
    else:

        @app.task(retry=headgate.fixed(10, retries=1))
        async def fails() -> None:
            raise error

    task = fails.submit_sync()
    assert box.drain() == [Ran(task.id, "fails", status, error_line)]
    assert task.record_sync().error_count == 1


def test_a_task_whose_arguments_its_handler_does_not_understand_ends_dead(app, box):
    """Spec: X5, D3"""

    @app.task
    def plain(number: int) -> None: ...

    app.store.tasks.submit(NewTask("plain", ext='{"number": "seven"}'))
    [ran] = box.drain()
    assert (ran.status, ran.error and ran.error.split(":")[0]) == (S.DEAD, "BadArguments")


def test_a_pause_takes_hold_at_a_checkpoint_and_the_task_goes_on_from_there(app, box):
    """Spec: X5, A2"""
    seen = []

    @app.task
    def pages() -> None:
        context = headgate.context()
        for page in range(context.restore("page", 0), 3):
            seen.append(page)
            if page == 1 and context.attempt == 1:
                box.store.tasks.pause(context.task_id)
            context.checkpoint("page", page + 1)

    task = pages.submit_sync()
    assert outcomes(box.drain()) == [("pages", S.PAUSED)]
    box.store.tasks.resume(task.id)
    assert outcomes(box.drain()) == [("pages", S.SUCCEEDED)]
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_cancel_reaches_a_running_handler_at_its_next_report(app, box, kind):
    """Spec: X5, B8"""
    if kind == "function":

        @app.task
        def ends() -> None:
            box.store.tasks.cancel(headgate.context().task_id)
            headgate.context().log("one more line")
            raise AssertionError("it goes on")
    else:

        @app.task
        async def ends() -> None:
            box.store.tasks.cancel(headgate.context().task_id)
            await headgate.context().log("one more line")
            await asyncio.sleep(3600)

    ends.submit_sync()
    assert outcomes(box.drain()) == [("ends", S.CANCELLED)]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_handler_that_exits_has_failed_as_in_a_worker_and_the_test_goes_on(app, box, kind):
    """Spec: X5"""

    def function() -> None:
        sys.exit(3)

    async def coroutine() -> None:
        await asyncio.sleep(0)
        sys.exit(3)

    task = app.task(code="leaves")(function if kind == "function" else coroutine).submit_sync()
    after = app.task(triple).submit_sync(2)
    assert box.drain() == [Ran(task.id, "leaves", S.FAILED, "SystemExit: 3"), Ran(after.id, "triple", S.SUCCEEDED)]


# what was submitted


def test_what_was_submitted_is_found_by_its_arguments_whatever_became_of_it(app, box):
    """Spec: X5"""

    @app.task
    def download(subscription_id: int, url: str = "here", parts: list[int] | None = None) -> str:
        return url

    first = download.submit_sync(7, "there", parts=[1, 2])
    last = download.submit_sync(subscription_id=7)
    box.drain()
    assert [task.id for task in box.submitted(download)] == [first.id, last.id]
    assert box.assert_submitted(download).id == box.assert_submitted(download, subscription_id=7).id == last.id
    assert box.assert_submitted(download, url="here").wait_sync(0).result == "here"
    assert box.assert_submitted(download, parts=[1, 2]).id == first.id
    box.assert_not_submitted(download, subscription_id=8)
    with pytest.raises(AssertionError, match=r"download\(url='here'\) was submitted: task 2"):
        box.assert_not_submitted(download, url="here")
    with pytest.raises(AssertionError) as missing:
        box.assert_submitted(download, subscription_id=8)
    assert str(missing.value) == (
        "download(subscription_id=8) was not submitted, but download(url='there', parts=[1, 2], subscription_id=7), "
        "download(url='here', parts=None, subscription_id=7)"
    )
    with pytest.raises(Invalid, match="download has no argument subscription"):
        box.assert_not_submitted(download, subscription=7)


def test_more_tasks_than_a_page_holds_are_found(app, box):
    """Spec: X5"""
    double_task = app.task(double)
    with pytest.raises(AssertionError, match=r"double\(\) was not submitted, but no double"):
        box.assert_submitted(double_task)
    app.submit_many_sync([double_task.call(number) for number in range(120)])
    assert len(box.submitted(double_task)) == 120
    assert box.assert_submitted(double_task, number=0).id == 1


# in a transaction of the test's own


@pytest.mark.parametrize("connect", SYNC)
def test_a_task_of_the_tests_own_transaction_runs_if_it_was_committed(app, url, connect):
    """Spec: X5, X1"""
    place = bare(url)
    declared = app.task(double)
    with sandbox(app, url=place, now=START) as box, connect(place) as connection:
        app.submit_in(connection, declared.call(1))
        connection.rollback()
        assert box.drain() == []
        kept = app.submit_in(connection, declared.call(2))
        connection.commit()
        assert box.drain() == [Ran(kept.id, "double", S.SUCCEEDED)]
        assert box.assert_submitted(declared).id == kept.id
        box.assert_not_submitted(declared, number=1)


def test_a_sandbox_leaves_nothing_behind_on_a_server(app, postgres_url):
    """Spec: X5"""
    with psycopg.connect(bare(postgres_url), autocommit=True) as connection:
        with sandbox(app, url=bare(postgres_url)) as box:
            schema = box.store.database.schema  # type: ignore[attr-defined]
            exists = f"SELECT to_regnamespace('{schema}') IS NOT NULL"
            assert connection.execute(exists).fetchone() == (True,)
        assert connection.execute(exists).fetchone() == (False,)


def test_a_file_with_tasks_of_somebodys_is_left_alone(app, tmp_path):
    """Spec: X5"""
    made = app.task(double).submit_sync(1)
    with pytest.raises(Invalid, match="a sandbox needs a database without tasks"), sandbox(app, url=app._settings.url):
        raise AssertionError
    assert app.get(made.id).record_sync().status is S.QUEUED


def test_a_sandbox_in_memory_says_how_to_test_a_transaction(app, box):
    """Spec: X5, X1"""
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(Invalid, match=r"sandbox\(app, url=…\)"):
        app.submit_in(connection, app.task(double).call(1))


def test_the_tests_own_way_out_is_not_taken_for_a_failure(app, box):
    """Spec: X5"""

    @app.task
    def plain() -> None:
        raise KeyboardInterrupt

    plain.submit_sync()
    with pytest.raises(KeyboardInterrupt):
        box.drain()


def test_a_task_that_repeats_itself_for_ever_is_noticed(app, box, monkeypatch):
    """Spec: X5"""
    monkeypatch.setattr(headgate.testing, "MOST_EXECUTIONS", 10)
    assert MOST_EXECUTIONS == 10_000

    @app.task
    def again() -> headgate.Snooze:
        return headgate.Snooze(0)

    again.submit_sync()
    with pytest.raises(RuntimeError, match="10 executions"):
        box.drain()


def test_what_nobody_here_handles_stays(app, box):
    """Spec: X5"""

    @app.task
    def plain() -> None: ...

    made = app.store.tasks.submit(NewTask("plain", agent_id="elsewhere"))
    assert box.drain(through=3600) == []
    assert box.store.tasks.get(made.id).status is S.QUEUED


# when


def test_delayed_tasks_wait_for_the_clock_of_the_box(app, box):
    """Spec: X5"""
    times = []

    @app.task
    def plain() -> None:
        times.append(box.now)

    plain.using(delay_seconds=10).submit_sync()
    assert box.drain() == []
    box.advance(9.5)
    assert box.drain() == []
    box.advance(0.5)
    assert len(box.drain()) == 1
    assert times == [START + timedelta(seconds=10)]


def test_time_goes_by_from_one_start_time_to_the_next(app, box):
    """Spec: X5, D5"""
    times = []

    @app.task(retry=headgate.sequence([10, 20, 30]))
    async def stubborn() -> None:
        times.append((box.now - START).total_seconds())
        raise ConnectionError

    @app.task
    def late() -> None:
        times.append((box.now - START).total_seconds())

    stubborn.submit_sync()
    late.using(delay_seconds=15).submit_sync()
    assert outcomes(box.drain(through=59)) == [
        ("stubborn", S.RETRYING), ("stubborn", S.RETRYING), ("late", S.SUCCEEDED), ("stubborn", S.RETRYING),
    ]  # fmt: skip
    assert box.now == START + timedelta(seconds=59)
    assert outcomes(box.drain(through=1)) == [("stubborn", S.FAILED)]
    assert times == [0, 10, 15, 30, 60]
    assert box.drain(through=10**6) == []
    assert box.now == START + timedelta(seconds=60 + 10**6)


def test_a_rate_limit_lets_tasks_through_as_time_goes_by(app, box):
    """Spec: X5, D8"""
    times = []

    @app.task(rate_key="slow")
    def plain() -> None:
        times.append(round((box.now - START).total_seconds()))

    box.store.rate_limits.set("key:slow", Rate(0.1, 1))
    for _ in range(3):
        plain.submit_sync()
    assert len(box.drain()) == 1
    assert len(box.drain(through=60)) == 2
    assert times == [0, 10, 20]


def test_years_go_by_and_the_box_still_works(app, box):
    """Spec: X5"""

    @app.task
    def plain() -> None: ...

    box.advance(10 * 365 * 86400)
    task = plain.submit_sync()
    assert [gate.name for gate in box.store.tasks.why(task.id) if not gate.open] == []
    assert outcomes(box.drain()) == [("plain", S.SUCCEEDED)]


def test_time_starts_now_unless_it_is_told(app):
    """Spec: X5"""
    with sandbox(app) as box:
        assert abs(datetime.now(UTC) - box.now) < timedelta(minutes=5)


def test_time_goes_forward_and_has_a_zone(app, box):
    """Spec: X5"""
    with pytest.raises(Invalid):
        box.advance(-1)
    with pytest.raises(Invalid):
        box.drain(through=-1)
    with pytest.raises(Invalid), sandbox(app, now=datetime(2026, 1, 1)):  # noqa: DTZ001 that is the point
        pass


# from where


def test_an_async_test_drains_just_the_same(app, box):
    """Spec: X5"""

    @app.task
    async def one() -> None:
        await two.submit()

    @app.task
    def two() -> int:
        return asyncio.run(asyncio.sleep(0, 2))

    async def scene():
        await one.submit()
        return box.drain()

    assert outcomes(asyncio.run(scene())) == [("one", S.SUCCEEDED), ("two", S.SUCCEEDED)]


def test_coroutines_share_one_event_loop_for_as_long_as_the_box_lives(app, box):
    """Spec: X5"""
    loops = []

    @app.task
    async def plain() -> None:
        loops.append(asyncio.get_running_loop())

    for _ in range(2):
        plain.submit_sync()
        box.drain()
    assert loops[0] is loops[1]


def test_a_sandbox_calls_listeners_and_runs_what_they_submit():
    """Spec: X9"""
    app = Headgate("sqlite://")
    heard: list[tuple[str, str]] = []

    @app.task
    def clean_up() -> None: ...

    @app.task
    def download() -> None:
        raise Fatal("no such host")

    @app.on("task.failed", types=["download"])
    def note(event: Event) -> None:
        heard.append((event.kind, event.detail["error"]))
        clean_up.submit_sync()

    @app.on("task.completed")
    async def note_later(event: Event) -> None:
        heard.append((event.kind, event.type))

    with sandbox(app) as box:
        download.submit_sync()
        assert [ran.type for ran in box.drain()] == ["download", "clean_up"]
        assert heard == [("failed", "Fatal: no such host"), ("completed", "clean_up")]
        box.drain()
        assert len(heard) == 2, "each event once"


def test_a_sandbox_raises_what_a_listener_raises():
    """Spec: X9"""
    app = Headgate("sqlite://")

    @app.task
    def download() -> None: ...

    @app.on("task.completed")
    def note(event: Event) -> None:
        raise KeyError(event.type)

    with sandbox(app) as box:
        download.submit_sync()
        with pytest.raises(KeyError, match="download"):
            box.drain()


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_a_handler_holds_a_resource_in_a_sandbox_too(kind):
    """Spec: C3"""
    app = Headgate("sqlite://")

    async def aware() -> None:
        async with headgate.context().hold("disc"), headgate.context().hold("other"):
            pass

    def plain() -> None:
        with headgate.context().hold("disc"), headgate.context().hold("other"):
            pass

    @app.task(uses=["other"])
    def behind() -> None: ...

    hold = app.task(aware if kind == "coroutine" else plain)
    with sandbox(app) as box:
        hold.submit_sync()
        behind.submit_sync()
        assert [ran.status for ran in box.drain()] == [State.SUCCEEDED] * 2
        box.store.resources.set("disc", 0)
        hold.submit_sync()
        [failed] = box.drain()
    assert failed.error == "TimeoutError: resource disc was not free within 0 s"
