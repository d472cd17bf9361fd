"""Connections that are not ours: which driver one belongs to, how it takes a statement, who commits.

Drivers are known by name: none of them is imported unless the caller did.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Collection, Generator
from typing import Any, TypeVar

from headgate.core.errors import Invalid
from headgate.store.db.statement import Row, Statement

T = TypeVar("T")
Parameters = dict[str, Any]
Steps = Generator[tuple[Statement, Parameters], list[Row], T]  # statements, each sent the rows it gave
_NUMBER = re.compile(r"\$(\d+)")
_AUTOCOMMIT = "the connection commits each statement by itself: begin a transaction, the task is part of it"


def run(connection: object, steps: Steps[T]) -> T:
    """Run the statements on a connection of the caller's, in its transaction."""
    name = _name_of(connection, _SYNC, _ASYNC, "await submit_in_async(…)")
    if name in _SESSIONS:
        connection = connection.connection()  # type: ignore[attr-defined]
    execute = _SYNC[name]
    statement, parameters = next(steps)
    try:
        rows = execute(connection, statement, parameters)
        _refuse_autocommit(connection)
        while True:
            statement, parameters = steps.send(rows)
            rows = execute(connection, statement, parameters)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def run_async(connection: object, steps: Steps[T]) -> T:
    """`run`, on an async connection."""
    name = _name_of(connection, _ASYNC, _SYNC, "submit_in(…)")
    if name in _SESSIONS:
        connection = await connection.connection()  # type: ignore[attr-defined]
    execute = _ASYNC[name]
    statement, parameters = next(steps)
    try:
        rows = await execute(connection, statement, parameters)
        _refuse_autocommit(connection)
        while True:
            statement, parameters = steps.send(rows)
            rows = await execute(connection, statement, parameters)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _names(connection: object) -> list[str]:
    return [f"{str(kind.__module__).partition('.')[0]}.{kind.__name__}" for kind in type(connection).__mro__]


def _name_of(connection: object, known: Collection[str], others: Collection[str], instead: str) -> str:
    for name in _names(connection):
        if name in known:
            return name
        if name in others:
            raise Invalid(f"{name} is for {instead}")
    raise Invalid(f"{type(connection).__name__} is not a supported connection; supported are: {', '.join(known)}")


def _refuse_autocommit(connection: Any) -> None:
    """Asked after the first statement, when whatever begins a transaction by itself has begun it."""
    if "sqlalchemy.AsyncConnection" in _names(connection):
        connection = connection.sync_connection
    if "sqlalchemy.Connection" in _names(connection):
        connection = connection.connection.driver_connection
    if _commits_itself(connection, _names(connection)):
        raise Invalid(_AUTOCOMMIT)


def _commits_itself(connection: Any, names: list[str]) -> bool:
    if "psycopg.Connection" in names or "psycopg.AsyncConnection" in names:
        return bool(connection.autocommit) and connection.info.transaction_status.name == "IDLE"
    if "asyncpg.Connection" in names or "asyncpg.PoolConnectionProxy" in names:
        return not connection.is_in_transaction()
    if "sqlite3.Connection" in names or "aiosqlite.Connection" in names:
        modern = getattr(connection, "autocommit", -1)  # since Python 3.12; -1 leaves it to isolation_level
        by_itself = connection.isolation_level is None if modern == -1 else bool(modern)
        return by_itself and not connection.in_transaction
    return False


# Each driver's way with a statement


def pyformat(statement: Statement) -> str:
    """PostgreSQL's text with `%(name)s` for its parameters."""
    return _NUMBER.sub(lambda m: f"%({statement.order[int(m[1]) - 1]})s", statement.postgres.replace("%", "%%"))


def _ordered(statement: Statement, parameters: Parameters) -> tuple[Any, ...]:
    return tuple(parameters[name] for name in statement.order)


def _on_sqlite3(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    cursor = connection.cursor()
    cursor.row_factory = None  # the caller's may make something else of a row
    return cursor.execute(statement.sqlite, parameters).fetchall()  # type: ignore[no-any-return]


async def _on_aiosqlite(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    async with connection.cursor() as cursor:
        cursor.row_factory = None
        await cursor.execute(statement.sqlite, parameters)
        return list(await cursor.fetchall())


def _on_psycopg(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    psycopg: Any = sys.modules["psycopg"]
    with psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        cursor.execute(statement.postgres.encode(), _ordered(statement, parameters))
        return cursor.fetchall() if cursor.description else []


async def _on_psycopg_async(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    psycopg: Any = sys.modules["psycopg"]
    async with psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(statement.postgres.encode(), _ordered(statement, parameters))
        return await cursor.fetchall() if cursor.description else []


async def _on_asyncpg(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    return list(await connection.fetch(statement.postgres, *_ordered(statement, parameters)))


def _for_sqlalchemy(dialect: Any, statement: Statement, parameters: Parameters) -> tuple[str, Any]:
    match dialect.name, dialect.paramstyle:
        case "sqlite", _:
            return statement.sqlite, parameters
        case "postgresql", "pyformat":
            return pyformat(statement), parameters
        case "postgresql", "numeric_dollar":
            return statement.postgres, _ordered(statement, parameters)
    raise Invalid(f"only SQLite and PostgreSQL are supported, not {dialect.name} with {dialect.driver}")


def _on_sqlalchemy(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    result = connection.exec_driver_sql(*_for_sqlalchemy(connection.dialect, statement, parameters))
    return list(result.all()) if result.returns_rows else []


async def _on_sqlalchemy_async(connection: Any, statement: Statement, parameters: Parameters) -> list[Row]:
    result = await connection.exec_driver_sql(*_for_sqlalchemy(connection.dialect, statement, parameters))
    return list(result.all()) if result.returns_rows else []


_SYNC: dict[str, Callable[[Any, Statement, Parameters], list[Row]]] = {
    "sqlite3.Connection": _on_sqlite3,
    "psycopg.Connection": _on_psycopg,
    "sqlalchemy.Connection": _on_sqlalchemy,
    "sqlalchemy.Session": _on_sqlalchemy,
    "sqlalchemy.scoped_session": _on_sqlalchemy,
}
_ASYNC: dict[str, Callable[[Any, Statement, Parameters], Awaitable[list[Row]]]] = {
    "psycopg.AsyncConnection": _on_psycopg_async,
    "asyncpg.Connection": _on_asyncpg,
    "asyncpg.PoolConnectionProxy": _on_asyncpg,
    "aiosqlite.Connection": _on_aiosqlite,
    "sqlalchemy.AsyncConnection": _on_sqlalchemy_async,
    "sqlalchemy.AsyncSession": _on_sqlalchemy_async,
    "sqlalchemy.async_scoped_session": _on_sqlalchemy_async,
}
_SESSIONS = {name for name in (*_SYNC, *_ASYNC) if name.lower().endswith("session")}
