"""Processes whose parent has ended: this process takes them in, and reaps them when they end."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

import psutil

_SET_CHILD_SUBREAPER = 36


class Orphans:
    """What the children of this process leave behind becomes its own (Linux), and must not stay as zombies."""

    def __init__(self) -> None:
        self._starting = 0
        self._awaited: set[int] = set()
        if sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """A child is being started whose pid is not known yet: nobody is reaped meanwhile."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    @contextlib.contextmanager
    def awaited(self, pid: int) -> Iterator[None]:
        """The event loop itself waits for this child."""
        self._awaited.add(pid)
        try:
            yield
        finally:
            self._awaited.discard(pid)

    def reap(self) -> None:
        """Let no zombie remain but those that somebody waits for."""
        if self._starting:
            return
        for left in psutil.Process().children():
            with contextlib.suppress(ChildProcessError, psutil.Error):
                if left.pid not in self._awaited and left.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(left.pid, os.WNOHANG)


ORPHANS = Orphans()
