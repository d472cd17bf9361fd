"""Unique and debounced tasks, as a program declares and submits them, and in a transaction of its own."""

import asyncio
from typing import Any

import pytest

from headgate import Headgate, State
from headgate.core.errors import Invalid
from headgate.core.machine import Returned
from headgate.core.unique import unique_key_of
from headgate.settings import Settings
from tests.app.connections import ASYNC, SYNC, Asyncpg
from tests.factories import kinds, settle, start


def declare(app: Headgate, **options: Any) -> Any:
    @app.task(**options)
    def save(document: int, text: str = "") -> None: ...

    return save


def test_unique_by_arguments_is_one_task_for_each_call_that_says_the_same(app):
    """Spec: X2"""
    save = declare(app, unique="arguments")
    first = save.submit_sync(7, text="a")
    assert (first.created, first.record_sync().unique_key) == (True, unique_key_of('{"text": "a", "document": 7.0}'))
    assert (again := save.submit_sync(document=7, text="a")).id == first.id
    assert not again.created
    assert save.submit_sync(8, text="a").created


def test_unique_by_arguments_may_be_said_by_the_caller_and_a_key_goes_before_it(app):
    """Spec: X2"""
    save = declare(app, unique_key="document:{document}")
    assert save.using(unique="arguments").call(7, "a")._new.unique_key == unique_key_of('{"document":7,"text":"a"}')
    assert save.submit_sync(7).record_sync().unique_key == "document:7"
    other = Headgate("sqlite://")
    by_arguments = declare(other, unique="arguments", mutex="m:{document}")
    assert by_arguments.using(unique_key="mine").submit_sync(7).record_sync().unique_key == "mine"
    assert by_arguments.submit_sync(7).record_sync().unique_key == unique_key_of('{"document":7}')
    other.close()


def test_a_period_is_declared_or_said(app):
    """Spec: X2"""
    save = declare(app, unique_key="d:{document}", unique_seconds=3600)
    first = save.submit_sync(7)
    [execution] = start(app.store)
    settle(app.store, execution, Returned())
    assert (again := save.submit_sync(7)).id == first.id
    assert not again.created
    assert save.using(unique_seconds=0.000001).submit_sync(7).created


def test_a_debounced_task_is_declared_or_said(app):
    """Spec: X2"""
    save = declare(app, unique_key="d:{document}", debounce_seconds=60, debounce_longest_seconds=600)
    first = save.submit_sync(7, "a")
    assert save.submit_sync(7, "ab").id == first.id
    record = first.record_sync()
    assert (record.status, record.ext) == (State.PENDING, '{"document":7,"text":"ab"}')
    other = (
        declare(Headgate("sqlite://")).using(unique_key="d", debounce_seconds=3, debounce_replace=False).call(1)._new
    )
    assert (other.debounce_seconds, other.debounce_replace, other.unique_key) == (3, False, "d")


def test_a_start_that_is_said_wins_over_the_debounce_of_the_type(app):
    """Spec: X2"""
    save = declare(app, unique_key="d:{document}", debounce_seconds=60)
    later, other = (save.using(delay_seconds=600).submit_sync(7, text) for text in ("a", "b"))
    assert (later.created, other.created) == (True, True)
    assert save.submit_sync(7, "c").created
    with pytest.raises(Invalid, match="leave out delay_seconds"):
        save.using(delay_seconds=600, debounce_seconds=5).submit_sync(7)


def test_a_schedule_can_have_a_task_that_is_unique_or_debounced(app):
    """Spec: X2, B9"""

    @app.periodic("0 3 * * *", arguments={"document": 7})
    @app.task(unique="arguments", debounce_seconds=60)
    def save(document: int) -> None: ...

    [schedule] = app.store.schedules.find()
    assert schedule.definition.options == {}
    by_arguments = app.periodic("0 4 * * *", code="own", arguments={"document": 8})
    by_arguments(app.task(code="plain")(plain).using(unique="arguments"))
    [own] = [each for each in app.store.schedules.find() if each.definition.code == "own"]
    assert own.definition.options == {"unique_key": unique_key_of('{"document": 8}')}


