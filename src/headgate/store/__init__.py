"""The only place that speaks SQL: one contract, two databases."""

from headgate.store.base import Store
from headgate.store.open import open_store

__all__ = ["Store", "open_store"]
