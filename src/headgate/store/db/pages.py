"""Lists, a page at a time: the largest page, where the first begins, and how to continue to the last."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate.core.errors import Invalid

Item = TypeVar("Item")
MOST_PER_PAGE = 200
MOST_PAGE_BYTES = 2 * 1024 * 1024
LAST_ID = (1 << 63) - 1  # above every id
EXACT_UP_TO = 10_000  # what is counted, at most: one more stands for anything above


def page_size(limit: int) -> int:
    """As many as are asked for, within what a page may hold."""
    return max(1, min(limit, MOST_PER_PAGE))


def check_page_size(limit: int, things: str) -> None:
    """Raise `Invalid` unless `limit` is a valid page size."""
    if not 1 <= limit <= MOST_PER_PAGE:
        raise Invalid(f"a page holds 1 to {MOST_PER_PAGE} {things}")


def fitting(items: Iterable[Item], size: Callable[[Item], int]) -> list[Item]:
    """Those at the beginning that fit into a page, one at least; the rest is not asked for."""
    page, left = list[Item](), MOST_PAGE_BYTES
    for item in items:
        left -= size(item)
        if page and left < 0:
            break
        page.append(item)
    return page


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """What was found, newest first, and the cursor of the next page (None at the end).

    A page with a cursor may have fewer items than were asked for, or none: it has looked at enough, or is large enough.
    """

    items: list[Item]
    next_cursor: int | None


def every(find: Callable[[int | None], Page[Item]]) -> Iterator[Item]:
    """Each item of a list, page after page. `find` takes the cursor of a page."""
    cursor = None
    while True:
        page = find(cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
