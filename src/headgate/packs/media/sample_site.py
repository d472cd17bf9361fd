"""A small site of videos on this machine, for tests and for a first look: yt-dlp reads it without the internet.

A collection is `/list/WORDS-COUNT` (as `/list/birds-3`), its items are the files `/file/WORDS-COUNT.NUMBER.mp4`. The
first of the words says how the site behaves: `members` wants a cookie, `slow` sends its files bit by bit, `cut` breaks
the connection in the middle of a file that is asked for as a whole, `weary` fails once behind the first page of a list,
`status-404` answers with that status; anything else is plain.
"""

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 100  # items of a collection in one answer
FILE_BYTES = 20_000
SLOW_BYTES = 2_000_000
STEP_BYTES = 10_000
STEP_SECONDS = 0.02
RETRY_AFTER = 7
COOKIE = "member=yes"
PLUGINS = Path(__file__).parent  # has a folder with the plugin that teaches yt-dlp this site's collections
_LIST = re.compile(r"/list/(?P<name>[\w-]+?-(?P<count>\d{1,6}))")
_FILE = re.compile(r"/file/(?P<id>[\w-]+(?:\.\d+)?)\.mp4")
_STATUS = re.compile(r"status-(\d{3})\b")


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came in."""

    path: str
    user_agent: str
    referer: str
    cookie: str
    first_byte: int  # that it asked for


class SampleSite(ThreadingHTTPServer):
    """The site, on a port of this machine; `requests` are those that came, in order."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.requests: list[Seen] = []
        self.step_seconds = STEP_SECONDS  # between two parts of a slow file
        self.rested = False  # whether a weary list continues

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone; yt-dlp does so when it has seen enough of a file."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def paths(self, beginning: str = "/") -> list[str]:
        """The paths that were asked for."""
        return [seen.path for seen in self.requests if seen.path.startswith(beginning)]


class _Handler(BaseHTTPRequestHandler):
    server: SampleSite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        self.server.requests.append(
            Seen(self.path, self._header("User-Agent"), self._header("Referer"), self._header("Cookie"), self._first())
        )
        if path.path == "/":
            self._answer(200, __doc__.encode(), "text/plain; charset=utf-8")
        elif found := _LIST.fullmatch(path.path):
            if self._lets_in(found["name"]):
                self._send_page(found["name"], int(found["count"]), int(parse_qs(path.query).get("page", ["0"])[0]))
        elif found := _FILE.fullmatch(path.path):
            if self._lets_in(found["id"]):
                self._send_file(found["id"])
        else:
            self._answer(404)

    do_HEAD = do_GET  # noqa: N815 the name is the server's

    def _lets_in(self, name: str) -> bool:
        """Whether the client may see the item of this name; if not, the refusal is sent."""
        if found := _STATUS.match(name):
            self._answer(int(found[1]), headers={"Retry-After": str(RETRY_AFTER)} if found[1] in ("429", "503") else {})
            return False
        if name.startswith("members") and COOKIE not in self._header("Cookie"):
            self._answer(403)
            return False
        return True

    def _send_page(self, name: str, count: int, number: int) -> None:
        if name.startswith("weary") and number > 0 and not self.server.rested:
            self.server.rested = True
            self._answer(500)
        else:
            self._answer(200, json.dumps(_page(name, count, number)).encode())

    def _send_file(self, name: str) -> None:
        slow = name.startswith("slow")
        content = _content(name, SLOW_BYTES if slow else FILE_BYTES)
        first = self._first()
        if first >= len(content):
            self._answer(416, headers={"Content-Range": f"bytes */{len(content)}"})
            return
        self.send_response(206 if self._header("Range") else 200)
        self.send_header("Content-Type", "video/mp4")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content) - first))
        if self._header("Range"):
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "GET":
            self._send(name, content[first:], slow)

    def _send(self, name: str, content: bytes, slow: bool) -> None:
        cut = name.startswith("cut") and not self._header("Range")
        self.close_connection = cut
        with suppress(ConnectionError):  # the client has gone
            for begin in range(0, len(content) // 2 if cut else len(content), STEP_BYTES):
                self.wfile.write(content[begin : begin + STEP_BYTES])
                time.sleep(self.server.step_seconds if slow else 0)

    def _answer(
        self, status: int, content: bytes = b"", kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _header(self, name: str) -> str:
        return str(self.headers.get(name) or "")

    def _first(self) -> int:
        found = re.match(r"bytes=(\d+)-", self._header("Range"))
        return int(found[1]) if found else 0

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: `requests` has it."""


def _page(name: str, count: int, number: int) -> dict[str, Any]:
    items = [
        {"id": f"{name}.{each}", "title": f"{name.replace('-', ' ')}, part {each}", "file": f"/file/{name}.{each}.mp4"}
        for each in range(number * PAGE + 1, min((number + 1) * PAGE, count) + 1)
    ]
    return {"title": name.replace("-", " "), "total": count, "items": items}


def _content(name: str, size: int) -> bytes:
    """The bytes of a file: the same each time, and others for each file."""
    head = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + name.encode()
    return head + bytes(size - len(head))


@contextmanager
def serving(port: int = 0) -> Iterator[SampleSite]:
    """The site, as long as the block runs."""
    with SampleSite(port) as site:
        threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield site
        finally:
            site.shutdown()
