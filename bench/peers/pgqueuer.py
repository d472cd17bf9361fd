"""pgqueuer on PostgreSQL."""

import asyncio
import signal
from collections.abc import Callable

import asyncpg  # type: ignore[import-untyped]
import psycopg
import uvloop
from pgqueuer import PgQueuer, Queries  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]

from bench.peers.driver import Driver, drive
from bench.peers.starts import started

SIZE = 200  # 50 is half as fast; 100 to 300, and a pool of connections, are alike


class Pgqueuer(Driver):
    packages = ("pgqueuer", "asyncpg", "uvloop")
    settings = f"batch_size {SIZE}"
    keeps = "a row in its log for each task"

    async def prepare(self) -> None:
        await self.open()
        await self._queries.install()
        await self.close()

    async def open(self) -> None:
        self._connection = await asyncpg.connect(self.url)
        self._queries = Queries.from_asyncpg_connection(self._connection)

    async def close(self) -> None:
        await self._connection.close()

    async def submit(self) -> None:
        await self._queries.enqueue("noop", None)

    async def submit_many(self, count: int) -> None:
        await self._queries.enqueue(["noop"] * count, [None] * count, [0] * count)

    async def probe(self, sent: float) -> None:
        await self._queries.enqueue("probe", str(sent).encode())

    def counter(self) -> Callable[[], int]:
        connection = psycopg.connect(self.url, autocommit=True)
        return lambda: sum(connection.execute("SELECT count(*) FROM pgqueuer").fetchone() or ())

    def work(self) -> None:
        uvloop.run(self._work())

    async def _work(self) -> None:
        queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(self.url))
        queuer.entrypoint("noop")(_noop)
        queuer.entrypoint("probe")(_probe)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
        await queuer.run(batch_size=SIZE)


async def _noop(job: Job) -> None:
    pass


async def _probe(job: Job) -> None:
    started(float(job.payload))


if __name__ == "__main__":
    drive(Pgqueuer)
