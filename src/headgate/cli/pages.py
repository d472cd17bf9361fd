"""Lists that the store gives a page at a time."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class HasId(Protocol):
    @property
    def id(self) -> int: ...


ItemWithId = TypeVar("ItemWithId", bound=HasId)


class HasCursor(Protocol[Item]):
    """A page, and the cursor of the next one; None at the end. A page may be short, or empty, before the end."""

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


def all_pages(find: Callable[[int | None], HasCursor[Item]]) -> Iterator[Item]:
    """Every item, page by page; the next page is read when the last one is used up."""
    page = find(None)
    yield from page.items
    while page.next_cursor is not None:
        page = find(page.next_cursor)
        yield from page.items


def all_after(find: Callable[[int | None], list[ItemWithId]]) -> Iterator[ItemWithId]:
    """Every item of a list whose pages continue after an id, until one is empty."""
    after = None
    while page := find(after):
        yield from page
        after = page[-1].id
