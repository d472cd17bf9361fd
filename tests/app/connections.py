"""The connections a program may have of its own, each with a transaction to commit or to roll back."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiosqlite
import asyncpg  # type: ignore[import-untyped]
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool


def file_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def schema_of(url: str) -> str:
    [options] = parse_qs(urlsplit(url).query)["options"]
    return options.removeprefix("-csearch_path=")


def bare(url: str) -> str:
    """A PostgreSQL's URL without the schema."""
    return url.partition("?")[0]


@contextmanager
def plain(url: str) -> Iterator[Any]:
    """The database's own driver."""
    connection = sqlite3.connect(file_of(url)) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(connection):
        yield connection


@contextmanager
def engine(url: str) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    yield made
    made.dispose()


@contextmanager
def sqlalchemy_connection(url: str) -> Iterator[Any]:
    with engine(url) as made, made.connect() as connection:
        yield connection


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Any]:
    with engine(url) as made, Session(made) as session:
        yield session


SYNC = [plain, sqlalchemy_connection, sqlalchemy_session]


class Asyncpg:
    """asyncpg's connection beside a transaction of it, which is where it commits."""

    def __init__(self, connection: Any) -> None:
        self.own = connection
        self.transaction = connection.transaction()

    async def commit(self) -> None:
        await self.transaction.commit()

    async def rollback(self) -> None:
        await self.transaction.rollback()

    async def execute(self, text: str) -> None:
        await self.own.execute(text)


@asynccontextmanager
async def plain_async(url: str) -> AsyncIterator[Any]:
    if url.startswith("sqlite"):
        async with aiosqlite.connect(file_of(url)) as connection:
            yield connection
    else:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            yield connection


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(bare(url), server_settings={"search_path": schema_of(url)})
    made = Asyncpg(connection)
    await made.transaction.start()
    yield made
    await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[Any]:
    settings = {"search_path": schema_of(url)}
    async with (
        asyncpg.create_pool(bare(url), min_size=1, max_size=1, server_settings=settings) as pool,
        pool.acquire() as connection,
    ):
        made = Asyncpg(connection)
        await made.transaction.start()
        yield made


@asynccontextmanager
async def async_engine(url: str, driver: str) -> AsyncIterator[Any]:
    words: dict[str, Any] = {"poolclass": NullPool}
    if driver == "asyncpg":
        words["connect_args"] = {"server_settings": {"search_path": schema_of(url)}}
        url = bare(url)
    made = create_async_engine(f"{url.partition(':')[0]}+{driver}:{url.partition(':')[2]}", **words)
    yield made
    await made.dispose()


def sqlalchemy_async(driver: str) -> Any:
    @asynccontextmanager
    async def connect(url: str) -> AsyncIterator[Any]:
        async with async_engine(url, driver) as made, made.connect() as connection:
            yield connection

    return connect


def sqlalchemy_async_session(driver: str) -> Any:
    @asynccontextmanager
    async def connect(url: str) -> AsyncIterator[Any]:
        async with async_engine(url, driver) as made, AsyncSession(made) as session:
            yield session

    return connect


ASYNC = {
    "aiosqlite": plain_async,
    "aiosqlite by sqlalchemy": sqlalchemy_async("aiosqlite"),
    "aiosqlite by a session": sqlalchemy_async_session("aiosqlite"),
    "psycopg": plain_async,
    "psycopg by sqlalchemy": sqlalchemy_async("psycopg"),
    "psycopg by a session": sqlalchemy_async_session("psycopg"),
    "asyncpg": asyncpg_connection,
    "asyncpg from a pool": asyncpg_pooled,
    "asyncpg by sqlalchemy": sqlalchemy_async("asyncpg"),
    "asyncpg by a session": sqlalchemy_async_session("asyncpg"),
}
