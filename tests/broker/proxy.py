"""Between some clients and the broker: it can hang up when the broker has confirmed and the client has not heard so,
and keep back what would be answered by a queue that works."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

# basic.ack, basic.consume and queue.delete, as AMQP 0-9-1 has them
CONFIRM, CONSUME, DELETE = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x14", b"\x00\x32\x00\x28"


class Proxy:
    """Passes everything on, but for what it was told to keep."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        self._server = (there.hostname, there.port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{there.port}/", f":{self._door.getsockname()[1]}/", 1)
        self.has_cut = threading.Event()
        self.has_deleted = threading.Event()
        self._awaited: bytes | None = None
        self._broken: bytes | None = None
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def cut_before_confirm(self, routing_key: str) -> None:
        """Hang up when the broker confirms the next message with this routing key, and say so by `has_cut`."""
        self.has_cut.clear()
        self._awaited = routing_key.encode()

    def break_queue(self, name: str) -> None:
        """Let nobody consume this queue until it is deleted, and say so by `has_deleted`."""
        self._broken = name.encode()

    def close(self) -> None:
        for end in (self._door, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._door, *self._ends):
            end.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            self._ends.append(client)
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            self._ends.append(server)
            is_out = threading.Event()  # the message whose confirm is kept
            self._start(self._pass_questions, client, server, is_out)
            self._start(self._pass_answers, server, client, is_out)

    def _pass_questions(self, client: socket.socket, server: socket.socket, is_out: threading.Event) -> None:
        with suppress(OSError):
            while text := client.recv(65536):
                if self._awaited and self._awaited in text:
                    self._awaited = None
                    is_out.set()
                if self._broken and self._broken in text:
                    if CONSUME in text:
                        continue
                    if DELETE in text:
                        self._broken = None
                        self.has_deleted.set()
                server.sendall(text)
            server.shutdown(socket.SHUT_WR)

    def _pass_answers(self, server: socket.socket, client: socket.socket, is_out: threading.Event) -> None:
        with suppress(OSError):
            while text := server.recv(65536):
                if is_out.is_set() and CONFIRM in text:
                    self.has_cut.set()
                    server.shutdown(socket.SHUT_RDWR)
                    break
                client.sendall(text)
            client.shutdown(socket.SHUT_RDWR)
