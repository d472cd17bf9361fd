"""The store under test: SQLite and PostgreSQL in turn, empty, with a clock that the test moves."""

from collections.abc import Iterator

import pytest

from headgate.store import Store, open_store
from tests.factories import TYPES, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    """An empty store that knows the types of `tests.factories`."""
    with open_store(url, clock) as opened:
        for kind in TYPES:
            opened.put_type(kind)
        yield opened
