"""Huey on SQLite."""

import sqlite3
from collections.abc import Callable

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.peers.driver import Driver, drive
from bench.peers.starts import started

DELAY = 0.01
WORKERS = 1  # threads of one process; 2 or 4 only wait for each other


class Huey(Driver):
    packages = ("huey",)
    settings = (
        f"{WORKERS} thread, looks every {DELAY * 1000:g} ms (100 by default), SQLite's synchronous=FULL (default)"
    )
    keeps = "results for whoever asks for them"
    bulk = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._path = url.removeprefix("sqlite:///")
        self._huey = SqliteHuey(filename=self._path or ":memory:")
        self._noop = self._huey.task(name="noop")(_noop)
        self._probe = self._huey.task(name="probe")(_probe)

    async def prepare(self) -> None:
        pass

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._huey.storage.close()

    async def submit(self) -> None:
        self._noop()

    async def probe(self, sent: float) -> None:
        self._probe(sent)

    def counter(self) -> Callable[[], int]:
        connection = sqlite3.connect(self._path)
        return lambda: sum(connection.execute("SELECT count(*) FROM task").fetchone())

    def work(self) -> None:
        self._huey.create_consumer(workers=WORKERS, initial_delay=DELAY, max_delay=DELAY, periodic=False).run()


def _noop() -> None:
    pass


def _probe(sent: float) -> None:
    started(sent)


if __name__ == "__main__":
    drive(Huey)
