"""Real cgroups, for processes that are to run out of memory."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def cgroup_of(megabytes: int) -> Iterator[Path]:
    """A real cgroup with so much memory; the file to write a process's id into."""
    name = f"headgate-test-{os.getpid()}"
    old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    try:
        if (old / "memory.limit_in_bytes").exists():
            folder, limit = old / name, "memory.limit_in_bytes"
        else:
            folder, limit = new / name, "memory.max"
        folder.mkdir()
        (folder / limit).write_text(str(megabytes * 1_000_000))
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
    except OSError as error:
        pytest.skip(f"this machine lets us make no memory cgroup: {error}")
    try:
        yield folder / "cgroup.procs"
    finally:
        folder.rmdir()
