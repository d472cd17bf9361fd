"""Turns at writing one file among processes: first come, first served, each with a time limit."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.core.errors import Unavailable
from headgate.store.db.private_files import open_file


class FileLock:
    """One process's place in the queue, for one thread at a time.

    The system queues fairly only callers that block without a limit, so a separate thread blocks, and its caller can
    give up. If the file is free, no other thread is needed.
    """

    def __init__(self, path: str) -> None:
        self._file = open_file(path)
        self._lock = threading.Lock()
        self._asked = threading.Semaphore(0)
        self._come = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._waiting = False  # of the thread: while it does, the file is not tried past it
        self._wanted = False
        self._closed = False

    @contextmanager
    def taken(self, seconds: float) -> Iterator[None]:
        """Hold the lock exclusively; `Unavailable` if it was not free within `seconds`."""
        with self._lock:
            free = not self._waiting and self._take_at_once()
            if not free:
                self._ask()
        if not free and not self._came(seconds):
            raise Unavailable(
                f"another process{_named(self._file)} has locked the store's file for {seconds:g} s:"
                " wait for it, or stop it"
            )
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take_at_once(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _ask(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="headgate turn", daemon=True)
            thread.start()
            self._thread = thread
        self._wanted = True
        if not self._waiting:
            self._waiting = True
            self._asked.release()

    def _came(self, seconds: float) -> bool:
        try:
            return self._come.acquire(timeout=seconds) or self._came_at_last()
        except BaseException:  # Ctrl-C
            if self._came_at_last():
                fcntl.flock(self._file, fcntl.LOCK_UN)
            raise

    def _came_at_last(self) -> bool:
        """Give up, unless it came this very moment."""
        with self._lock:
            self._wanted = False
            return self._come.acquire(blocking=False)

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if not self._closed:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            with self._lock:
                self._waiting = False
                if self._closed:
                    os.close(self._file)
                    return
                if self._wanted:
                    self._wanted = False
                    self._come.release()
                else:  # given up
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave the queue; a thread that still waits leaves it when its turn comes."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._thread is None:
                os.close(self._file)
            else:
                self._asked.release()


def _named(file: int) -> str:
    """Who holds the lock on a file, for a message; nothing where the system does not tell (it is Linux that does)."""
    try:
        inode = f":{os.fstat(file).st_ino}"
        locks = [line.split()[1:] for line in Path("/proc/locks").read_text().splitlines()]
        pid = next(words[3] for words in locks if words[0] == "FLOCK" and words[4].endswith(inode))
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, StopIteration, IndexError):
        return ""
    return f" (pid {pid}, stopped)" if state == "T" else f" (pid {pid})"
