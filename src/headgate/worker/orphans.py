"""Processes that tasks' processes leave behind: this process adopts them, and reaps them when they end."""

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from headgate.worker.child import MARK

REAP_SECONDS = 1.0
KILL_ROUNDS = 10  # a killed process may have started another just before
_SET_CHILD_SUBREAPER = 36


class Orphans:
    """Descendants of tasks' processes that have outlived them: children of this process (Linux), and no zombies.

    They are recognized by the session of the process they come from, or were seen in its tree. Other children are left
    alone: the handler that started one, in a thread, may read its exit code long after it has ended.
    """

    def __init__(self) -> None:
        self._sessions: set[int] = set()
        self._seen: set[psutil.Process] = set()
        self._awaited: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.adopts = False
        if sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                self.adopts = ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    @contextlib.contextmanager
    def awaited(self, pid: int) -> Iterator[None]:
        """The process of a task, with a session of its own; the event loop itself waits for it."""
        self._awaited.add(pid)
        self._sessions.add(pid)
        self._schedule_reap()
        try:
            yield
        finally:
            self._awaited.discard(pid)

    def kill_marked(self, exec_id: str) -> None:
        """Kill what an execution's process left behind, a daemon that forked twice too: it has become our child."""
        mark = f"{MARK}={exec_id}".encode()
        for _ in range(KILL_ROUNDS):
            marked = [child for child in psutil.Process().children(recursive=True) if _has_mark(child, mark)]
            if not marked:
                return
            for child in marked:
                with contextlib.suppress(psutil.Error):
                    child.kill()
            self._seen.update(marked)

    def reap(self, tree: Iterable[psutil.Process]) -> None:
        """These processes were seen in the tree of a task's process that has ended: reap each, now or when it ends."""
        self._seen.update(tree)
        self._reap()

    def reap_session(self, session: int) -> None:
        """The process that began this session has ended: reap what is left of it, now or when it ends."""
        self._sessions.add(session)
        self._reap()

    def _reap(self) -> None:
        """Reap our zombies, and look again while more may come."""
        ours = [
            child for child in psutil.Process().children() if child.pid not in self._awaited and self._is_ours(child)
        ]
        for child in ours:
            with contextlib.suppress(ChildProcessError, psutil.Error):
                if child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)
        remain = [child for child in ours if child.is_running()]
        self._seen = {process for process in self._seen if process.is_running()}  # some may come to us later
        self._sessions = {session for child in remain if (session := _session(child))} & self._sessions | self._awaited
        if remain or self._seen or self._awaited:
            self._schedule_reap()

    def _schedule_reap(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap)

    def _is_ours(self, child: psutil.Process) -> bool:
        return child in self._seen or _session(child) in self._sessions


def _has_mark(process: psutil.Process, mark: bytes) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    except (OSError, psutil.Error):
        return False


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:
        return None


ORPHANS = Orphans()
