"""The store a command works on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.core.errors import Unavailable
from headgate.settings import load
from headgate.store.store import Store, configured_store


def open_configured(url: str | None) -> Store:
    """The store at the URL given, or at the configured one."""
    return configured_store(load({"url": url}))


def sqlite_file(url: str) -> Path | None:
    """The file a SQLite store is kept in; None if it is kept elsewhere."""
    name = url.removeprefix("sqlite://").removeprefix("/")
    return Path(name) if url.startswith("sqlite:") and name else None


@contextmanager
def existing_store(url: str | None) -> Iterator[Store]:
    """The store that is there, its schema up to date. A command that looks or steers makes no store."""
    file = sqlite_file(load({"url": url}).url)
    if file is not None and not file.exists():
        raise Unavailable(f"there is no store {file}: `headgate up` and `headgate migrate` make one; or say --url")
    with open_configured(url) as store:
        bring_up_to_date(store)
        yield store


def bring_up_to_date(store: Store) -> None:
    """Take the missing steps of the schema on a file; a server has an owner, who is asked to do it."""
    missing = store.migration_plan()
    if missing and store.database.dialect != "sqlite":
        steps = "1 step" if len(missing) == 1 else f"{len(missing)} steps"
        raise Unavailable(f"the store's schema is {steps} behind: run `headgate migrate` first")
    if missing:
        store.migrate()