def plain(document: int) -> None:
    """A task."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique": "everything"}, "unique must be 'arguments', not 'everything'"),
        ({"unique": "arguments", "unique_key": "k"}, "not both"),
        ({"unique_seconds": 5}, "need unique or unique_key"),
        ({"debounce_seconds": 5}, "need unique or unique_key"),
        ({"unique_key": "k", "debounce_seconds": 5, "debounce_longest_seconds": 4}, "must be at least"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_declared(options, message):
    """Spec: X2"""
    with pytest.raises(Invalid, match=message):
        declare(Headgate("sqlite://"), **options)


def test_a_task_can_be_snoozed_by_who_submitted_it(app):
    """Spec: X2"""
    task = declare(app).submit_sync(7)
    task.snooze_sync(3600)
    assert task.record_sync().status is State.PENDING
    asyncio.run(task.snooze(7200))
    assert (task.record_sync().start_time - task.record_sync().create_date).total_seconds() == pytest.approx(
        7200, abs=60
    )


# In a transaction of the caller's


@pytest.fixture(params=SYNC, ids=lambda way: way.__name__)
def connect(request):
    return request.param


def test_in_a_transaction_of_the_callers_a_period_holds_and_begins_with_its_commit(app, url, connect):
    """Spec: X2, X1"""
    save = declare(app, unique_key="d:{document}", unique_seconds=3600)
    with connect(url) as connection:
        app.submit_in(connection, save.call(7))
        connection.rollback()
        first = app.submit_in(connection, save.call(7))
        assert app.submit_in(connection, save.call(7)).id == first.id
        connection.commit()
    assert first.created
    [execution] = start(app.store)
    settle(app.store, execution, Returned())
    with connect(url) as connection:
        again = app.submit_in(connection, save.call(7))
        connection.commit()
    assert (again.id, again.created) == (first.id, False)
    assert save.submit_sync(7).id == first.id


def test_in_a_transaction_of_the_callers_a_task_is_debounced_if_the_caller_commits(app, url, connect):
    """Spec: X2, X1"""
    save = declare(app, unique_key="d:{document}", debounce_seconds=60)
    first = save.submit_sync(7, "a")
    with connect(url) as connection:
        assert app.submit_in(connection, save.call(7, "ab")).id == first.id
        connection.rollback()
    assert (first.record_sync().ext, kinds(app.store, first.id)) == ('{"document":7,"text":"a"}', ["submitted"])
    with connect(url) as connection:
        assert app.submit_in(connection, save.call(7, "abc")).id == first.id
        other = app.submit_in(connection, save.call(8, "x"))
        connection.commit()
    assert (first.record_sync().ext, kinds(app.store, first.id)) == (
        '{"document":7,"text":"abc"}',
        ["submitted", "debounced"],
    )
    assert (other.created, other.record_sync().status) == (True, State.PENDING)
    assert [event.actor for event in app.store.events.of(first.id)] == ["person", "person"]


@pytest.mark.parametrize("driver", ASYNC)
def test_an_async_connection_does_the_same(request, tmp_path, driver):
    """Spec: X2, X1"""
    url = f"sqlite:///{tmp_path}/store.db" if driver.startswith("aiosqlite") else request.getfixturevalue("postgres")
    app = Headgate(settings=Settings(url=url))
    save = declare(app, unique_key="d:{document}", debounce_seconds=60)
    first = save.submit_sync(7, "a")

    async def order() -> Any:
        async with ASYNC[driver](url) as connection:
            own = connection.own if isinstance(connection, Asyncpg) else connection
            task = await app.submit_in_async(own, save.call(7, "b"))
            await connection.commit()
        return task

    assert asyncio.run(order()).id == first.id
    assert first.record_sync().ext == '{"document":7,"text":"b"}'
    app.close()
