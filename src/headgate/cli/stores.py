"""The store a command works on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.core.errors import Unavailable
from headgate.settings import Settings
from headgate.store.store import Store, configured_store


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite store; None for any other store."""
    name = url.removeprefix("sqlite://").removeprefix("/")
    return Path(name) if url.startswith("sqlite:") and name else None


@contextmanager
def existing_store(settings: Settings) -> Iterator[Store]:
    """The configured store, its schema up to date. A command that reads or steers creates no store."""
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        raise Unavailable(f"the store {file} does not exist: create it with `headgate up`, or give --url")
    with configured_store(settings) as store:
        store.bring_up_to_date()
        yield store
