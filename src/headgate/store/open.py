"""A store from its URL."""

import importlib
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from headgate.core.errors import Invalid, Unavailable
from headgate.outside import monotonic, utc_now
from headgate.settings import check_schema
from headgate.store.base import Store

Clock = Callable[[], datetime]


def open_store(
    url: str = "sqlite:///headgate.db", clock: Clock | None = None, *, pooled: bool = False, schema: str = ""
) -> Store:
    """The store at `url`: `sqlite:///FILE`, `sqlite://` (in memory) or `postgresql://…`.

    `Unavailable` for a file that cannot be opened. `clock` replaces the wall clock, and on PostgreSQL the database's,
    for tests and simulations. `pooled` is for PostgreSQL behind a pooler in transaction mode: nothing is kept on a
    connection from one transaction to the next. `schema` is the PostgreSQL schema of its tables, whatever the
    search_path; without one they are where the search_path finds them.
    """
    check_schema(schema)
    scheme = urlsplit(url).scheme
    steady = monotonic if clock is None else lambda: clock().timestamp()
    if scheme == "sqlite":
        if schema:
            raise Invalid("a schema is for PostgreSQL: a SQLite file has none, unset HEADGATE_SCHEMA")
        path = url.removeprefix("sqlite://").removeprefix("/") or ":memory:"
        room = _room("sqlite")
        try:
            return Store(room.Sqlite(path, clock or utc_now), steady)
        except (OSError, room.sqlite3.Error) as error:
            raise Unavailable(f"the store {path} cannot be opened: {error}") from error
    if scheme in ("postgresql", "postgres"):
        return Store(_room("postgres").Postgres(url, clock, pooled=pooled, schema=schema), steady)
    raise Invalid("a store's URL begins with sqlite:// or postgresql://")


def _room(dialect: str) -> Any:
    """The module of one database, loaded when it is used: a process pays for one driver, not for both."""
    return importlib.import_module(f"headgate.store.{dialect}")
