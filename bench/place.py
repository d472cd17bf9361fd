"""Where a benchmark runs: fresh databases of one kind, with the store's own durability."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import psycopg

Row = tuple[Any, ...]


class Place(Protocol):
    @property
    def dialect(self) -> str: ...

    def fresh(self) -> Any:
        """A context with the URL of an empty database, gone afterwards."""

    def clone(self, url: str, task_id: int, copies: int) -> None:
        """Put that many copies of a task behind it, and leave the database as if they had been there for long."""

    def snapshot(self, url: str) -> Any:
        """A context in which a reader that has read `headgate_task` holds its snapshot open."""

    def tidy(self, url: str) -> None:
        """Have the work behind the scenes that is due done now."""


class SqlitePlace:
    dialect = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        folder = self._folder / f"bench{next(self._numbers)}"
        folder.mkdir()
        try:
            yield f"sqlite:///{folder / 'bench.db'}"
        finally:
            shutil.rmtree(folder)

    def clone(self, url: str, task_id: int, copies: int) -> None:
        with closing(connect_sqlite(url)) as connection:
            columns = ", ".join(task_columns(connection))
            connection.execute(
                f"""
                WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ?)
                INSERT INTO headgate_task ({columns}) SELECT {columns}
                 FROM series CROSS JOIN headgate_task WHERE headgate_task.id = ?
                """,
                (copies, task_id),
            )
        self.tidy(url)

    @contextmanager
    def snapshot(self, url: str) -> Iterator[None]:
        with closing(connect_sqlite(url)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM headgate_task").fetchall()
            yield

    def tidy(self, url: str) -> None:
        with closing(connect_sqlite(url)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class PostgresPlace:
    dialect = "postgres"

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count(1)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        name = f"bench{next(self._numbers)}"
        with connect_postgres(self._url) as server:
            server.execute(f"CREATE DATABASE {name}")
            try:
                yield urlsplit(self._url)._replace(path=f"/{name}").geturl()
            finally:
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def clone(self, url: str, task_id: int, copies: int) -> None:
        with connect_postgres(url) as connection:
            columns = ", ".join(task_columns(connection))
            connection.execute(
                f"INSERT INTO headgate_task ({columns}) SELECT {columns}"
                " FROM generate_series(1, %s), headgate_task WHERE headgate_task.id = %s",
                (copies, task_id),
            )
        self.tidy(url)

    @contextmanager
    def snapshot(self, url: str) -> Iterator[None]:
        with psycopg.connect(url) as reader:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.execute("SELECT count(*) FROM headgate_task").fetchall()
            yield

    def tidy(self, url: str) -> None:
        with connect_postgres(url) as connection:
            connection.execute("VACUUM (ANALYZE) headgate_task")
            connection.execute("VACUUM (ANALYZE) headgate_task_event")
            connection.execute("CHECKPOINT")


def connect_sqlite(url: str) -> sqlite3.Connection:
    """As durable as the store's own connection."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def connect_postgres(url: str) -> "psycopg.Connection[Row]":
    return psycopg.connect(url, autocommit=True)


def connection(place: Place, url: str) -> Any:
    """A connection of the database's own driver, as a context that closes it."""
    return closing(connect_sqlite(url) if place.dialect == "sqlite" else connect_postgres(url))


def task_columns(connection: "sqlite3.Connection | psycopg.Connection[Row]") -> list[str]:
    """Every column of `headgate_task` but the id."""
    found = connection.execute("SELECT * FROM headgate_task LIMIT 0").description or []
    return [column[0] for column in found if column[0] != "id"]
