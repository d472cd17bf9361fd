"""The store under test: SQLite and PostgreSQL in turn, empty, with a clock that the test moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.store.store import Store, open_store
from tests.conftest import DATABASES
from tests.factories import TYPES, Clock
from tests.store.places import Places


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    """An empty store that knows the types of `tests.factories`."""
    with open_store(url, clock) as opened:
        for kind in TYPES:
            opened.types.put(kind)
        yield opened


@pytest.fixture(params=DATABASES)
def places(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: str) -> Iterator[Places]:
    """Where empty databases can be had, of each kind in turn."""
    made = Places(request.param, tmp_path, postgres_server)
    yield made
    made.clear()
