"""A program whose tables are in a schema of their own: its callers' connections need not know of it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from headgate import Headgate, State
from headgate.core.errors import Invalid, Unavailable
from headgate.settings import Settings, load
from headgate.store.store import open_store
from tests.app.connections import ASYNC, SYNC, Asyncpg
from tests.app.letters import declare
from tests.factories import drain, kinds, sql

ON_POSTGRES = [driver for driver in ASYNC if not driver.startswith("aiosqlite")]


@pytest.fixture
def app(hostile: str, schemas: tuple[str, str]) -> Iterator[Headgate]:
    """A program in a schema of its own, behind a search_path that finds somebody else's tables under every name."""
    with open_store(hostile, schema=schemas[0]) as store:
        store.migrate()
    made = Headgate(settings=Settings(url=hostile, schema=schemas[0]))
    yield made
    made.close()


@pytest.mark.parametrize("connect", SYNC, ids=lambda way: way.__name__)
def test_a_task_in_the_callers_transaction_finds_its_schema(app, hostile, connect):
    """Spec: X1, X13"""
    send = declare(app)
    with connect(hostile) as connection:
        app.submit_in(connection, send.call("rolled.back"))
        connection.rollback()
        made = [
            app.submit_in(connection, send.using(name="50% off").call("a.org")),
            app.submit_in(connection, send.using(mutex="m").call("b.org")),
            app.submit_in(connection, send.using(unique_key="u", unique_seconds=60).call("c.org")),
            app.submit_in(connection, send.using(unique_key="u", unique_seconds=60).call("c.org")),
        ]
        connection.commit()
    assert [task.created for task in made] == [True, True, True, False]
    assert [task.record_sync().status for task in made[:3]] == [State.QUEUED, State.PENDING, State.QUEUED]
    assert kinds(app.store, made[0].id) == ["submitted"]
    assert app.store.due.bring() == 1
    assert sorted(drain(app.store)) == [task.id for task in made[:3]]
    assert sql(hostile, "SELECT count(*) FROM headgate_task") == [(0,)]


@pytest.mark.parametrize("driver", ON_POSTGRES)
def test_an_async_connection_finds_it_too(app, hostile, driver):
    """Spec: X1, X6, X13"""
    send = declare(app)

    async def order() -> Any:
        async with ASYNC[driver](hostile) as connection:
            own = connection.own if isinstance(connection, Asyncpg) else connection
            made = [
                await app.submit_in_async(own, send.call("a.org")),
                await app.submit_in_async(own, send.using(unique_key="u", unique_seconds=60).call("b.org")),
            ]
            await connection.commit()
            return made

    made = asyncio.run(order())
    assert drain(app.store) == [task.id for task in made]


def test_a_connection_to_another_database_is_refused(app, hostile, postgres_server):
    """Spec: X1, X13"""
    send = declare(app)
    name = f"elsewhere_{app._settings.schema}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
        connection.execute(f'CREATE DATABASE "{name}"')
        with (
            psycopg.connect(f"{postgres_server.rpartition('/')[0]}/{name}") as other,
            pytest.raises(Invalid, match="must use the same database"),
        ):
            app.submit_in(other, send.call("a.org"))
        connection.execute(f'DROP DATABASE "{name}"')


def test_the_schema_comes_from_file_environment_and_settings(tmp_path, hostile, schemas):
    """Spec: X13, C12"""
    (tmp_path / "headgate.toml").write_text('schema = "from_the_file"\n')
    assert load(folder=tmp_path, environment={}).schema == "from_the_file"
    settings = load(folder=tmp_path, environment={"HEADGATE_SCHEMA": schemas[1], "HEADGATE_URL": hostile})
    assert settings.schema == schemas[1]
    app = Headgate(settings=settings)
    with pytest.raises(Unavailable, match="run `headgate migrate` first"):
        app.store  # noqa: B018
    with pytest.raises(Invalid, match=r"^schema 'My Jobs': use at most 63"):
        replace(settings, schema="My Jobs")
    with pytest.raises(Invalid, match="a SQLite file has no schema"):
        Headgate(settings=replace(settings, url="sqlite://")).store  # noqa: B018
