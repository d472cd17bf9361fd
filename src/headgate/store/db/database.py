"""What the store needs of a database: transactions, and word of what other processes commit."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from headgate.store.db.deferred import Deferred
from headgate.store.db.statement import Db
from headgate.store.wakeup.message import News

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N", bound="Noun")


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


class Noun:
    """One noun of the store. Those of its methods that have a `db` are transactions, which callers do not pass."""

    def __init__(self, database: Database) -> None:
        self._database = database


def reads(method: Callable[Concatenate[N, Db, P], T]) -> Callable[Concatenate[N, P], T]:
    """Have each call of the method be a transaction that changes nothing."""

    @wraps(method)
    def call(self: N, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._database.read(wraps(method)(lambda db: method(self, db, *arguments, **options)))

    return call


def writes(method: Callable[Concatenate[N, Db, P], T | Deferred[T]]) -> Callable[Concatenate[N, P], T]:
    """Have each call of the method be a transaction that is on disk when it returns."""

    @wraps(method)
    def call(self: N, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._database.write(wraps(method)(lambda db: method(self, db, *arguments, **options)))

    return call
