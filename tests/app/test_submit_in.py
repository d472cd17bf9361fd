"""A task in the caller's own transaction exists if and only if the caller commits."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headgate import Headgate, State
from headgate.core.errors import NotFound
from headgate.core.machine import Returned
from headgate.core.task import TaskType
from headgate.environment import utc_now
from headgate.settings import Settings
from headgate.store.db.drivers import pyformat
from headgate.store.db.statement import Statement
from tests.app.connections import ASYNC, SYNC, Asyncpg, engine, plain
from tests.app.letters import declare
from tests.factories import drain, kinds, settle, sql, start


@pytest.fixture(params=SYNC, ids=lambda way: way.__name__)
def connect(request):
    return request.param


def test_what_the_caller_commits_is_a_task_like_any_other(app, url, connect):
    """Spec: X1"""
    send = declare(app)
    with connect(url) as connection:
        task = app.submit_in(connection, send.using(priority=2, creator=7, name="50% off").call("a.org", letters=3))
        connection.commit()
    assert task.created
    made, twin = task.record_sync(), send.using(priority=2, creator=7, name="50% off").submit_sync("a.org", letters=3)
    other = twin.record_sync()
    for name in (
        "type",
        "ext",
        "lane",
        "category",
        "priority",
        "creator",
        "name",
        "rate_key",
        "status",
        "seq",
        "mutex",
    ):
        assert getattr(made, name) == getattr(other, name), name
    assert made.status is State.QUEUED
    [event], [expected] = app.store.events.of(task.id), app.store.events.of(twin.id)
    assert (event.kind, event.after, event.actor, event.seq) == (
        expected.kind,
        expected.after,
        expected.actor,
        expected.seq,
    )
    assert abs(utc_now() - made.create_date) < timedelta(minutes=1)
    assert made.start_time == made.create_date
    [execution] = start(app.store)
    assert execution.id == task.id
    settle(app.store, execution, Returned("3"))
    assert task.wait_sync(0).result == 3


def test_what_the_caller_rolls_back_was_never_there(app, url, connect):
    """Spec: X1"""
    send = declare(app)
    with connect(url) as connection:
        task = app.submit_in(connection, send.call("a.org"))
        with pytest.raises(NotFound):
            task.record_sync()
        connection.rollback()
    assert app.store.tasks.find().items == []
    assert sql(url, "SELECT count(*) FROM headgate_task_event WHERE task_id IS NOT NULL") == [(0,)]
    assert start(app.store) == []
    assert send.submit_sync("a.org").record_sync().status is State.QUEUED


def test_the_task_and_the_callers_own_rows_share_their_fate(app, url, connect):
    """Spec: X1"""
    send = declare(app)
    sql(url, "DROP TABLE IF EXISTS orders", "CREATE TABLE orders (id integer)")
    with connect(url) as connection:
        for number, end in enumerate((connection.rollback, connection.commit)):
            run = getattr(connection, "exec_driver_sql", None) or connection.execute
            text: Any = f"INSERT INTO orders VALUES ({number})"
            run(sqlalchemy.text(text) if isinstance(connection, Session) else text)
            app.submit_in(connection, send.call("a.org", letters=number))
            end()
    assert sql(url, "SELECT id FROM orders") == [(1,)]
    assert [task.ext for task in app.store.tasks.find().items] == ['{"host":"a.org","letters":1}']
    sql(url, "DROP TABLE orders")


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("committed", [True, False])
def test_an_async_connection_does_the_same(request, tmp_path, driver, committed):
    """Spec: X1, X6"""
    on_file = driver.startswith("aiosqlite")
    url = f"sqlite:///{tmp_path}/store.db" if on_file else request.getfixturevalue("postgres")
    app = Headgate(settings=Settings(url=url))
    send = declare(app)

    async def order() -> Any:
        async with ASYNC[driver](url) as connection:
            own = connection.own if isinstance(connection, Asyncpg) else connection
            later = utc_now() + timedelta(hours=1)
            made = [
                await app.submit_in_async(own, send.call("a.org")),
                await app.submit_in_async(own, send.using(mutex="m", unique_key="u", max_error_count=2).call("a.org")),
                await app.submit_in_async(own, send.using(timeout_seconds=3, start_time=later).call("b.org")),
            ]
            await (connection.commit() if committed else connection.rollback())
            return made, later

    made, later = asyncio.run(order())
    found = app.store.tasks.find().items
    if committed:
        assert [task.id for task in made] == [task.id for task in reversed(found)]
        assert [task.status for task in reversed(found)] == [State.QUEUED, State.PENDING, State.PENDING]
        assert [kinds(app.store, task.id) for task in made] == [["submitted"]] * 3
        assert made[2].record_sync().start_time == later
        assert drain(app.store) == [made[0].id]
        assert app.store.due.bring() == 1
        assert drain(app.store) == [made[1].id]
    else:
        assert found == []
    app.close()


# mutex, time, unique key


def test_a_task_with_a_mutex_waits_for_the_duty_that_puts_it_in_line(app, url):
    """Spec: X1, C7"""
    send = declare(app).using(mutex="m")
    first = send.submit_sync("a.org")
    with plain(url) as connection:
        second = app.submit_in(connection, send.call("a.org"))
        connection.commit()
    made = second.record_sync()
    assert made.status is State.PENDING
    assert made.start_time == made.create_date
    assert app.store.due.bring() == 1
    assert second.record_sync().status is State.BLOCKED
    [execution] = start(app.store, 2)
    assert execution.id == first.id
    settle(app.store, execution, Returned())
    assert [execution.id for execution in start(app.store)] == [second.id]


@pytest.mark.parametrize("mutex", [None, "m"])
def test_a_task_for_later_is_pending_until_its_time(app, url, mutex):
    """Spec: X1"""
    send = declare(app).using(mutex=mutex)
    moment = datetime(2199, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    with plain(url) as connection:
        at = app.submit_in(connection, send.using(start_time=moment).call("a.org"))
        after = app.submit_in(connection, send.using(delay_seconds=3600.5).call("a.org"))
        connection.commit()
    assert (at.record_sync().status, at.record_sync().start_time) == (State.PENDING, moment)
    made = after.record_sync()
    assert made.status is State.PENDING
    assert made.start_time - made.create_date == timedelta(seconds=3600.5)
    assert app.store.due.bring() == 0


def test_a_unique_key_gives_the_open_task_instead_of_a_second(app, url, connect):
    """Spec: X1, X2"""
    send = declare(app).using(unique_key="u")
    first = send.submit_sync("a.org")
    with connect(url) as connection:
        again = app.submit_in(connection, send.call("b.org"))
        other = app.submit_in(connection, send.using(unique_key="v").call("b.org"))
        same = app.submit_in(connection, send.using(unique_key="v").call("c.org"))
        connection.commit()
    assert (again.id, again.created) == (first.id, False)
    assert (other.created, same.id, same.created) == (True, other.id, False)
    assert len(app.store.tasks.find().items) == 2
    assert kinds(app.store, first.id) == ["submitted"]


# where the types and streams come from


def test_on_sqlite_a_program_may_submit_first_of_all_inside_its_transaction(tmp_path):
    """Spec: X1. Neither the type, the stream nor the open store is there when the caller takes the write lock."""
    url = f"sqlite:///{tmp_path}/store.db"
    Headgate(url).store.close()
    app = Headgate(url)
    send = declare(app)
    with plain(url) as connection:
        connection.execute("BEGIN IMMEDIATE")
        dropped = app.submit_in(connection, send.call("a.org"))
        connection.rollback()
        connection.execute("BEGIN IMMEDIATE")
        first, second = (app.submit_in(connection, send.call("a.org")) for _ in range(2))
        assert sql(url, "SELECT count(*) FROM headgate_task_metadata") == [(0,)]
        connection.commit()
    assert (dropped.created, first.created, second.created) == (True, True, True)
    assert app.store.types.by_code()["send"] == send._handler.type
    assert {room.name for room in app.store.lanes.all()} >= {"post"}
    assert {room.name for room in app.store.resources.all()} >= {"smtp"}
    assert {bucket.name for bucket in app.store.rate_limits.all()} == {"key:*"}
    assert sql(url, "SELECT kind, count(*) FROM headgate_task_event GROUP BY kind") == [
        ("submitted", 2),
        ("type_changed", 1),
    ]
    assert drain(app.store) == [first.id, second.id]
    app.close()


def test_a_persons_edit_of_the_type_decides_the_lane(app, url):
    """Spec: X1, B5"""
    send = declare(app)
    app.store.types.put(TaskType("send", lane="slow", category="edited"), edited=True)
    with plain(url) as connection:
        task = app.submit_in(connection, send.call("a.org"))
        connection.commit()
    assert (task.record_sync().lane, task.record_sync().category) == ("slow", "edited")


def test_on_postgres_an_open_transaction_holds_up_no_other_submit(postgres):
    """Spec: X1"""
    app = Headgate(settings=Settings(url=postgres))
    send = declare(app)
    with plain(postgres) as connection:
        connection.execute("SET lock_timeout = '2s'")
        app.submit_in(connection, send.call("new.org"))
        send.submit_sync("another.org")
        send.submit_sync("new.org")
        connection.rollback()
    assert [task.rate_key for task in app.store.tasks.find().items] == ["host:new.org", "host:another.org"]
    app.close()


def test_on_postgres_a_snapshot_older_than_the_stream_is_no_hindrance(postgres):
    """Spec: X1"""
    app = Headgate(settings=Settings(url=postgres))
    send = declare(app)
    with plain(postgres) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM headgate_stream")
        task = app.submit_in(connection, send.call("new.org"))
        connection.commit()
    assert [execution.id for execution in start(app.store)] == [task.id]
    app.close()


# connections as people set them up


def test_a_per_cent_sign_is_no_placeholder():
    """Spec: X1"""
    assert pyformat(Statement("SELECT '100%', :name, :name")) == "SELECT '100%%', %(name)s, %(name)s"


def test_the_callers_row_factory_is_left_alone(app, url):
    """Spec: X1"""
    send = declare(app)
    with plain(url) as connection:
        connection.row_factory = sqlite3.Row if url.startswith("sqlite") else dict_row
        task = app.submit_in(connection, send.using(unique_key="u").call("a.org"))
        assert not app.submit_in(connection, send.using(unique_key="u").call("a.org")).created
        connection.commit()
        assert connection.execute("SELECT id AS found FROM headgate_task").fetchone()["found"] == task.id


def test_a_transaction_that_was_begun_by_hand_will_do(app, url):
    """Spec: X1"""
    send = declare(app)
    with plain(url) as connection:
        if url.startswith("sqlite"):
            connection.isolation_level = None
        else:
            connection.autocommit = True
        connection.execute("BEGIN")
        app.submit_in(connection, send.call("a.org"))
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        committed = app.submit_in(connection, send.call("b.org"))
        connection.execute("COMMIT")
    assert [task.id for task in app.store.tasks.find().items] == [committed.id]


def test_a_scoped_session_will_do(app, url):
    """Spec: X1, X6"""
    send = declare(app)
    with engine(url) as made:
        session = scoped_session(sessionmaker(made))
        task = app.submit_in(session, send.call("a.org"))
        session.commit()
        session.remove()
    assert task.record_sync().status is State.QUEUED


def test_a_savepoint_can_take_it_back(app, url):
    """Spec: X1"""
    send = declare(app)
    with engine(url) as made, Session(made) as session:
        session.execute(sqlalchemy.text("DELETE FROM headgate_sample"))
        nested = session.begin_nested()
        app.submit_in(session, send.call("a.org"))
        nested.rollback()
        committed = app.submit_in(session, send.call("b.org"))
        session.commit()
    assert [task.id for task in app.store.tasks.find().items] == [committed.id]
