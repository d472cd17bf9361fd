"""PostgreSQL: a few connections, every transaction a pipeline.

Statements of a transaction are sent without waiting for each other's answers; a round trip is paid only where code
asks for one. Behind a pooler in transaction mode settings are local to each transaction and nothing is prepared.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg.errors import (
    DeadlockDetected,
    DiskFull,
    InsufficientPrivilege,
    LockNotAvailable,
    NumericValueOutOfRange,
    SerializationFailure,
)

from headgate.core.errors import Busy, Invalid, StoreFull, Unavailable, Unreachable
from headgate.environment import new_ids, random_number
from headgate.settings import Pooler
from headgate.store.db.deferred import Deferred
from headgate.store.db.permits import Permits
from headgate.store.db.pipeline import Pipeline, PipelineRows, connect
from headgate.store.db.statement import SPACE, TOO_LARGE, Row, Statement, qualified
from headgate.store.wakeup.message import News
from headgate.store.wakeup.postgres import Notifications, Notifier, Pooled

T = TypeVar("T")
log = logging.getLogger("headgate.store")

CONNECTIONS = 10
MOST_OF_A_CALLER = CONNECTIONS // 2
TRIES = 8
WAIT_SECONDS = 30.0
CONNECT_SECONDS, CONNECT_FOR_NEWS_SECONDS = 10, 5

# The planner is told not to guess: a statement is planned once for an empty table and then meets a million rows.
_SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "20s",
    "timezone": "UTC",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_incremental_sort": "off",
    "plan_cache_mode": "force_generic_plan",
}
_SET = "SELECT " + ", ".join(f"set_config('{name}', '{value}', {{local}})" for name, value in _SETTINGS.items())
_SET_ONCE, _SET_LOCAL = _SET.format(local="false"), _SET.format(local="true")
# A refused connection with one of these in its message is refused the next time too.
_FINAL = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "permission denied",
    "is not permitted to log in",
    "unrecognized configuration parameter",
    "does not support SSL",
    "certificate",
    "for connection option",
    'value: "',
    "no such database",
    "no such user",
)
# The channel is this installation's: the database may have another in it.
_SET_FOR_NEWS = f"""
SELECT set_config('synchronous_commit', 'off', false), set_config('statement_timeout', '10s', false),
       'headgate_' || {SPACE}
