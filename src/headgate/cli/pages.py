"""Lists that the store gives a page at a time: a page that found few, or none, is not the end."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class HasCursor(Protocol[Item]):
    """A page: what was found, and the cursor of the next page; None at the end."""

    @property
    def items(self) -> list[Item]: ...

    @property
    def next_cursor(self) -> int | None: ...


def collect_pages(
    find: Callable[[int | None, int], HasCursor[Item]], cursor: int | None, limit: int
) -> tuple[list[Item], int | None]:
    """Up to `limit` items, and the cursor of what follows. `find` takes a cursor and a limit."""
    found: list[Item] = []
    while True:
        page = find(cursor, limit - len(found))
        found += page.items
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            return found, cursor
