"""What the store needs of a database: transactions, and word of what other processes commit."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from headgate.store.db.deferred import Deferred
from headgate.store.db.statement import Db
from headgate.store.wakeup.message import News

T = TypeVar("T")


class Database(Protocol):
    """One SQLite file, or one PostgreSQL database."""

    on_news: Callable[[News], None]  # called after each commit that others should hear of

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`."""

    @property
    def one_writer(self) -> bool:
        """Whether transactions that write come one after the other (SQLite)."""

    def write(self, operation: Callable[[Db], T | Deferred[T]], timeout: float | None = None) -> T:
        """A transaction that is on disk when this returns; whatever raises in it has changed nothing."""

    def read(self, operation: Callable[[Db], T]) -> T:
        """A transaction that changes nothing."""

    def snapshot(self, operation: Callable[[Db], T]) -> T:
        """A transaction that changes nothing, all of whose statements see the same moment."""

    def listen(self) -> None:
        """Pass what other processes commit to `on_news` too."""

    def close(self) -> None:
        """Close every connection."""
