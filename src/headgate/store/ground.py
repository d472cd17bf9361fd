"""What the rooms of a store stand on: transactions, and this process's copy of the catalog."""

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import headgate.store.catalog as catalogs
from headgate.core.task import NewTask, TaskType, completed
from headgate.store.catalog import Catalog
from headgate.store.deferred import Deferred
from headgate.store.sql import Db

if TYPE_CHECKING:  # a process loads the one it uses: a driver takes 13 MB
    from headgate.store.postgres import Postgres
    from headgate.store.sqlite import Sqlite

T = TypeVar("T")

CATALOG_SECONDS = 1.0


class Ground:
    """A database, SQLite or PostgreSQL, one transaction at a time. Only rooms of the store are to stand on it."""

    def __init__(self, database: "Sqlite | Postgres", monotonic: Callable[[], float]) -> None:
        self.catalog = Catalog()
        self._database = database
        self._monotonic = monotonic
        self._catalog_lock = threading.Lock()
        self._catalog_read_at = -1e18

    @property
    def dialect(self) -> str:
        return self._database.dialect

    def write(self, operation: Callable[[Any], "T | Deferred[T]"], timeout: float | None = None) -> T:
        """A transaction that is on disk when this returns; whatever raises in it has changed nothing."""
        return self._database.write(operation, timeout)  # type: ignore[return-value]

    def read(self, operation: Callable[[Any], T]) -> T:
        """A transaction that changes nothing."""
        return self._database.read(operation)

    def snapshot(self, operation: Callable[[Any], T]) -> T:
        """A transaction that changes nothing, all of whose statements see the same moment."""
        return self._database.snapshot(operation)

    def fresh_catalog(self, db: Db) -> Catalog:
        """The catalog as it stands in this transaction."""
        with self._catalog_lock:
            catalogs.refresh(db, self.catalog)
            self._catalog_read_at = self._monotonic()
        return self.catalog

    def recent_catalog(self) -> Catalog:
        """Good enough to take on work by: a second old at most."""
        if self._monotonic() - self._catalog_read_at >= CATALOG_SECONDS:
            self.read(self.fresh_catalog)
        return self.catalog

    def make_streams(self, wishes: Iterable[NewTask]) -> None:
        """In a transaction of its own: a stream is shared, and must not go with a submit that fails."""
        catalog = self.recent_catalog()
        missing = {
            key
            for new in map(self.completed, wishes)
            if (key := catalogs.stream_key(new, catalog.types.get(new.type) or self.known_type(new.type)))
            not in catalog.ids
        }
        if missing:
            self.write(lambda db: catalogs.add_streams(db, sorted(missing)))
            self.read(self.fresh_catalog)

    def completed(self, new: NewTask) -> NewTask:
        """The wish with the keys that its type makes of its arguments."""
        return completed(new, self.recent_catalog().types.get(new.type) or self.known_type(new.type))

    def known_type(self, code: str) -> TaskType:
        """The type named; `UnknownType` if there is none."""
        return self.read(lambda db: catalogs.known_type(db, self.catalog, code))
