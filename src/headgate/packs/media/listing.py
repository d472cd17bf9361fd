"""A collection as it is listed: items come one by one, and are written by the page."""

import hashlib
from collections.abc import Callable
from typing import Any

from headgate.packs.media.items import MOST_KEY, ListedItem
from headgate.packs.media.policy import ITEM, PAGE

Write = Callable[[list[ListedItem], "Listing"], None]


class Listing:
    """How far a list is: `listed` items are written; `total` is what the site says there are, if it does."""

    def __init__(self, listed: int, write: Write) -> None:
        self.listed = listed
        self.total: int | None = None
        self._before = listed
        self._write = write
        self._page: list[ListedItem] = []

    @property
    def got_on(self) -> bool:
        """Whether this run wrote items behind those that were listed: another would begin where this one ended."""
        return self.listed > self._before

    def take(self, kind: str, record: Any) -> None:
        """Take a record of yt-dlp's."""
        if kind != ITEM:
            return
        self.total = record.get("playlist_count") or self.total
        item = item_of(record, self.listed + len(self._page) + 1)
        if item is not None:
            self._page.append(item)
        if len(self._page) == PAGE:
            self.flush()

    def flush(self) -> None:
        """Write what came since the last page."""
        if self._page:
            page, self._page = self._page, []
            self.listed = max(self.listed, page[-1].position)
            self._write(page, self)


def item_of(record: Any, position: int) -> ListedItem | None:
    """The item that a record names; None if it has no address, like a title that was removed."""
    url = record.get("url") or record.get("webpage_url") or ""
    key = str(record.get("id") or url)
    if not url:
        return None
    if len(key) > MOST_KEY:
        key = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    texts = [text.replace("\0", "") for text in (key, str(record.get("title") or key), url)]
    return ListedItem(texts[0], record.get("playlist_index") or position, texts[1], texts[2])
