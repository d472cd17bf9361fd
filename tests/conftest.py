"""One PostgreSQL for the whole run, which xdist's workers share, each with a schema of its own; and empty stores."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import settings

from headgate.store.db.migrate import migrations
from headgate.store.store import open_store
from lab.postgres import Postgres
from tests.kept import kept, let_go

VARIABLE = "HEADGATE_TEST_POSTGRES"
DATABASES = ("sqlite", "postgres")
SMALL_BYTES = 1 << 20
LONGEST_FIRST = ("stories", "simulation", "broker", "console", "docs", "packs", "clients", "cli", "worker", "plans")
_TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname <> 'headgate_migration'
"""
# What a pack made is not in the ledger any more once that is empty, and would be taken for somebody else's.
_DROP_PACKS = r"""
SELECT format('DROP %s IF EXISTS %I', CASE relkind WHEN 'r' THEN 'TABLE' ELSE 'INDEX' END, relname) FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relname LIKE 'headgate\_media\_%' AND relkind IN ('r', 'i')
 ORDER BY relkind DESC
"""
# Something was put there, or PostgreSQL has counted it: any other table is as on its first day.
_TOUCHED = f"{_TABLES} AND (pg_relation_size(oid) > 0 OR reltuples >= 0)"
# TRUNCATE takes away the number of rows, and leaves what ANALYZE knew of their columns.
_KNOW_NOTHING = """
DELETE FROM pg_statistic USING pg_class
 WHERE pg_class.oid = starelid AND relnamespace = current_schema()::regnamespace
"""
_COUNT_FROM_ONE = """
SELECT setval(oid::regclass, 1, false) FROM pg_class
 WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'
"""
_SEEDS = (
    "INSERT INTO headgate_lane (name) VALUES ('*'), ('default')",
    "INSERT INTO headgate_resource (name, capacity) VALUES ('disk-writer', 1)",
    "INSERT INTO headgate_rate_limit (name, rate, burst) VALUES ('key:*', 10, 20)",
    "INSERT INTO headgate_catalog VALUES (1, 1)",
)


def pytest_configure(config: pytest.Config) -> None:
    if VARIABLE in os.environ:
        return
    server = Postgres().start()
    config.add_cleanup(server.stop)
    environment = pytest.MonkeyPatch()
    environment.setenv(VARIABLE, server.url)
    config.add_cleanup(environment.undo)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: the garbage collector would look through all of it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, for each of xdist's workers.

    Each begins with a slice of the list, all of one length, and takes from the end of another's when it is through: at
    the end of a run short ones are to be shared out.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    folders: dict[str, list[pytest.Item]] = {folder: [] for folder in LONGEST_FIRST}
    short: list[pytest.Item] = []
    for item in items:
        folders.get(item.nodeid.removeprefix("tests/").partition("/")[0], short).append(item)
    wanted, items[:] = len(items), []
    for worker in range(workers):
        size = (wanted - len(items)) // (workers - worker)
        long = [item for folder in LONGEST_FIRST[worker::workers] for item in folders[folder]]
        room = max(size - len(long), 0)
        items += long + short[:room]
        del short[:room]
    items += short


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a PostgreSQL that this run may do anything to."""
    return os.environ[VARIABLE]


def own_schema() -> str:
    """The schema of this test process."""
    return f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A migrated schema of this test process's own."""
    schema = own_schema()
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
    url = f"{postgres_server}?options={quote(f'-csearch_path={schema}')}"
    with open_store(url) as store:
        store.migrate()
    yield url
    let_go()


@pytest.fixture
def postgres(postgres_url: str) -> str:
    """That schema, emptied."""
    empty(postgres_url)
    return postgres_url


@pytest.fixture
def hostile(postgres_server: str) -> Iterator[str]:
    """A URL whose search_path finds tables that have our names and are not ours."""
    schema = f"hostile_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
        for name in {name for step in migrations("postgres") for name in step.makes}:
            connection.execute(f"CREATE TABLE {schema}.{name} (theirs integer)")
        yield f"{postgres_server}?options={quote(f'-csearch_path={schema}')}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def schemas(postgres_server: str) -> Iterator[tuple[str, str]]:
    """The names of two schemas that are not there yet, and are gone afterwards; one is a word of SQL."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    names = f"order{worker}", f"other{worker}"
    yield names
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def empty(url: str, *, anew: bool = False) -> None:
    """Take everything out of a schema. `anew`: out of files and statistics, too, which takes ten times as long."""
    connection = kept(url)
    for (drop,) in connection.execute(_DROP_PACKS).fetchall():
        connection.execute(drop)
    tables = [name for (name,) in connection.execute(_TOUCHED)]
    looks = (f"SELECT '{name}', pg_relation_size('{name}') WHERE EXISTS (SELECT FROM {name})" for name in tables)
    sizes: dict[str, int] = dict(connection.execute(" UNION ALL ".join(looks)).fetchall())
    if anew:
        connection.execute(_KNOW_NOTHING)
    large = tables if anew else [name for name, size in sizes.items() if size > SMALL_BYTES]
    if large:
        connection.execute(f"TRUNCATE {', '.join(large)} CASCADE")
    if small := sizes.keys() - set(large):
        connection.execute("; ".join(f"DELETE FROM {name}" for name in small))
        connection.execute(f"VACUUM (PARALLEL 0) {', '.join(small)}")
    connection.execute("; ".join((_COUNT_FROM_ONE, *_SEEDS)))


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, to be copied."""
    made = tmp_path_factory.mktemp("sqlite") / "store.db"
    with open_store(f"sqlite:///{made}") as store:
        store.migrate()
    return made


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is, on each database in turn."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_file"), tmp_path / "store.db")
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres"))


# The same examples every time, so that a red run is about the change; HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
