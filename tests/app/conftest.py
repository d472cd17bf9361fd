"""A program on each database in turn."""

from collections.abc import Iterator

import pytest

from headgate import Headgate
from headgate.settings import Settings


@pytest.fixture
def app(url: str) -> Iterator[Headgate]:
    """A program that has declared nothing yet."""
    made = Headgate(settings=Settings(url=url))
    yield made
    made.close()
