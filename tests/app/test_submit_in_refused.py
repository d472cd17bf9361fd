"""What cannot be part of the caller's own transaction is refused, and the caller told why."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime

import aiosqlite
import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest

from headgate import Headgate
from headgate.core.errors import Invalid
from headgate.settings import Settings
from tests.app.connections import bare, engine, file_of, plain, schema_of
from tests.app.letters import declare


def test_a_connection_that_commits_by_itself_is_refused_and_nothing_is_made(app, url):
    """Spec: X1"""
    send = declare(app)
    with plain(url) as connection:
        if url.startswith("sqlite"):
            connection.isolation_level = None
        else:
            connection.autocommit = True
        with pytest.raises(Invalid, match="begin a transaction"):
            app.submit_in(connection, send.call("a.org"))
    with engine(url) as made, made.connect() as connection, pytest.raises(Invalid, match="begin a transaction"):
        app.submit_in(connection.execution_options(isolation_level="AUTOCOMMIT"), send.call("a.org"))
    assert app.store.tasks.find().items == []


def test_an_async_connection_outside_of_a_transaction_is_refused(postgres):
    """Spec: X1"""
    app = Headgate(settings=Settings(url=postgres))
    send = declare(app)

    async def order() -> None:
        connection = await asyncpg.connect(bare(postgres), server_settings={"search_path": schema_of(postgres)})
        try:
            await app.submit_in_async(connection, send.call("a.org"))
        finally:
            await connection.close()

    with pytest.raises(Invalid, match="begin a transaction"):
        asyncio.run(order())
    assert app.store.tasks.find().items == []
    app.close()


def test_a_parent_is_refused_with_the_reason(app, url):
    """Spec: X1, D7"""
    send = declare(app)
    parent = send.submit_sync("a.org")
    with plain(url) as connection, pytest.raises(Invalid, match=r"parent_id.*until you commit"):
        app.submit_in(connection, send.using(parent_id=parent.id).call("a.org"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lane": "*"}, "every lane"),
        ({"mutex": "\0"}, "mutex contains a NUL"),
        ({"priority": 1 << 70}, "priority is out of range"),
        ({"start_time": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_options_are_checked_before_the_callers_connection_is_touched(app, url, options, message):
    """Spec: X1"""
    send = declare(app)
    with plain(url) as connection, pytest.raises(Invalid, match=message):
        app.submit_in(connection, send.using(**options).call("a.org"))


def test_a_connection_to_another_sqlite_file_is_refused(tmp_path):
    """Spec: X1"""
    app, other = Headgate(f"sqlite:///{tmp_path}/a.db"), Headgate(f"sqlite:///{tmp_path}/b.db")
    send = declare(app)
    other.store.close()
    for name in ("b.db", "empty.db", ":memory:"):
        with closing(sqlite3.connect(name if name == ":memory:" else tmp_path / name)) as connection:
            with pytest.raises(Invalid, match="must use the same database"):
                app.submit_in(connection, send.call("a.org"))
            assert not connection.in_transaction
    app.close()


def test_a_connection_that_finds_other_tables_is_refused_and_can_go_on(postgres):
    """Spec: X1"""
    app = Headgate(settings=Settings(url=postgres))
    send = declare(app)
    with closing(psycopg.connect(bare(postgres))) as connection:
        with pytest.raises(Invalid, match="search_path"):
            app.submit_in(connection, send.call("a.org"))
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.execute(f"SET search_path TO {schema_of(postgres)}")
        app.submit_in(connection, send.call("a.org"))
        connection.execute(
            "CREATE TEMPORARY TABLE headgate_task (id integer)"
        )  # somebody else's: names mean this one now
        with pytest.raises(Invalid, match="search_path"):
            app.submit_in(connection, send.call("a.org"))
        connection.rollback()
    app.close()


def test_a_store_of_another_kind_or_in_memory_is_refused(postgres, tmp_path):
    """Spec: X1"""
    app = Headgate(f"sqlite:///{tmp_path}/store.db")
    with plain(postgres) as connection, pytest.raises(Invalid, match="must use the same database"):
        app.submit_in(connection, declare(app).call("a.org"))
    app.close()
    app = Headgate("sqlite://")
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(Invalid, match="in memory"):
        app.submit_in(connection, declare(app).call("a.org"))
    app.close()


def test_what_is_no_connection_is_refused_by_name(app, url):
    """Spec: X1"""
    send = declare(app)
    with pytest.raises(Invalid, match=r"Headgate is not a supported connection; supported are: sqlite3\.Connection, "):
        app.submit_in(app, send.call("a.org"))
    with plain(url) as connection, pytest.raises(Invalid, match=r"is for submit_in\(…\)"):
        asyncio.run(app.submit_in_async(connection, send.call("a.org")))


def test_an_async_connection_is_told_where_to_go(tmp_path):
    """Spec: X1, X6"""
    app = Headgate(f"sqlite:///{tmp_path}/store.db")
    send = declare(app)

    async def order() -> None:
        async with aiosqlite.connect(file_of(app._settings.url)) as connection:
            app.submit_in(connection, send.call("a.org"))

    with pytest.raises(Invalid, match="await submit_in_async"):
        asyncio.run(order())
    app.close()
