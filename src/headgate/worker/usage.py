"""What this process uses of its machine. Without psutil, which is 3 MB of a worker's memory."""

import os
import time
from pathlib import Path

from headgate.core.usage import Usage

_STATM = Path("/proc/self/statm")
_IO = Path("/proc/self/io")
_STATUS = Path("/proc/self/status")
_KILOBYTE = 1024
LEAST_THREAD_SECONDS = 0.01  # less is not worth a row

thread_cpu_seconds = time.thread_time  # the CPU time of the thread that asks


def current_usage() -> Usage:
    """CPU seconds since it began, memory resident now, bytes from and to disk; its ended children's with it."""
    try:
        memory = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        memory = None
    return Usage(_cpu(), memory, *_disk())


def peak_usage() -> Usage:
    """The same, with the most memory that was ever resident at once.

    Not from `getrusage`: there a new process begins with the memory of the process that started it.
    """
    try:
        fields = dict(line.split(":") for line in _STATUS.read_text().splitlines())
        memory = int(fields["VmHWM"].split()[0]) * _KILOBYTE
    except (OSError, ValueError, KeyError):
        memory = None
    return Usage(_cpu(), memory, *_disk())


def thread_usage(begun: float) -> Usage | None:
    """The CPU time of this thread since its clock stood at `begun`; None if that is next to nothing.

    Memory and disk are counted for the whole process and cannot be split by thread.
    """
    used = thread_cpu_seconds() - begun
    return Usage(round(used, 3)) if used >= LEAST_THREAD_SECONDS else None


def _cpu() -> float:
    times = os.times()
    return round(times.user + times.system + times.children_user + times.children_system, 2)


def _disk() -> tuple[int | None, int | None]:
    """Bytes really read from and written to a disk, without the page cache; None where the system does not tell."""
    try:
        fields = dict(line.split(": ") for line in _IO.read_text().splitlines())
        return int(fields["read_bytes"]), int(fields["write_bytes"])
    except (OSError, ValueError, KeyError):
        return None, None
