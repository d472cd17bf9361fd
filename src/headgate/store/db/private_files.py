"""Files and folders that only their owner may read, write or lock, whatever the umask says."""

import os
import stat
from contextlib import suppress

FILE, FOLDER = 0o600, 0o700


def create_file(path: str) -> None:
    """Make an empty file where there is none; one that is there keeps its mode, which somebody may have chosen."""
    # Only one that is new is opened: closing a file drops the locks that SQLite has on it in this process.
    with suppress(FileExistsError):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE)
        os.fchmod(file, FILE)
        os.close(file)


def open_file(path: str) -> int:
    """A descriptor of a file that is made if need be."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, FILE)
    if _may_be_stricter(os.fstat(file), FILE):
        os.fchmod(file, FILE)
    return file


def make_folder(path: str) -> None:
    """Make a folder, if need be."""
    os.makedirs(path, FOLDER, exist_ok=True)
    restrict(path, FOLDER)


def restrict(path: str, mode: int) -> None:
    """Let only the owner in, if that is us."""
    if _may_be_stricter(os.stat(path), mode):
        os.chmod(path, mode)


def _may_be_stricter(found: os.stat_result, mode: int) -> bool:
    return found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != mode
