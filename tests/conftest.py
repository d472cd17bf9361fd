"""One PostgreSQL for the whole run: the controller starts it, and xdist's workers inherit its address."""

import os

import pytest
from hypothesis import settings

from lab.postgres import Postgres

VARIABLE = "HEADGATE_TEST_POSTGRES"


def pytest_configure(config: pytest.Config) -> None:
    if VARIABLE in os.environ:
        return
    server = Postgres().start()
    config.add_cleanup(server.stop)
    environment = pytest.MonkeyPatch()
    environment.setenv(VARIABLE, server.url)
    config.add_cleanup(environment.undo)


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The URL of a PostgreSQL that this run may do anything to."""
    return os.environ[VARIABLE]


# The same examples every time, so that a red run is about the change; HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
