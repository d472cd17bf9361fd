"""The stores under test, as for the store's own tests."""

from tests.store.conftest import clock, store  # noqa: F401
