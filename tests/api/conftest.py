"""The API over a store of its own, on each database in turn."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from headgate.api.app import ApiApp, create_app
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.store import Store, open_store
from tests.factories import TYPES

HERE = "http://127.0.0.1"
Client = TestClient


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty store that knows the types of `tests.factories`."""
    with open_store(url) as opened:
        for kind in TYPES:
            opened.types.put(kind)
        yield opened


@pytest.fixture
def packs() -> str:
    """Which packs are on, with commas between."""
    return ""


@pytest.fixture
def app(store: Store, url: str, packs: str) -> ApiApp:
    set_up(store, find_packs(filter(None, packs.split(","))), migrate=True)
    return create_app(store, Settings(url=url, packs=packs))


@pytest.fixture
def client(app: ApiApp) -> Iterator[Client]:
    """Somebody at this machine, who may do everything."""
    with TestClient(app, base_url=HERE) as opened:
        yield opened
