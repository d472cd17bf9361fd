"""Listeners are called with each event at least once, by one process at a time, and go on where they were."""

import asyncio
import threading
from contextlib import contextmanager
from typing import Any

import pytest

import headgate.worker.listeners as runner
from headgate import Event
from headgate.core.machine import Raised, Returned
from headgate.core.task import NewTask, TaskType
from headgate.pauses import Backoff
from headgate.settings import Settings
from headgate.worker.listeners import listening
from tests.factories import running, settle, start
from tests.worker.conftest import until, working


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No long pauses between tries."""
    monkeypatch.setattr(runner, "BETWEEN_TRIES", Backoff(0.01, 0.02))
    monkeypatch.setattr(runner.ListenerService, "pause", 0.02)


@pytest.fixture
def store(app):
    for code in ("download", "other"):
        app.store.types.put(TaskType(code))
    return app.store


@contextmanager
def listeners_of(app, **settings: Any):
    """A process that calls the app's listeners meanwhile."""
    options = {"url": app._settings.url, "beat_seconds": 0.1, "lease_seconds": 30.0} | settings
    ready, end = threading.Event(), threading.Event()

    async def live() -> None:
        async with listening(list(app._listeners), app.store, Settings(**options)):
            ready.set()
            await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    ready.wait()
    try:
        names = {listener.name for listener in app._listeners}
        until(lambda: {each.name for each in app.store.subscriptions.all()} >= names)
        yield
    finally:
        end.set()
        thread.join(60)
        assert not thread.is_alive()


def subscription(store, name="note"):
    return next(each for each in store.subscriptions.all() if each.name == name)


def fail(store, type_code="download", error="no such host"):
    execution = running(store, type_code)
    settle(store, execution, Raised(error))
    return execution.id


@pytest.mark.parametrize("kind", ["async", "def"])
def test_a_listener_gets_the_events_it_wants_and_no_others(app, store, kind):
    """Spec: X9, D6"""
    heard: list[Event] = []
    if kind == "async":

        @app.on("task.failed", types=["download"])
        async def note(event: Event) -> None:
            heard.append(event)
    else:

        @app.on("task.failed", types=["download"])
        def note(event: Event) -> None:
            heard.append(event)

    fail(store)
    with listeners_of(app):
        settle(store, running(store, "download"), Returned())
        fail(store, "other")
        task_id = fail(store)
        until(lambda: len(heard) == 1)
        until(lambda: subscription(store).handled == 1)
    [event] = heard
    [row] = [row for row in store.events.of(task_id) if row.kind == "failed"]
    assert (event.id, event.kind, event.task_id, event.type) == (row.id, "failed", task_id, "download")
    assert (event.time, event.before, event.after) == (row.at, "running", "failed")
    assert isinstance(event.detail, dict)


def test_the_events_of_a_task_come_in_the_order_in_which_they_happened(app, store):
    """Spec: X9, D6"""
    heard: list[Event] = []

    @app.on("task.*")
    async def note(event: Event) -> None:
        heard.append(event)

    with listeners_of(app):
        ids = [fail(store) for _ in range(20)]
        until(lambda: len(heard) == 60)
    assert {event.task_id for event in heard} == set(ids)
    for task_id in ids:
        assert [event.kind for event in heard if event.task_id == task_id] == ["submitted", "started", "failed"]


def test_a_listener_goes_on_where_it_was_after_a_restart(app, store):
    """Spec: X9"""
    heard: list[int] = []

    @app.on("task.failed")
    def note(event: Event) -> None:
        heard.append(event.task_id)

    with listeners_of(app):
        first = fail(store)
        until(lambda: heard == [first])
    meanwhile = [fail(store), fail(store)]
    with listeners_of(app):
        until(lambda: len(heard) >= 3)
    assert heard == [first, *meanwhile]
    assert subscription(store).holder is None


def test_of_two_processes_one_calls_the_listener_and_the_other_takes_over(app, store):
    """Spec: X9"""
    heard: list[int] = []

    @app.on("task.failed")
    async def note(event: Event) -> None:
        heard.append(event.task_id)

    with listeners_of(app):
        with listeners_of(app):
            ids = [fail(store) for _ in range(10)]
            until(lambda: len(heard) == 10)
        ids.append(fail(store))
        until(lambda: len(heard) == 11)
        until(lambda: subscription(store).handled == 11)
    assert heard == ids


def test_a_listener_that_raises_is_called_again_and_what_it_handled_is_not(app, store, caplog):
    """Spec: X9"""
    heard: list[int] = []
    broken = True

    @app.on("task.failed")
    async def note(event: Event) -> None:
        heard.append(event.task_id)
        if broken and len(heard) > 1:
            raise RuntimeError("the mail server is away")

    with listeners_of(app):
        first = fail(store)
        until(lambda: heard == [first])
        second, third = fail(store), fail(store)
        until(lambda: heard.count(second) == 3)
        broken = False
        until(lambda: heard[-1] == third)
        until(lambda: subscription(store).handled == 3)
    assert set(heard[1:-1]) == {second}
    assert subscription(store).failed == heard.count(second) - 1
    assert "try 1 of 10" in caplog.text
    assert "the mail server is away" in caplog.text


