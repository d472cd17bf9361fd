"""The library: a folder for each tenant, one for each subscription in it, and files named `TITLE [KEY].EXTENSION`."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.packs import Fatal
from headgate.packs.media.items import Item, ItemState

SINGLE = "single"  # the folder of what belongs to no subscription
_UNFINISHED = (".part", ".ytdl", ".temp")
_KEY = re.compile(r"\[([^\[\]]+)\]\.[^.]+$")


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A whole file of the library. `path` is below the library's folder; `key` is an item's `file_key`."""

    path: str
    bytes: int
    subscription_id: int | None
    key: str | None


class Library:
    """The files of one tenant."""

    def __init__(self, folder: str, tenant_id: int) -> None:
        self._root = Path(folder).absolute()
        self._home = self._root / str(tenant_id)

    def folder(self, subscription_id: int | None) -> Path:
        """Where the downloads of a subscription go; made if it is not there."""
        found = self._home / (SINGLE if subscription_id is None else str(subscription_id))
        found.mkdir(parents=True, exist_ok=True)
        return found

    def file(self, path: str) -> LibraryFile:
        """The file at a path that yt-dlp names; `Fatal` for one that is not in the library."""
        place = Path(path).resolve()
        if not place.is_relative_to(self._home.resolve()) or not place.is_file():
            raise Fatal("yt-dlp wrote no file into the library")
        return self._look(self._home / place.relative_to(self._home.resolve()))

    def files(self) -> Iterator[LibraryFile]:
        """Every whole file, in a steady order."""
        for folder, folders, names in os.walk(self._home):
            folders.sort()
            for name in sorted(names):
                if not name.endswith(_UNFINISHED):
                    file = None
                    with suppress(FileNotFoundError):  # yt-dlp renames and removes its parts meanwhile
                        file = self._look(Path(folder, name))
                    if file is not None:
                        yield file

    def remove(self, path: str) -> None:
        """Remove a file, so that it is downloaded anew."""
        (self._root / path).unlink(missing_ok=True)

    def state_of(self, item: Item) -> ItemState:
        """What the disk says of an item's file: an empty one, or one of another size, is broken."""
        assert item.path is not None
        try:
            with (self._root / item.path).open("rb") as file:
                size = file.seek(0, 2)
                file.seek(0)
                whole = size == item.bytes and bool(file.read(1))
        except FileNotFoundError:
            return ItemState.MISSING
        except OSError:  # it is there, and cannot be read
            return ItemState.BROKEN
        return ItemState.DOWNLOADED if whole else ItemState.BROKEN

    def _look(self, place: Path) -> LibraryFile:
        path = place.relative_to(self._root)
        owner = path.parts[1] if len(path.parts) > 2 else ""
        found = _KEY.search(place.name)
        subscription_id = int(owner) if owner.isascii() and owner.isdigit() else None
        return LibraryFile(str(path), place.stat().st_size, subscription_id, found[1] if found else None)
