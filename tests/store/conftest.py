"""The stores under test: SQLite and PostgreSQL, empty, with a clock that the test moves."""

import os
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest

from headgate.store import Store, open_store
from tests.factories import TYPES, Clock

DATABASES = ("sqlite", "postgres")
_SEEDS = (
    "INSERT INTO lane (name) VALUES ('*'), ('default')",
    "INSERT INTO resource (name, capacity) VALUES ('disk-writer', 1)",
    "INSERT INTO catalog VALUES (1, 1)",
)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> str:
    """A migrated schema of this test process's own."""
    schema = f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
    url = f"{postgres_server}?options={quote(f'-csearch_path={schema}')}"
    with open_store(url) as store:
        store.migrate()
    return url


@pytest.fixture
def postgres(postgres_url: str) -> str:
    """That schema, emptied."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'migration'"
        ).fetchall()
        connection.execute(f"TRUNCATE {', '.join(name for (name,) in tables)} RESTART IDENTITY")
        for seed in _SEEDS:
            connection.execute(seed)
    return postgres_url


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: object) -> str:
    """Where an empty store is, on each database in turn."""
    if request.param == "sqlite":
        where = f"sqlite:///{tmp_path}/store.db"
        with open_store(where) as store:
            store.migrate()
        return where
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    """An empty store that knows the types of `tests.factories`."""
    with open_store(url, clock) as opened:
        for kind in TYPES:
            opened.put_type(kind)
        yield opened
