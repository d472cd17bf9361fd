"""A known amount written to a disk and read from it, past what the system keeps in memory."""

import os
from pathlib import Path

from headgate.worker.usage import current_usage

PROBE = 1_000_000


def use_disk(path: str, size: int) -> None:
    """Write `size` bytes to a file and read them again, both from and to the disk itself."""
    with open(path, "w+b") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        while file.read(PROBE):
            pass


def disk_is_told(folder: Path) -> bool:
    """Whether the system says what a process writes to and reads from the disk that a folder is on."""
    before = current_usage()
    use_disk(str(folder / "probe"), PROBE)
    after = current_usage()
    told = (before.written_bytes, after.written_bytes, before.read_bytes, after.read_bytes)
    return None not in told and told[1] - told[0] >= PROBE <= told[3] - told[2]  # type: ignore[operator]
