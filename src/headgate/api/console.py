"""The web console's files: built by `make console`, shipped in the wheel, the same for everybody."""

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.pack import Pack

BUILT = Path(__file__).parents[1] / "console"
ASSETS = "/assets/"
FOREVER = b"public, max-age=31536000, immutable"  # their names change with their content
# Scripts, styles and data come from this server alone, and none of them from within a page.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
NOT_BUILT = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Headgate</title></head><body>
<h1>The console is not built</h1>
<p>This is a checkout. Build the console with <code>make console</code>, and load this page again.</p>
<p>The API is at <a href="/api/docs">/api/docs</a>.</p></body></html>
"""
Header = tuple[bytes, bytes]


def is_page(scope: Any) -> bool:
    """Whether somebody asks for the console: for anything that is not the API's."""
    path = scope["path"]
    return scope["method"] in ("GET", "HEAD") and not (
        path in ("/api", "/metrics", "/livez", "/readyz") or path.startswith("/api/")
    )


@dataclass(frozen=True, slots=True)
class File:
    """A file, as it is and compressed."""

    body: bytes
    media: bytes
    packed: dict[bytes, bytes]


class Console:
    """Answers for the console's pages and files; whatever else is asked is for the API inside."""

    def __init__(self, inside: ASGIApp, packs: Sequence[Pack] = (), folder: Path = BUILT) -> None:
        self._inside = inside
        self._moved = {page.moved_from: page.path for pack in packs for page in pack.pages if page.moved_from}
        self._folder = folder
        self._files: dict[str, File] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_page(scope):
            await self._inside(scope, receive, send)
            return
        path: str = scope["path"]
        if path in self._moved:
            await _answer(scope, send, 307, b"", [(b"location", self._moved[path].encode())])
        elif file := self._file(path):
            caching = [(b"cache-control", FOREVER)] if path.startswith(ASSETS) else []
            await _send_file(scope, send, file, caching)
        elif path.startswith((ASSETS, "/static/")):
            await _answer(scope, send, 404, b"there is no such file", [(b"content-type", b"text/plain")])
        elif page := self._file("/index.html"):
            await _send_file(scope, send, page, [(b"content-security-policy", POLICY)])
        else:
            await _answer(scope, send, 200, NOT_BUILT, [(b"content-type", b"text/html; charset=utf-8")])

    def _file(self, path: str) -> File | None:
        """A file of the console; read once, as long as it is there."""
        if not self._files:
            self._files = _read(self._folder)
        return self._files.get(path)


def _read(folder: Path) -> dict[str, File]:
    """Every file by its path: what is not in this list cannot be asked for."""
    found = {}
    for file in folder.rglob("*"):
        name = "/" + file.relative_to(folder).as_posix()
        if not file.is_file() or "/." in name or file.suffix in (".br", ".gz"):
            continue
        packed = {
            encoding: packed_file.read_bytes()
            for encoding, ending in ((b"br", ".br"), (b"gzip", ".gz"))
            if (packed_file := file.with_name(file.name + ending)).exists()
        }
        media = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        found[name] = File(file.read_bytes(), _with_charset(media), packed)
    return found


def _with_charset(media: str) -> bytes:
    return f"{media}; charset=utf-8".encode() if media.startswith("text/") else media.encode()


async def _send_file(scope: Any, send: Send, file: File, headers: Sequence[Header]) -> None:
    accepted = next((value for name, value in scope["headers"] if name == b"accept-encoding"), b"")
    wanted = {each.split(b";")[0].strip() for each in accepted.split(b",") if not each.strip().endswith(b";q=0")}
    encoding = next((each for each in file.packed if each in wanted), None)
    all_headers = [(b"content-type", file.media), (b"vary", b"accept-encoding"), *headers]
    if encoding is not None:
        all_headers.append((b"content-encoding", encoding))
    await _answer(scope, send, 200, file.body if encoding is None else file.packed[encoding], all_headers)


async def _answer(scope: Any, send: Send, status: int, body: bytes, headers: Sequence[Header]) -> None:
    all_headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    content = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": content, "more_body": False})
