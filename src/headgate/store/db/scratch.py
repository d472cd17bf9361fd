"""Empty databases to try something on, one after the other; whatever else is there is not touched."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from headgate.core.errors import Invalid
from headgate.environment import new_ids

Open = Callable[[Callable[[], datetime]], Any]  # an empty database that goes by this clock


@contextmanager
def scratch(url: str) -> Iterator[Open]:
    """`sqlite://` gives databases in memory, `postgresql://…` a schema of their own there, gone afterwards."""
    scheme = urlsplit(url).scheme
    if scheme not in ("sqlite", "postgresql", "postgres"):
        raise Invalid("a store's URL must begin with sqlite:// or postgresql://")
    if scheme == "sqlite":
        sqlite = importlib.import_module("headgate.store.db.sqlite")
        yield lambda clock: sqlite.Sqlite(":memory:", clock)
        return
    with scratch_schema(url) as (_, renew):
        postgres = importlib.import_module("headgate.store.db.postgres")
        yield lambda clock: postgres.Postgres(renew(), clock, alone=True)


@contextmanager
def scratch_schema(url: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """A schema on PostgreSQL, gone afterwards: its name, and what makes it anew and returns a URL that leads there."""
    psycopg = importlib.import_module("psycopg")
    name = "headgate_scratch_" + new_ids(1)[0][:8]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")

        def renew() -> str:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
            connection.execute(f"CREATE SCHEMA {name}")
            return str(psycopg.conninfo.make_conninfo(url, options=f"-c search_path={name}"))

        try:
            yield name, renew
        finally:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
