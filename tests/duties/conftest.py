"""The stores under test, as for the store's own tests."""

from tests.store.conftest import clock, reached_by, store  # noqa: F401
