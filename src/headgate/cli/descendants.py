"""Processes that the handlers of a worker process have started: they end with it, even if they detached themselves."""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

_SET_CHILD_SUBREAPER = 36
ROUNDS = 100  # a process that is killed may have started another meanwhile


def adopt_orphans() -> None:
    """From now on, orphaned descendants become our children (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_orphans(pid: int, known: Collection[int]) -> None:
    """Kill what an ended process left behind: its group, and every child of ours that is not `known`."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for _ in range(ROUNDS):
        orphans = [child for child in _children() if child not in known]
        if not orphans:
            return
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, task.read_text().split())
