"""Headgate with worker and submitter in one process and on one event loop, as a small program would have them."""

import asyncio

from bench.peers import tasks
from bench.peers.driver import drive
from bench.peers.headgate import Headgate
from headgate.worker.worker import Worker


class Together(Headgate):
    async def open(self) -> None:
        self._worker = Worker(tasks.app.store, tasks.app._registry, tasks.app._settings)
        self._working = asyncio.create_task(self._worker.run())

    async def close(self) -> None:
        self._worker.stop()
        await self._working
        await super().close()

    async def probe(self, sent: float) -> None:
        await tasks.probe.submit(sent)


if __name__ == "__main__":
    drive(Together)
