"""procrastinate on PostgreSQL."""

from collections.abc import Callable

import psycopg
import uvloop
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from bench.peers.driver import Driver, drive
from bench.peers.starts import started

CONCURRENCY = 20  # as fast as 5 or 50
LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"


class Procrastinate(Driver):
    packages = ("procrastinate", "psycopg", "uvloop")
    settings = f"concurrency {CONCURRENCY}"
    keeps = "each job and its events"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._app = App(connector=PsycopgConnector(conninfo=url))
        self._noop = self._app.task(_noop, name="noop")
        self._probe = self._app.task(_probe, name="probe")

    async def prepare(self) -> None:
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def submit(self) -> None:
        await self._noop.defer_async()

    async def submit_many(self, count: int) -> None:
        await self._noop.batch_defer_async(*({} for _ in range(count)))

    async def probe(self, sent: float) -> None:
        await self._probe.defer_async(sent=sent)

    def counter(self) -> Callable[[], int]:
        connection = psycopg.connect(self.url, autocommit=True)
        return lambda: sum(connection.execute(LEFT).fetchone() or ())

    def work(self) -> None:
        uvloop.run(self._work())

    async def _work(self) -> None:
        async with self._app.open_async():
            await self._app.run_worker_async(concurrency=CONCURRENCY)


async def _noop() -> None:
    pass


async def _probe(sent: float) -> None:
    started(sent)


if __name__ == "__main__":
    drive(Procrastinate)