@pytest.mark.parametrize("problem", [RuntimeError("no"), SystemExit(1), StopIteration(), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", ["async", "def"])
def test_an_event_that_cannot_be_handled_is_skipped_after_its_tries(app, store, caplog, problem, kind):
    """Spec: X9"""
    heard: list[int] = []
    poison: list[int] = []

    def handle(event: Event) -> None:
        heard.append(event.task_id)
        if event.task_id in poison:
            raise problem

    async def handle_async(event: Event) -> None:
        handle(event)

    app.on("task.failed", name="note", tries=3)(handle_async if kind == "async" else handle)
    poison.append(store.tasks.submit(NewTask("download")).id)
    [execution] = start(store)
    with listeners_of(app):
        settle(store, execution, Raised("no"))
        good = fail(store)
        until(lambda: good in heard)
        until(lambda: subscription(store).handled == 1)
    assert heard == [*poison * 3, good]
    found = subscription(store)
    assert (found.handled, found.failed, found.skipped, found.tries) == (1, 3, 1, 0)
    assert f"skips event {event_id(store, poison[0])} (task {poison[0]} failed) after 3 tries" in caplog.text


def event_id(store, task_id, kind="failed"):
    return next(event.id for event in store.events.of(task_id) if event.kind == kind)


def test_a_def_that_returns_a_coroutine_is_no_success(app, store, caplog):
    """Spec: X9"""

    async def send(event: Event) -> None:
        raise AssertionError("nobody awaits it")

    app.on("task.failed", name="note", tries=1)(lambda event: send(event))
    with listeners_of(app):
        fail(store)
        until(lambda: subscription(store).skipped == 1)
    assert "returns a coroutine" in caplog.text


def test_the_lease_is_renewed_while_a_listener_takes_its_time(app, store):
    """Spec: X9"""
    begun, go_on = threading.Event(), threading.Event()
    heard: list[int] = []

    @app.on("task.failed")
    def note(event: Event) -> None:
        heard.append(event.task_id)
        begun.set()
        go_on.wait(60)

    with listeners_of(app, lease_seconds=0.6), listeners_of(app, lease_seconds=0.6):
        task_id = fail(store)
        begun.wait(60)
        holder, used_at = subscription(store).holder, subscription(store).used_at
        until(lambda: (subscription(store).used_at - used_at).total_seconds() > 1.2)
        assert subscription(store).holder == holder
        go_on.set()
        until(lambda: subscription(store).handled == 1)
    assert heard == [task_id]


def test_a_process_ends_though_a_listener_does_not(app, store, monkeypatch, caplog):
    """Spec: X9, D9"""
    monkeypatch.setattr(runner, "STOP_SECONDS", 0.1)
    begun = threading.Event()

    @app.on("task.failed")
    async def note(event: Event) -> None:
        begun.set()
        await asyncio.Event().wait()

    with listeners_of(app):
        fail(store)
        begun.wait(60)
    assert "does not end; the event will be delivered again" in caplog.text
    assert subscription(store).handled == 0


def test_a_listener_that_was_removed_begins_anew(app, store):
    """Spec: X9"""
    heard: list[int] = []

    @app.on("task.failed")
    def note(event: Event) -> None:
        heard.append(event.task_id)

    with listeners_of(app):
        first = fail(store)
        until(lambda: subscription(store).handled == 1)
        store.subscriptions.remove("note")
        until(lambda: [each.handled for each in store.subscriptions.all()] == [0])
        second = fail(store)
        until(lambda: heard == [first, second])


def test_a_slow_listener_holds_up_no_other(app, store):
    """Spec: X9"""
    go_on, heard = threading.Event(), list[int]()

    @app.on("task.failed")
    def slow(event: Event) -> None:
        go_on.wait(60)

    @app.on("task.failed")
    def note(event: Event) -> None:
        heard.append(event.task_id)

    with listeners_of(app):
        task_id = fail(store)
        until(lambda: heard == [task_id])
        go_on.set()


def test_the_place_is_saved_also_when_nothing_follows(app, store):
    """Spec: X9. Else an idle listener would seem to lag behind, and hold back retention."""

    @app.on("task.failed")
    def note(event: Event) -> None: ...

    with listeners_of(app):
        until(lambda: subscription(store).holder is not None)
        for _ in range(3):  # nobody wants these, and the last come within a second of a save
            settle(store, running(store, "download"), Returned())
        until(lambda: subscription(store).place.high == store.events.last().high)


def test_a_worker_inside_a_program_calls_the_listeners_it_is_given(app, store):
    """Spec: X9"""
    heard: list[int] = []

    @app.task
    def succeed() -> None: ...

    @app.on("task.completed")
    def note(event: Event) -> None:
        heard.append(event.task_id)

    with working(app, listeners=app._listeners):
        until(lambda: any(each.holder for each in store.subscriptions.all()))
        task = succeed.submit_sync()
        until(lambda: heard == [task.id])
