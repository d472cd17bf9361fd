"""Processes whose parent has ended, and who reaps them."""

import contextlib
import ctypes
import sys

_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind, so that it can reap them (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
