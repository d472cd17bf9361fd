"""News between processes on PostgreSQL: NOTIFY after the commit, from a thread of its own, and LISTEN.

Inside the committing transaction a NOTIFY would hold a lock of the whole database until the commit is on disk.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from headgate.environment import random_number
from headgate.store.wakeup.message import News, encode
from headgate.store.wakeup.thread import CLOSE_SECONDS, Hear, Listener

log = logging.getLogger("headgate.store")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.008
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.05, 5.0

Connection = psycopg.Connection[tuple[Any, ...]]
Connect = Callable[[], tuple[Connection, str]]  # a connection of one's own, and the name of the channel; or `Pooled`


class Pooled(Exception):
    """There is a connection pooler in between: LISTEN on one of its connections receives nothing."""


class Notifier:
    """Sends news to other processes, at once if it is idle; news that piles up meanwhile goes out together later."""

    def __init__(self, connect: Connect, token: str) -> None:
        self._connect = connect
        self._token = token
        self._lock = threading.Lock()
        self._news = News()
        self._something = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._pooled = False

    def tell(self, news: News) -> None:
        """Queue news to be sent; returns at once, even if sending fails."""
        with self._lock:
            if self._closing.is_set():
                return
            self._news.add(news)
            if self._thread is None and not self._start():
                return
        self._something.set()

    def _start(self) -> bool:
        thread = threading.Thread(target=self._run, name="headgate notifier", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # too many threads, or the interpreter is going down
            log.debug("wake-up not sent: error=%s", error)
            return False
        self._thread = thread
        return True

    def close(self) -> None:
        """Send what is still queued, for a second at most, and end the thread."""
        with self._lock:
            self._closing.set()
            thread = self._thread
        self._something.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        last, pause = False, SHORTEST_PAUSE
        while not last:
            if not self._something.is_set():
                pause = SHORTEST_PAUSE
                self._something.wait()
            with self._lock:
                self._something.clear()
                last = self._closing.is_set()  # after the clear, or a close in between would be missed
                news, self._news = self._news, News()
            if news:
                self._send(encode(news, self._token))
                self._closing.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        if self._connection is not None:
            self._connection.close()

    def _send(self, text: str) -> None:
        for _ in range(0 if self._pooled else 2):  # the server may have been away since the last time
            try:
                if self._connection is None:
                    self._connection, channel = self._connect()
                    self._connection.pgconn.prepare(b"notify", f"SELECT pg_notify('{channel}', $1)".encode())
                # Past the driver: its own way costs the submitting threads a tenth of their speed.
                result = self._connection.pgconn.exec_prepared(b"notify", [text.encode()])
                if result.status == ExecStatus.TUPLES_OK:
                    return
                raise error_from_result(result)
            except Pooled:
                self._pooled = True
                return
            except Exception as error:
                log.debug("wake-up not sent: error=%s", error)
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None


class Notifications(Listener):
    """Receives what the notifiers of other processes send; reconnects by itself when the server comes back."""

    def __init__(self, connect: Connect, token: str, hear: Hear) -> None:
        super().__init__(token, hear)
        self._connect = connect
        self._failures = 0

    def _listen(self) -> None:
        while not self._closing:
            try:
                connection, channel = self._connect()
                with closing(connection):
                    connection.execute(f'LISTEN "{channel}"')
                    self._failures = 0
                    self._hear(News(missed=True))
                    self._hear_from(connection.pgconn)
            except Pooled:
                return
            except Exception as error:
                log.debug("wake-ups not received: error=%s", error)
            if not self._closing:
                self._failures += 1
                pause = min(FIRST_RETRY_SECONDS * 2 ** min(self._failures, 10), LAST_RETRY_SECONDS)
                self._wait(seconds=pause * (0.5 + 0.5 * random_number()))

    def _hear_from(self, libpq: pq.abc.PGconn) -> None:
        while not self._closing:
            news = News()
            while (notification := libpq.notifies()) is not None:
                self._take(news, notification.extra)
            if news:
                self._hear(news)
                continue
            self._wait(of=libpq.socket)
            libpq.consume_input()
