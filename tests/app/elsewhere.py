"""Functions of a module whose annotations are text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal


async def fetch(page: int, words: list[str] | None = None) -> dict[str, int]:
    """Fetch a page."""
    return {"page": page}


def count(page: int) -> int:
    return page


def pay(amount: Decimal) -> None: ...
