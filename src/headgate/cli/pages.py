"""Lists that the store gives a page at a time: a page that found few, or none, is not the end."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Page(Protocol[Item]):
    """What was found, and where to go on; None at the end."""

    @property
    def items(self) -> list[Item]: ...

    @property
    def next_cursor(self) -> int | None: ...


def gathered(
    find: Callable[[int | None, int], Page[Item]], cursor: int | None, limit: int
) -> tuple[list[Item], int | None]:
    """So many, or all there are, and where to go on. `find` takes a cursor and how many to look for at most."""
    found: list[Item] = []
    while True:
        page = find(cursor, limit - len(found))
        found += page.items
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            return found, cursor
