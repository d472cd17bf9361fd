"""SQLite: one file, one writer at a time, many readers.

Writes of one process share commits: the caller that finds the writer free runs all waiting operations (each under its
own savepoint), commits once and answers every caller. So a hundred concurrent submits cost one fsync, a single submit
needs no other thread, and no caller leads more than one commit.
"""

import json
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from headgate.core.errors import Invalid, StoreFull, Unavailable
from headgate.environment import new_ids
from headgate.store.db import wal
from headgate.store.db.deferred import Deferred
from headgate.store.db.file_lock import FileLock
from headgate.store.db.group_commit import GroupCommit, SharedCall
from headgate.store.db.private_files import create_file
from headgate.store.db.statement import TOO_LARGE, KnownRows, Row, Statement, microseconds, numbered
from headgate.store.wakeup.message import News
from headgate.store.wakeup.sqlite import Mailboxes

T = TypeVar("T")
log = logging.getLogger("headgate.store")

MOST_PER_COMMIT = 500
LONGEST_COMMIT_SECONDS = 0.005
BUSY_SECONDS = 10.0
MOST_IDLE_READERS = 32
LOOK_AT_WAL_SECONDS = 10.0
_NO_ANSWER = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN}
_WHOLE_BATCH = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}


class _Undone(Exception):
    """An operation failed by itself: nothing of it stays, and only its caller hears of it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


Operation = Callable[["SqliteDb"], Any]
Call = SharedCall[Operation, tuple[Any, News]]


class SqliteDb:
    """One operation's view of the open transaction."""

    dialect = "sqlite"
    one_writer = True
    schema = ""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self._connection = connection
        self.now = microseconds(now)
        self.news = News()
        self.edits_catalog = False

    def send(self, statement: Statement, **parameters: Any) -> KnownRows:
        values = {name: _bindable(value) for name, value in parameters.items()}
        values["now"] = self.now
        return KnownRows(self._connection.execute(statement.sqlite, values).fetchall())

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self.send(statement, **parameters).rows()

    def each(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> KnownRows:
        text, after = self._bound(statement, names, common)
        execute, answers = self._connection.execute, []
        for row in rows:
            answers += execute(text, (*row, *after)).fetchall()
        return KnownRows(answers)

    def many(self, statement: Statement, names: Sequence[str], rows: Sequence[Row], **common: Any) -> int:
        text, after = self._bound(statement, names, common)
        if len(rows) == 1:
            return self._connection.execute(text, (*rows[0], *after)).lastrowid or 0
        self._connection.executemany(text, [(*row, *after) for row in rows])
        return int(self._connection.execute("SELECT last_insert_rowid()").fetchone()[0])

    def _bound(self, statement: Statement, names: Sequence[str], common: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
        text, others = numbered(statement, tuple(names))
        return text, tuple(self.now if name == "now" else _bindable(common[name]) for name in others)

    def define(self, text: str) -> None:
        try:
            self._connection.execute(text)
        except sqlite3.OperationalError as error:  # the user's own tables and views may be in the way
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise Unavailable(f"the schema cannot be changed: {error}") from error

    def time(self, moment: datetime) -> int:
        return microseconds(moment)

    def note(self, events: Callable[[], list[Row]], actor: str) -> None:
        self._connection.executemany(_NOTE, [(*event, self.now, actor) for event in events()])


def _bindable(value: Any) -> Any:
    if isinstance(value, datetime):
        return microseconds(value)
    return json.dumps(value) if isinstance(value, list | tuple) else value


_NOTE = """
INSERT INTO headgate_task_event (task_id, tenant_id, seq, kind, before, after, exec_id, detail, at, actor)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Sqlite:
    """Transactions on one SQLite file, or in memory (`:memory:`)."""

    dialect = "sqlite"
    one_writer = True

    def __init__(self, path: str, clock: Callable[[], datetime]) -> None:
        self.on_news: Callable[[News], None] = lambda news: None
        self._path = path
        self._clock = clock
        self._memory = path == ":memory:"
        self._group: GroupCommit[Operation, tuple[Any, News]] = GroupCommit(self._commit_what_waits)
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._closed = False
        self._distrusted = False
        self._look_at_wal = time.monotonic()
        self._wal_is_long = False
        self._turn = None if self._memory else FileLock(f"{path}.writer")
        if not self._memory:
            create_file(path)
        self._writer = self._connect()
        self._file = None if self._memory else os.path.realpath(path)
        self._identity = _identity(self._file)
        self._mailboxes = None if self._file is None else Mailboxes(f"{self._file}.wake", new_ids(1)[0][:13])

    def _connect(self, *, query_only: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        try:
            if query_only:
                connection.execute("PRAGMA query_only = ON")
            else:
                with self._only_writer():  # changing the journal mode of a new file takes the write lock
                    connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {wal.LIMIT_BYTES}")
            connection.execute("PRAGMA cache_size = -65536")
        except BaseException:
            connection.close()
            raise
        return connection

    def listen(self) -> None:
        """Tell `on_news` what other processes commit."""
        if self._mailboxes is not None:
            self._mailboxes.listen(self.on_news)

    def close(self) -> None:
        if self._mailboxes is not None:
            self._mailboxes.close()
        with self._idle_lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in (*idle, self._writer):
            connection.close()
        if self._turn is not None:
            self._turn.close()
            self._turn = None

    def write(
        self,
        operation: Callable[[SqliteDb], T | Deferred[T]],
        timeout: float | None = None,
        *,
        lock_seconds: float | None = None,
    ) -> T:
        """Run `operation` in a transaction that is on disk when this returns.

        Whatever they say, no wait for the file is longer than BUSY_SECONDS, and there is no other.
        """
        result, news = self._group.call(operation)
        if isinstance(result, Deferred):
            result = result.finish()
        if news:
            self.on_news(news)
            if self._mailboxes is not None:
                self._mailboxes.tell(news)
        return result  # type: ignore[no-any-return]

    def read(self, operation: Callable[[SqliteDb], T]) -> T:
        """Run `operation` on one consistent snapshot."""
        if self._memory:  # there is but one connection
            return self.write(operation)
        with _translated(), self._reader() as connection:
            connection.execute("BEGIN")
            try:
                return operation(SqliteDb(connection, self._clock()))
            finally:
                connection.execute("COMMIT")

    snapshot = read

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """The reader that was used last, for it knows most; a new one if all are in use."""
        with self._idle_lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            self._check_file()
            connection = self._connect(query_only=True)
        try:
            yield connection
        finally:
            with self._idle_lock:
                reusable = not (self._closed or connection.in_transaction or len(self._idle) >= MOST_IDLE_READERS)
                if reusable:
                    self._idle.append(connection)
            if not reusable:
                connection.close()

    def _commit_what_waits(self, inbox: deque[Call]) -> None:
        answers: list[Callable[[], None]] = []
        calls: list[Call] = []
        try:
            with _translated():
                if self._distrusted:
                    self._reopen_writer()
                with self._only_writer():
                    self._check_file()
                    self._commit_together(inbox, calls, answers)
        except _Undone as undone:  # a lone operation failed, and everything is rolled back
            calls[0].fail(undone.error)
            return
        except BaseException as error:
            if not calls:  # no transaction began: fail all waiting callers now, lest they wait as long again
                while inbox:
                    calls.append(inbox.popleft())
            for call in calls:
                call.fail(error)
            if isinstance(error.__cause__, sqlite3.OperationalError) and not self._memory:
                self._distrust_writer()
            if not isinstance(error, Exception):
                raise
            return
        for answer in answers:
            answer()
        if self._file is not None and time.monotonic() >= self._look_at_wal:
            self._watch_wal(self._file)

    def _watch_wal(self, file: str) -> None:
        self._look_at_wal = time.monotonic() + LOOK_AT_WAL_SECONDS
        size = wal.wal_bytes(file)
        if size > wal.LONG_BYTES and not self._wal_is_long:
            log.warning("store: write-ahead log too long: megabytes=%d; %s", size >> 20, wal.ADVICE)
        self._wal_is_long = size > wal.LONG_BYTES

    def _check_file(self) -> None:
        """Refuse to write once the file was removed or replaced: what is written to the old one is lost."""
        if _identity(self._file) != self._identity:
            raise Unavailable("the store's file was removed or replaced while in use: restart this process")

    def _commit_together(self, inbox: deque[Call], calls: list[Call], answers: list[Callable[[], None]]) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            self._run_batch(inbox, calls, answers)
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _distrust_writer(self) -> None:
        """After an I/O error the connection cannot be trusted: the next write opens another."""
        self._distrusted = True
        if self._writer.in_transaction:  # it could not even roll back, and would keep other processes out
            self._writer.close()

    def _reopen_writer(self) -> None:
        old, self._writer = self._writer, self._connect()
        self._distrusted = False
        old.close()

    def _run_batch(self, inbox: deque[Call], calls: list[Call], answers: list[Callable[[], None]]) -> None:
        end, edited = time.monotonic() + LONGEST_COMMIT_SECONDS, False
        # An edit of the catalog ends its batch: operations behind it would learn what the commit may still undo.
        while inbox and not edited and len(calls) < MOST_PER_COMMIT and (not calls or time.monotonic() < end):
            call = inbox.popleft()
            calls.append(call)
            db = SqliteDb(self._writer, self._clock())
            if len(calls) == 1 and not inbox:  # alone: the transaction is savepoint enough
                answers.append(self._attempt(call, db))
            else:
                self._writer.execute("SAVEPOINT operation")
                try:
                    answers.append(self._attempt(call, db))
                except _Undone as undone:
                    answers.append(partial(call.fail, undone.error))
                    self._writer.execute("ROLLBACK TO operation")
                self._writer.execute("RELEASE operation")
            edited = db.edits_catalog

    def _attempt(self, call: Call, db: SqliteDb) -> Callable[[], None]:
        """Run one operation; how to answer its caller once the commit is through."""
        try:
            return partial(call.succeed, (call.item(db), db.news))
        except sqlite3.Error as error:
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _WHOLE_BATCH:
                raise
            raise _Undone(error) from error
        except OverflowError as error:
            raise _Undone(Invalid(TOO_LARGE)) from error
        except BaseException as error:
            raise _Undone(error) from error

    def _only_writer(self) -> AbstractContextManager[None]:
        """Queue for the file among processes: SQLite's own lock has no queue, and goes to the luckiest poll."""
        return nullcontext() if self._turn is None else self._turn.taken(BUSY_SECONDS)


def _identity(file: str | None) -> tuple[int, int] | None:
    """Which file this is, whatever its name; None in memory, or if there is none."""
    try:
        found = None if file is None else os.stat(file)
    except FileNotFoundError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            raise StoreFull("the store's disk is full") from error
        if error.sqlite_errorcode & 0xFF in _NO_ANSWER:
            raise Unavailable(f"the store did not answer: {error}") from error
        raise
    except OverflowError as error:
        raise Invalid(TOO_LARGE) from error
