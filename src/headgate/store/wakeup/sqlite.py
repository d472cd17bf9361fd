"""News between processes on SQLite: a folder beside the file, with a datagram socket for each listening process."""

import logging
import os
import socket
import stat
import threading
import time
from contextlib import suppress

from headgate.store.db.private_files import FILE, make_folder, restrict
from headgate.store.wakeup.message import MOST_BYTES, News, encode
from headgate.store.wakeup.thread import Hear, Listener

log = logging.getLogger("headgate.store")

LONGEST_ADDRESS = 100
FILES = "/proc/self/fd"
SETTLED_SECONDS = 0.1  # a folder's time is coarse: two changes of one tick look like one
TRIES = 20
RETRY_SECONDS = 0.001
MOST_AT_ONCE = 100


class Mailboxes:
    """Where the other processes of one file listen. With no listener it costs one look at the folder's time."""

    def __init__(self, folder: str, token: str) -> None:
        self._folder = folder
        self._token = token
        self._own = f"{token}.socket"
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._names: list[str] = []
        self._file = -1
        self._out: socket.socket | None = None
        self._box: Mailbox | None = None

    def listen(self, hear: Hear) -> None:
        """Call `hear` with news of other processes, where the system supports it."""
        if self._box is not None:
            return
        try:
            self._box = self._open_box(hear)
        except OSError as error:
            log.debug("wake-ups not received: error=%s", error)
        else:
            self._box.start()

    def _open_box(self, hear: Hear) -> "Mailbox":
        make_folder(self._folder)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bound.setblocking(False)
        try:
            with self._lock:
                bound.bind(self._address(self._own))
            restrict(f"{self._folder}/{self._own}", FILE)
            return Mailbox(bound, f"{self._folder}/{self._own}", self._token, hear)
        except BaseException:
            bound.close()
            raise

    def tell(self, news: News) -> None:
        """Send news to all listening processes, without waiting; a request to a running task gets a few tries."""
        try:
            with self._lock:
                names = self._who_listens()
                if not names:
                    return
                text = encode(news, self._token).encode()
                crowded = [name for name in names if not self._sent(name, text)]
            for _ in range(TRIES if news.requested else 0):
                if not crowded:
                    break
                time.sleep(RETRY_SECONDS)
                with self._lock:
                    crowded = [name for name in crowded if not self._sent(name, text)]
        except OSError as error:
            log.debug("wake-up not sent: error=%s", error)

    def _who_listens(self) -> list[str]:
        try:
            found = os.stat(self._folder)
        except FileNotFoundError:
            return []
        seen = (found.st_ino, found.st_mtime_ns)
        if seen != self._seen:
            with os.scandir(self._folder) as entries:
                self._names = [
                    entry.name
                    for entry in entries
                    if entry.name != self._own and stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
                ]
            self._forget_folder()
            self._seen = seen if time.time() - found.st_mtime > SETTLED_SECONDS else None
        return self._names

    def _sent(self, name: str, text: bytes) -> bool:
        """Send to one socket; False if its buffer is full: for wakes that is as good."""
        if self._out is None:
            self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._out.setblocking(False)
        try:
            self._out.sendto(text, self._address(name))
        except BlockingIOError:
            return False
        except ConnectionRefusedError:  # its process is gone
            with suppress(OSError):  # a folder that we may not change: still send to the rest
                os.unlink(f"{self._folder}/{name}")
        except OSError as error:
            log.debug("wake-up not sent: error=%s", error)
        return True

    def _address(self, name: str) -> str:
        """The socket's path or, if that is too long for an address, a path through a file descriptor we have open."""
        path = f"{self._folder}/{name}"
        if len(os.fsencode(path)) <= LONGEST_ADDRESS or not os.path.isdir(FILES):
            return path
        if self._file < 0:
            self._file = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        return f"{FILES}/{self._file}/{name}"

    def _forget_folder(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def close(self) -> None:
        """Stop receiving and sending."""
        if self._box is not None:
            self._box.close()
        with self._lock:
            self._forget_folder()
            if self._out is not None:
                self._out.close()
                self._out = None


class Mailbox(Listener):
    """One process's socket, read until it is closed."""

    def __init__(self, bound: socket.socket, path: str, token: str, hear: Hear) -> None:
        super().__init__(token, hear)
        self._socket = bound
        self._path = path

    def _listen(self) -> None:
        self._hear(News(missed=True))
        try:
            while not self._closing:
                self._wait(of=self._socket.fileno())
                if news := self._read():
                    self._hear(news)
        except OSError as error:
            log.debug("wake-ups not received: error=%s", error)
        finally:
            self._socket.close()
            try:
                os.unlink(self._path)
            except OSError as error:
                log.debug("socket not removed: path=%s error=%s", self._path, error)

    def _read(self) -> News:
        news = News()
        for _ in range(MOST_AT_ONCE):
            try:
                self._take(news, self._socket.recv(MOST_BYTES + 1))
            except BlockingIOError:
                break
        return news
