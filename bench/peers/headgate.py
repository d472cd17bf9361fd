"""Headgate, through its public door and its command line."""

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from bench.peers import tasks
from bench.peers.driver import Driver, drive
from headgate.settings import load
from headgate.store.store import open_store

COMMAND = str(Path(sys.executable).with_name("headgate"))
CONCURRENCY = 400
LEFT = """
SELECT (SELECT count(*) FROM headgate_task WHERE status = 'queued')
     + (SELECT count(*) FROM headgate_task WHERE status IN ('scheduling', 'running'))
"""


class Headgate(Driver):
    packages = ("headgate", "psycopg", "uvloop")
    settings = f"headgate work --concurrency {CONCURRENCY}"
    keeps = "each task with its result and an audit of every step"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        tasks.app._settings = load({"url": url or None})

    async def prepare(self) -> None:
        with open_store(self.url) as store:
            store.migrate()

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        tasks.app.close()

    async def submit(self) -> None:
        tasks.noop.submit_sync()

    async def submit_many(self, count: int) -> None:
        tasks.app.submit_many_sync([tasks.noop.call() for _ in range(count)])

    async def probe(self, sent: float) -> None:
        tasks.probe.submit_sync(sent)

    def counter(self) -> Callable[[], int]:
        connection: Any
        if self.url.startswith("sqlite"):
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        return lambda: int(connection.execute(LEFT).fetchone()[0])

    def work(self) -> None:
        words = [COMMAND, "work", tasks.__name__, "--concurrency", str(CONCURRENCY), "--url", self.url]
        os.execv(COMMAND, words)


if __name__ == "__main__":
    drive(Headgate)
