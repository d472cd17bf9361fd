"""How yt-dlp reads the collections of the sample site: page by page, and only the pages that are asked for."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from yt_dlp.extractor.common import InfoExtractor
from yt_dlp.utils import OnDemandPagedList

PAGE = 100


class HeadgateSampleIE(InfoExtractor):  # type: ignore[misc]
    """A collection of the sample site. Its first page says how many items there are."""

    _VALID_URL = r"(?P<site>http://(?:127\.0\.0\.1|localhost)(?::\d+)?)/list/(?P<id>[\w-]+)"

    def _real_extract(self, url: str) -> Any:
        site, name = self._match_valid_url(url).group("site", "id")
        first = self._page(site, name, 0)
        entries = OnDemandPagedList(partial(self._entries, site, name, first), PAGE)
        return self.playlist_result(entries, name, first["title"], playlist_count=first["total"])

    def _entries(self, site: str, name: str, first: Any, number: int) -> Iterator[Any]:
        page = first if number == 0 else self._page(site, name, number)
        for item in page["items"]:
            yield self.url_result(site + item["file"], video_id=item["id"], video_title=item["title"])

    def _page(self, site: str, name: str, number: int) -> Any:
        return self._download_json(
            f"{site}/list/{name}", name, f"Downloading page {number + 1}", query={"page": number}
        )
