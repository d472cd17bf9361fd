"""A server as people start it, in a process of its own, and clients that speak to it by hand."""

from collections.abc import Iterator

import pytest

from lab.headgate_server import HeadgateServer, headgate_server
from lab.raw_http import RawClient, raw_client


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadgateServer]:
    """One for all tests that need no other, with the settings that it has by default."""
    with headgate_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server: HeadgateServer) -> Iterator[RawClient]:
    with raw_client(server.address) as connected:
        yield connected
