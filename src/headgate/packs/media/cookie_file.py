"""Cookies for yt-dlp, in files that only we can read and that do not outlive their writer.

The writer locks its file for as long as it lives. A file that can be locked was left behind by a killed process:
`sweep` removes it, at each start and before each new file.
"""

import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SUFFIX = ".cookies"


@contextmanager
def cookie_file(content: str) -> Iterator[Path]:
    """A file with cookies in Netscape's format, as long as the block runs."""
    folder = private_folder()
    path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
    with _alone(folder):
        _sweep(folder)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # whatever the umask
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, content.encode())
        except BaseException:
            os.close(descriptor)
            path.unlink()
            raise
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def sweep() -> None:
    """Remove the cookies of processes that were killed."""
    for folder in _own_folders():
        with _alone(folder):
            _sweep(folder)


def private_folder() -> Path:
    """The folder for cookies, readable only by us; if another user has made one of that name, a different one."""
    for folder in _own_folders():
        return folder
    name = _name()
    with suppress(FileExistsError):
        folder = Path(tempfile.gettempdir(), name)
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{name}-"))


def _name() -> str:
    return f"headgate-media-{os.getuid()}"


def _own_folders() -> list[Path]:
    """The folders for cookies that only we can reach; the first one is used."""
    return sorted(filter(_is_private, Path(tempfile.gettempdir()).glob(f"{_name()}*")))


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                pass  # its writer lives
            finally:
                os.close(descriptor)
