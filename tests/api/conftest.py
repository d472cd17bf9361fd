"""The API over a store of its own, on each database in turn."""

from collections.abc import Iterator

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from headgate.api.app import create_app
from headgate.settings import Settings
from headgate.store import Store, open_store
from tests.factories import TYPES

HERE = "http://127.0.0.1"
Client = TestClient[Litestar]


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty store that knows the types of `tests.factories`."""
    with open_store(url) as opened:
        for kind in TYPES:
            opened.put_type(kind)
        yield opened


@pytest.fixture
def client(store: Store, url: str) -> Iterator[Client]:
    """Somebody at this machine, who may do everything."""
    with TestClient(create_app(store, Settings(url=url)), base_url=HERE) as opened:
        yield opened
