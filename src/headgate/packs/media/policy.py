"""The one policy for requests to a site: yt-dlp is called in the same way for every task."""

import hashlib
import os
import shlex
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from headgate.packs import Allowed, Fatal, Invalid
from headgate.packs.media.addresses import checked_url
from headgate.packs.media.errors import SiteError
from headgate.packs.media.settings import MediaSettings

PAGE = 100  # items of a collection that are listed, written and reported together
SAMPLE = 20  # items that `parse` shows of a collection
USER_AGENTS = {
    "desktop": "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/126.0.0.0 Safari/537.36",
    "mobile": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.5 Mobile/15E148 Safari/604.1",
    "alt": "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
}
LONGEST_FILE_KEY = 120
STEADY = "desktop"  # with a cookie a site sees one browser, always the same
# Lines of yt-dlp's output that are records: a mark, the kind, JSON.
MARK = "headgate:"
ITEM, COLLECTION, PROGRESS, FILE, ERROR = "item", "collection", "progress", "file", "error"
_FIELDS = {
    ITEM: "%(.{id,title,url,webpage_url,playlist_index,playlist_title,playlist_count})j",
    COLLECTION: "%(.{id,title,playlist_count})j",
    PROGRESS: "%(progress.{status,downloaded_bytes,total_bytes,total_bytes_estimate})j",
    FILE: "%(.{id,title,filepath})j",
}
_LOOK = ("--simulate", "--flat-playlist")  # what is named, without a request for each item


@dataclass(frozen=True, slots=True)
class Request:
    """What a task asks of a site. `turn` grows with each, so that those without a cookie rotate their profiles."""

    url: str
    requires_cookie: bool = False
    ua_profile: str | None = None
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """Arguments of yt-dlp, without the cookie, the seconds that it may take, and where it may go."""

    arguments: tuple[str, ...]
    seconds: float
    allowed: Allowed = field(default_factory=Allowed)  # public addresses


class RequestPolicy:
    """How requests are made: user agent, Referer, retries, delays, extractor arguments, time limits."""

    def __init__(self, settings: MediaSettings) -> None:
        self.settings = settings
        self.longest_list = settings.list_max_chunks * PAGE

    def user_agent(self, request: Request) -> str:
        if request.requires_cookie:
            return USER_AGENTS[STEADY]
        rotation = self.settings.profiles
        return USER_AGENTS[request.ua_profile or rotation[request.turn % len(rotation)]]

    def uses_cache(self, error: Exception, failures: int, has_list: bool) -> bool:
        """Whether to download from the stored list, for now: the site failed twice to give a new one."""
        busy = isinstance(error, SiteError) and (error.status or 0) in (412, 429, *range(500, 600))
        return has_list and failures > 0 and (busy or isinstance(error, ConnectionError | TimeoutError))

    def expected_total(self, request: Request) -> Command:
        """Ask for the figure that the site itself gives: no item is read, so that the size costs nothing."""
        return self._command(
            request, self.settings.expected_total_timeout,
            *_LOOK, "--playlist-items", "0", *_print("playlist", COLLECTION), *_print("video", ITEM),
        )  # fmt: skip

    def parse(self, request: Request) -> Command:
        return self._command(
            request, self.settings.meta_cmd_timeout,
            *_LOOK, "--playlist-items", f"1:{SAMPLE}",
            *_print("playlist", COLLECTION), *_print("video", ITEM),
        )  # fmt: skip

    def list_from(self, request: Request, listed: int) -> Command:
        """List the items behind the first `listed`, as they come; pages that are not needed are not read."""
        return self._command(
            request, self.settings.list_fetch_cmd_timeout,
            *_LOOK, "--lazy-playlist", "--playlist-items", f"{listed + 1}:{self.longest_list}",
            *_print("video", ITEM),
        )  # fmt: skip

    def download(self, request: Request, folder: str, key: str | None) -> Command:
        """Download one item into a folder; its key is in the file's name, and a part that is there is continued."""
        name = "%(id)s" if key is None else file_key(key).replace("%", "%%")
        return self._command(
            request, self.settings.download_cmd_timeout,
            "--no-playlist", "--continue", "--no-overwrites", "--paths", folder,
            "--output", f"%(title).80B [{name}].%(ext)s", "--progress", "--newline",
            "--progress-delta", "0.5",
            "--progress-template", f"download:{MARK}{PROGRESS} {_FIELDS[PROGRESS]}", *_print("after_move", FILE),
        )  # fmt: skip

    def _command(self, request: Request, seconds: float, *arguments: str) -> Command:
        try:
            url = checked_url(request.url, self.settings.allowed)
        except Invalid as error:
            raise Fatal(str(error)) from None
        return Command((*self._manners(url, request), *arguments, "--", url), seconds, self.settings.allowed)

    def _manners(self, url: str, request: Request) -> list[str]:
        settings = self.settings
        retries = str(settings.yt_dlp_retries)
        parts = urlsplit(url)
        return [
            "--downloader", "m3u8:native", "--downloader", "dash:native",  # ffmpeg would not go by our proxy alone
            "--ignore-config", "--quiet", "--no-warnings", "--encoding", "utf-8",
            *(word for folder in filter(None, settings.yt_dlp_plugin_dirs.split(os.pathsep))
              for word in ("--plugin-dirs", folder)),
            *(word for each in shlex.split(settings.yt_dlp_extractor_args) for word in ("--extractor-args", each)),
            "--user-agent", self.user_agent(request),
            "--add-headers", f"Referer:{parts.scheme}://{parts.netloc}/",
            "--retries", retries, "--fragment-retries", retries, "--extractor-retries", "0",
            "--retry-sleep", "exp=1:20",
            "--sleep-requests", f"{settings.yt_dlp_sleep_requests:g}", "--socket-timeout", "20",
        ]  # fmt: skip


def file_key(key: str) -> str:
    """An item's key as it stands in the name of its file: of plain characters, and not too many."""
    plain = quote(key, safe="")
    return plain if len(plain) <= LONGEST_FILE_KEY else hashlib.sha256(key.encode()).hexdigest()


def _print(when: str, kind: str) -> tuple[str, str]:
    return "--print", f"{when}:{MARK}{kind} {_FIELDS[kind]}"
