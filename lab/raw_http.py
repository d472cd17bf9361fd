"""HTTP by hand, over a socket: for what no well-behaved client sends."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PATIENCE = 60.0
CHUNK = 64 * 1024


class RawAnswer(NamedTuple):
    """What came back; status 0 if the connection ended without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    """A connection to a server, from an address of this machine that may be chosen (127.0.0.1, 127.0.0.2, …)."""

    def __init__(self, address: str, source: str = "127.0.0.1") -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host = f"{parts.hostname}:{parts.port}"
        self.socket = socket.create_connection((parts.hostname, parts.port), PATIENCE, (source, 0))
        self._unread = b""

    def send(self, data: bytes) -> bool:
        """Whether all of it was taken; the server may have closed."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def head(self, method: str, path: str, **headers: str) -> bytes:
        """The head of a request. Underscores of names stand for hyphens."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> RawAnswer:
        """A whole request, and its answer."""
        data = b"" if body is None else json.dumps(body).encode()
        if data:
            headers |= {"Content_Type": "application/json", "Content_Length": str(len(data))}
        self.send(self.head(method, path, **headers) + data)
        return self.answer()

    def answer_head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the next answer, as soon as they are there."""
        head = self._until(b"\r\n\r\n")
        if head is None:
            return 0, {}
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(first.split()[1]), headers

    def answer(self) -> RawAnswer:
        """The next answer, read to its end: by its length, its chunks, or the end of the connection."""
        status, headers = self.answer_head()
        return RawAnswer(status, headers, self.answer_body(headers))

    def answer_body(self, headers: dict[str, str]) -> bytes:
        """The body of an answer with this head."""
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        return b"".join(self.chunks()) if headers.get("transfer-encoding") == "chunked" else b""

    def ended(self) -> bool:
        """Wait for the server to close, and read what comes before; False if it does not within our patience."""
        try:
            while self._more():
                pass
        except TimeoutError:
            return False
        return True

    def _more(self) -> bool:
        try:
            data = self.socket.recv(CHUNK)
        except TimeoutError:
            raise
        except OSError:  # reset: it is over all the same
            data = b""
        self._unread += data
        return bool(data)

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._unread:
            if not self._more():
                return None
        found, _, self._unread = self._unread.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size and self._more():
            pass
        found, self._unread = self._unread[:size], self._unread[size:]
        return found

    def chunks(self) -> Iterator[bytes]:
        """The parts of a chunked answer, as they come."""
        while size := int(self._until(b"\r\n") or b"0", 16):
            yield self._exactly(size)
            self._exactly(2)
        self._exactly(2)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()


@contextmanager
def raw_client(address: str, source: str = "127.0.0.1") -> Iterator[RawClient]:
    client = RawClient(address, source)
    try:
        yield client
    finally:
        client.close()