"""


class PostgresDb:
    """One transaction."""

    dialect = "postgres"
    one_writer = False

    def __init__(self, wire: Pipeline, now: datetime | None, schema: str = "") -> None:
        self._wire = wire
        self.now = now
        self.schema = schema
        self.news = News()
        self.edits_catalog = False

    def send(self, statement: Statement, **parameters: Any) -> PipelineRows:
        parameters["now"] = self.now
        text = qualified(statement.postgres, self.schema) if self.schema else statement.postgres
        return self._wire.send(text, [parameters[name] for name in statement.order])

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self.send(statement, **parameters).rows()

    def each(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> PipelineRows:
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return self.send(statement, **dict(zip(names, columns, strict=True)), **common)

    def many(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> int:
        self.each(statement, names, rows, **common)
        return 0

    def define(self, text: str) -> None:
        self._wire.send(text)

    def time(self, moment: datetime) -> datetime:
        return moment

    def note(self, events: Callable[[], list[Row]], actor: str) -> None:
        """Nothing to do: every statement that changes a task writes its audit row."""


class Postgres:
    """Transactions on one PostgreSQL database."""

    dialect = "postgres"
    one_writer = False

    def __init__(
        self,
        url: str,
        clock: Callable[[], datetime] | None,
        *,
        pooler: Pooler = Pooler.AUTO,
        alone: bool = False,
        schema: str = "",
    ) -> None:
        self.on_news: Callable[[News], None] = lambda news: None
        self.url = url
        self.schema = schema
        self._clock = clock
        # With AUTO the first connection tells, and whether it does is not known before.
        self._pooled = {Pooler.OFF: False, Pooler.TRANSACTION: True}.get(pooler)
        self._idle: list[Pipeline] = []
        self._permits = Permits(CONNECTIONS, MOST_OF_A_CALLER)
        self._token = new_ids(1)[0]
        self._notifier = None if self._pooled or alone else Notifier(self._connect_for_news, self._token)
        self._notifications: Notifications | None = None

    def listen(self) -> None:
        """Tell `on_news` what other processes commit; not behind a pooler, where LISTEN does not work."""
        if self._pooled or self._notifications is not None:
            return
        self._notifications = Notifications(self._connect_for_news, self._token, self.on_news)
        self._notifications.start()

    def _connect_for_news(self) -> tuple[psycopg.Connection[Row], str]:
        """A connection outside the pool, and the channel's name; `Pooled` before anything is set on a shared one."""
        connection = connect(self.url, CONNECT_FOR_NEWS_SECONDS, application_name="headgate news")
        try:
            wire = Pipeline(connection, prepare=False)
            wire.deadline = time.monotonic() + CONNECT_FOR_NEWS_SECONDS
            if wire.is_pooled():
                raise Pooled
            [row] = wire.send(qualified(_SET_FOR_NEWS, self.schema)).rows()
            wire.leave()
        except BaseException:
            connection.close()
            raise
        return connection, row[-1]

    def close(self) -> None:
        if self._notifications is not None:
            self._notifications.close()
            self._notifications = None
        if self._notifier is not None:
            self._notifier.close()
        self._close_idle()

    def write(
        self,
        operation: Callable[[PostgresDb], T | Deferred[T]],
        timeout: float | None = None,
        *,
        lock_seconds: float | None = None,
    ) -> T:
        """Run `operation` in a transaction that is on disk when this returns; a deadlock runs it again.

        `timeout` is for all of it; without one each exchange with the server has its own. `Busy` if a lock is not to be
        had within `lock_seconds`; without that it is tried again.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for attempt in range(TRIES):
            try:
                return self._write_once(operation, deadline, lock_seconds)
            except (DeadlockDetected, SerializationFailure, LockNotAvailable) as error:
                if lock_seconds is not None and isinstance(error, LockNotAvailable):
                    raise Busy(f"a lock is held elsewhere: {error}") from error
                if attempt == TRIES - 1 or _left(deadline) <= 0:
                    raise Unavailable(f"the store is too busy: {error}") from error
                time.sleep(random_number() * 0.01 * 2**attempt)
        raise AssertionError("unreachable")

    def _write_once(
        self, operation: Callable[[PostgresDb], T | Deferred[T]], deadline: float | None, lock_seconds: float | None
    ) -> T:
        with self._wire(deadline) as wire:
            wire.open()
            db = self._begin(wire)
            if lock_seconds is not None:
                wire.send("SELECT set_config('lock_timeout', $1, true)", [f"{1000 * lock_seconds:.0f}ms"])
            result = operation(db)
            wire.commit()
            if isinstance(result, Deferred):
                result = result.finish()
        if db.news:
            self.on_news(db.news)
            if self._notifier is not None:
                self._notifier.tell(db.news)
        return result

    def read(self, operation: Callable[[PostgresDb], T]) -> T:
        """Run `operation` without changing anything; each statement sees what was committed before it."""
        with _tried_once(), self._wire() as wire:
            if self._pooled:  # else no statement needs to know of another
                wire.open()
            result = operation(self._begin(wire))
            if self._pooled:
                wire.commit()
            return result

    def snapshot(self, operation: Callable[[PostgresDb], T]) -> T:
        """`read`, but all of it sees what was committed before its first statement."""
        with _tried_once(), self._wire() as wire:
            wire.open()
            wire.send("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            result = operation(self._begin(wire))
            wire.commit()
            return result

    def _begin(self, wire: Pipeline) -> PostgresDb:
        if self._pooled:  # the next transaction may be on another server connection
            wire.send(_SET_LOCAL)
        return PostgresDb(wire, self._clock() if self._clock else None, self.schema)

    @contextmanager
    def _wire(self, deadline: float | None = None) -> Iterator[Pipeline]:
        with self._permits.one(max(0.0, min(WAIT_SECONDS, _left(deadline)))):
            wire = None
            try:
                wire = self._take_idle() or self._connect(deadline)
                wire.deadline = deadline
                with _translated():
                    yield wire
            except BaseException:
                if wire is not None and not _leave(wire):
                    wire = None
                    self._close_idle()  # the server went away, most likely from all of them
                raise
            finally:
                if wire is not None:
                    self._idle.append(wire)

    def _connect(self, deadline: float | None) -> Pipeline:
        try:
            connection = connect(self.url, min(CONNECT_SECONDS, _left(deadline)))
        except psycopg.OperationalError as error:
            if _is_final(error):
                raise Unavailable("the store refuses the connection") from error
            raise Unreachable("the store did not answer") from error
        try:
            with _translated():
                return self._begin_session(connection, deadline)
        except BaseException:
            connection.close()
            raise

    def _begin_session(self, connection: "psycopg.Connection[Row]", deadline: float | None) -> Pipeline:
        """Settle how to behave, before anything is set or prepared on a connection that others may share."""
        wire = Pipeline(connection, prepare=False)
        wire.deadline = deadline
        if self._pooled is None:
            self._pooled = wire.is_pooled()
            if self._pooled:
                log.info(
                    "store: behind a connection pooler, so no prepared statements, and polling instead of wake-ups"
                )
        if not self._pooled:
            wire.prepare = True
            wire.send(_SET_ONCE)
            wire.exchange()
        return wire

    def _take_idle(self) -> Pipeline | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _close_idle(self) -> None:
        while (wire := self._take_idle()) is not None:
            wire.close()


def _is_final(error: psycopg.OperationalError) -> bool:
    """Whether a connection failed for a reason that only a person can remove.

    libpq keeps the SQLSTATE of a failed connection to itself, so this goes by its words; those of a server that speaks
    another language than English are not known, and taken to pass.
    """
    return any(words in str(error) for words in _FINAL)


def _left(deadline: float | None) -> float:
    return math.inf if deadline is None else deadline - time.monotonic()


def _leave(wire: Pipeline) -> bool:
    """Leave a failed transaction behind; a connection that cannot is dropped, never tried again blindly."""
    try:
        wire.abandon()
    except psycopg.Error:
        wire.close()
        return False
    return True


@contextmanager
def _tried_once() -> Iterator[None]:
    try:
        yield
    except (DeadlockDetected, SerializationFailure, LockNotAvailable) as error:
        raise Unavailable(f"the store is too busy: {error}") from error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (DeadlockDetected, SerializationFailure, LockNotAvailable):
        raise  # `write` runs the transaction again
    except DiskFull as error:
        raise StoreFull("the store's disk is full") from error
    except NumericValueOutOfRange as error:
        raise Invalid(TOO_LARGE) from error
    except InsufficientPrivilege as error:
        raise Unavailable(f"the database user lacks the permission: {error.diag.message_primary}") from error
    except psycopg.OperationalError as error:
        raise Unreachable(f"the store did not answer: {error}") from error
