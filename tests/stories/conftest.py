"""The stores of the stories."""

from tests.store.conftest import postgres, postgres_url

__all__ = ["postgres", "postgres_url"]
