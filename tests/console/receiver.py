"""Who is told by callbacks, in the tests: it answers as it is set to."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class Receiver:
    """An address on this machine, and the status that it answers with."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/hook"
        self.status = 204


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(server.server_port)
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


def let_it_call(folder: Path) -> None:
    """Settings of a server that may call this machine, and can keep a secret."""
    (folder / "headgate.toml").write_text(f'callback_allow = "127.0.0.0/8"\nsecret = "{"s3cret" * 8}"\n')
