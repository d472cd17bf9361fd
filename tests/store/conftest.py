"""The store under test: SQLite and PostgreSQL in turn, empty, with a clock that the test moves.

With HEADGATE_TEST_POOLER set it is behind a PgBouncer in transaction mode.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.store.store import Store, open_store
from lab.pgbouncer import PgBouncer
from tests.conftest import DATABASES, own_schema
from tests.factories import TYPES, Clock
from tests.store.places import Places


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def reached_by(postgres_server: str) -> Iterator[Callable[[str], str]]:
    """The URL by which a store is opened: its own, or that of a pooler."""
    if "HEADGATE_TEST_POOLER" not in os.environ:
        yield lambda url: url
        return
    with PgBouncer(postgres_server, schema=own_schema()) as pooler:
        yield lambda url: pooler.url if url.startswith("postgresql:") else url


@pytest.fixture
def store(url: str, clock: Clock, reached_by: Callable[[str], str]) -> Iterator[Store]:
    """An empty store that knows the types of `tests.factories`."""
    with open_store(reached_by(url), clock) as opened:
        for kind in TYPES:
            opened.types.put(kind)
        yield opened


@pytest.fixture(params=DATABASES)
def places(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: str) -> Iterator[Places]:
    """Where empty databases can be had, of each kind in turn."""
    made = Places(request.param, tmp_path, postgres_server)
    yield made
    made.clear()
