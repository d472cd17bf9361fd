"""Which processes a process has started: as the kernel lists them (Linux), or by a look at every process there is."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

PROC = Path("/proc")
_LISTED = any(PROC.glob("self/task/*/children"))


def descendants_of(pid: int) -> Iterator[psutil.Process]:
    """The children of a process, and theirs. One may be missing while another one ends: look again."""
    for child in _children_of(pid):
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(child)
        yield from descendants_of(child)


def _children_of(pid: int) -> Iterator[int]:
    if not _LISTED:
        with contextlib.suppress(psutil.Error):
            yield from (child.pid for child in psutil.Process(pid).children())
    for listed in PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, listed.read_text().split())
