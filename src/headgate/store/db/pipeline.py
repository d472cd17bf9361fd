"""A pipeline to PostgreSQL: statements are queued, and sent and answered together when an answer is asked for.

Built on libpq's pipeline mode directly: the driver's own pipeline spends six waits where one is enough.
"""

import select
import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from headgate.core.errors import Invalid
from headgate.store.db.statement import Row, array

EXCHANGE_SECONDS = 75.0  # longer than the server allows any statement: a server silent for longer is gone
_GOOD = {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}
# A connection that only waits would otherwise never learn that its server is gone.
_ALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def connect(url: str, seconds: float, **options: Any) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect within `seconds`; parameters in the URL override `options`. `Invalid` never quotes the URL."""
    try:
        parameters = {"connect_timeout": max(2, int(seconds)), **_ALIVE, **options, **conninfo_to_dict(url)}
        return psycopg.connect(autocommit=True, **parameters)
    except psycopg.OperationalError:
        raise
    except psycopg.Error:  # its text has the password in it
        raise Invalid("the store's URL cannot be parsed: write special characters as %XX") from None


class PipelineRows:
    """The rows of one statement, once they are asked for."""

    __slots__ = ("_result", "_wire")

    def __init__(self, wire: "Pipeline") -> None:
        self._wire = wire
        self._result: pq.abc.PGresult | None = None

    def arrive(self, result: pq.abc.PGresult) -> None:
        self._result = result

    def rows(self) -> list[Row]:
        if self._result is None:
            self._wire.exchange()
        assert self._result is not None
        if self._result.status != ExecStatus.TUPLES_OK or not self._result.ntuples:
            return []
        return self._wire.load(self._result)


class Pipeline:
    """One connection, in pipeline mode until it is left."""

    def __init__(self, connection: "psycopg.Connection[Any]", *, prepare: bool) -> None:
        self._connection = connection
        self.prepare = prepare
        self._libpq = connection.pgconn
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._transformer = Transformer(connection)
        self._prepared: dict[str, bytes] = {}
        self._queued: list[tuple[str, Sequence[Any], PipelineRows]] = []
        self._expected: deque[PipelineRows | str] = (
            deque()
        )  # of each statement its answer, of each preparation its text
        self._unopened = False
        self._receiving = False
        self.deadline: float | None = None  # by the monotonic clock, of every exchange until it is set anew
        self._end = 0.0
        self._names = count()
        self._readable = select.poll()
        self._readable.register(self._libpq.socket, select.POLLIN)
        self._either = select.poll()
        self._either.register(self._libpq.socket, select.POLLIN | select.POLLOUT)

    def is_pooled(self) -> bool:
        """Whether a pooler stands between us and the server: it hands out process ids of its own."""
        return self.send("SELECT pg_backend_pid()").rows() != [(self._libpq.backend_pid,)]

    def open(self) -> None:
        """Begin a transaction with the next statement.

        A single exchange is a transaction by itself: BEGIN is sent only if there is a second one.
        """
        self._unopened = True

    def send(self, text: str, values: Sequence[Any] = ()) -> PipelineRows:
        """Queue a statement (`$1`, `$2` …); its answer can be asked for later."""
        answer = PipelineRows(self)
        self._queued.append((text, values, answer))
        return answer

    def commit(self) -> None:
        """Exchange what is left and end the transaction."""
        if not self._unopened:
            self.send("COMMIT")
        self._unopened = False
        self.exchange()

    def exchange(self) -> None:
        """Send all that is queued and take in every answer; the first error among them is raised."""
        self._end = time.monotonic() + EXCHANGE_SECONDS if self.deadline is None else self.deadline
        if self._unopened:
            self._unopened = False
            self._put("BEGIN", (), PipelineRows(self))
        queued, self._queued = self._queued, []
        for statement in queued:
            self._put(*statement)
        self._receive()

    def _put(self, text: str, values: Sequence[Any], answer: PipelineRows) -> None:
        parameters = [_encoded(value) for value in values]
        name = self._prepared.get(text) if self.prepare else b""
        if name is None:
            name = self._prepared[text] = b"s%d" % next(self._names)
            self._libpq.send_prepare(name, text.encode())
            self._expected.append(text)
        if self.prepare:
            self._libpq.send_query_prepared(name, parameters)
        else:
            self._libpq.send_query_params(text.encode(), parameters)
        self._expected.append(answer)

    def _receive(self) -> None:
        self._libpq.pipeline_sync()
        self._receiving = True
        error: psycopg.Error | None = None
        while self._expected:
            answer = self._expected.popleft()
            result = self._next()
            if isinstance(answer, str):
                if result.status not in _GOOD:
                    del self._prepared[answer]
            elif result.status in _GOOD:
                answer.arrive(result)
            if error is None and result.status == ExecStatus.FATAL_ERROR:
                error = error_from_result(result)
            self._next_is_end()
        while (result := self._next()).status != ExecStatus.PIPELINE_SYNC:  # with a BEGIN unsaid, that is the commit
            error = error or error_from_result(result)
            self._next_is_end()
        self._receiving = False
        if error is not None:
            raise error

    def load(self, result: pq.abc.PGresult) -> list[Row]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def abandon(self) -> None:
        """Leave the transaction, whatever was queued for it."""
        self._queued.clear()
        self._unopened = False
        if self._expected or self._receiving:  # an exchange was cut short
            raise psycopg.OperationalError("the connection is out of step")
        if self._libpq.transaction_status != pq.TransactionStatus.IDLE:
            self.send("ROLLBACK")
            self.exchange()

    def leave(self) -> None:
        """Give the connection, with nothing under way on it, back to the driver."""
        self._libpq.exit_pipeline_mode()

    def close(self) -> None:
        self._connection.close()

    def _next(self) -> pq.abc.PGresult:
        self._await()
        result = self._libpq.get_result()
        if result is None:
            raise psycopg.OperationalError("the connection is out of step")
        return result

    def _next_is_end(self) -> None:
        self._await()
        if self._libpq.get_result() is not None:
            raise psycopg.OperationalError("the connection is out of step")

    def _await(self) -> None:
        while self._libpq.flush():
            for _, event in self._events(self._either):
                if event & ~select.POLLOUT:
                    self._libpq.consume_input()
        while self._libpq.is_busy():
            self._events(self._readable)
            self._libpq.consume_input()

    def _events(self, poll: select.poll) -> list[tuple[int, int]]:
        left = self._end - time.monotonic()
        events = poll.poll(left * 1000) if left > 0 else []
        if not events:
            raise psycopg.OperationalError("the server is silent")
        return events


def _encoded(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list | tuple):
        return array(value).encode()
    if isinstance(value, datetime):
        return value.isoformat().encode()
    return str(value).encode()
