"""Depth, made quickly, and what an action costs at that depth, in rows and pages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from headgate.core.task import Execution
from headgate.store.claim.contract import ClaimRequest
from headgate.store.db.statement import Statement
from headgate.store.store import open_store
from lab.postgres import Postgres
from tests.conftest import empty
from tests.factories import TYPES, Clock
from tests.store.conftest import clock  # noqa: F401

_FLUSH = Statement(postgres="SELECT pg_stat_force_next_flush()")
_READ = """
SELECT (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relid = 'headgate_task'::regclass),
       seq_scan, seq_tup_read, heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
  FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid) WHERE relid = 'headgate_task'::regclass
"""
_COPIED = (
    "tenant_id, type, creator, category, ext, create_date, update_date, lane, priority, mutex, rate_key, stream_id, "
    "status, start_time, parent_id, root_id, finished_at"
)


@dataclass(frozen=True)
class Cost:
    """What was read of `headgate_task`: index entries, scans and rows of the whole table, pages."""

    entries: int
    scans: int
    scanned: int
    pages: int

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            self.entries - other.entries,
            self.scans - other.scans,
            self.scanned - other.scanned,
            self.pages - other.pages,
        )


class Deep:
    """A store with many tasks in it, and a meter on its reads."""

    def __init__(self, url: str, clock: Clock) -> None:  # noqa: F811
        self.url, self.clock = url, clock
        self.store = open_store(url, clock)
        self.connection = psycopg.connect(url, autocommit=True)
        for task_type in TYPES:
            self.store.types.put(task_type)
        self.worker_id = self.store.workers.register("claimer")

    def open_again(self) -> None:
        """As a process would that starts now: nothing remembered, nothing planned."""
        self.store.close()
        self.store = open_store(self.url, self.clock)

    def close(self) -> None:
        self.store.close()
        self.connection.close()

    def remember(self, like: int) -> None:
        """Keep a task as it is now, as the pattern of `load`."""
        self.connection.execute("DROP TABLE IF EXISTS pattern")
        self.connection.execute(
            f"CREATE TEMP TABLE pattern AS SELECT {_COPIED} FROM headgate_task WHERE id = %s", [like]
        )

    def load(self, count: int) -> None:
        """Put `count` copies of the pattern straight into the table."""
        self.connection.execute(
            f"INSERT INTO headgate_task ({_COPIED}) SELECT {_COPIED} FROM pattern, generate_series(1, %s)", [count]
        )
        self._flush()

    def drain(self, count: int) -> None:
        """Take the last `count` out again; what the planner was told of them stays."""
        self.connection.execute(
            "DELETE FROM headgate_task WHERE id > (SELECT max(id) FROM headgate_task) - %s AND exec_id IS NULL", [count]
        )
        self._flush()

    def empty(self) -> None:
        """Take everything out and let that be known; its pages stay, as they do when somebody looks on."""
        self.connection.execute("DELETE FROM headgate_task")
        self.connection.execute("VACUUM (TRUNCATE off) headgate_task")
        self._flush()

    def know_nothing(self) -> None:
        """As on a database where nobody has ever counted."""
        self.connection.execute("DELETE FROM pg_statistic WHERE starelid = 'headgate_task'::regclass")

    def analyze(self) -> None:
        self.connection.execute("ANALYZE")
        self._flush()

    def vacuum(self) -> None:
        """Let the size be known, and nothing else."""
        self.connection.execute("VACUUM headgate_task")
        self._flush()

    def _flush(self) -> None:
        """Let what this connection itself has read be counted now, and not in the middle of a measurement."""
        self.connection.execute("SELECT pg_stat_force_next_flush()")

    def claim(self, limit: int = 5, **wanted: Any) -> list[Execution]:
        """From the very start of each stream, which is the dearest."""
        self.clock.advance(1)
        return self.store.claims.take(ClaimRequest(self.worker_id, limit, **wanted)).executions

    def cost(self, action: Callable[[], object]) -> Cost:
        """What `action` reads of `headgate_task` on the store's one connection."""
        before = self._read()
        action()
        return self._read() - before

    def _read(self) -> Cost:
        self.store.database.write(lambda db: db.rows(_FLUSH))
        return Cost(*(int(value) for value in self.connection.execute(_READ).fetchone() or ()))


@pytest.fixture(scope="session")
def quiet_url() -> Iterator[str]:
    """A server of its own: where others define tables, everybody plans anew now and then, and that reads pages."""
    server = Postgres().start()
    try:
        with open_store(server.url) as store:
            store.migrate()
        yield server.url
    finally:
        server.stop()


@pytest.fixture
def postgres(quiet_url: str) -> str:
    """As on its first day: no pages and no sizes are left of what was put in and taken out."""
    empty(quiet_url, anew=True)
    return quiet_url


@pytest.fixture
def deep(postgres: str, clock: Clock) -> Iterator[Deep]:  # noqa: F811
    made = Deep(postgres, clock)
    made.connection.execute(
        "ALTER TABLE headgate_task SET (autovacuum_enabled = off)"
    )  # it reads, too, and when it likes
    yield made
    made.connection.execute("ALTER TABLE headgate_task RESET (autovacuum_enabled)")
    made.close()
