"""taskiq on RabbitMQ, by taskiq-aio-pika."""

from collections.abc import Callable

import uvloop
from taskiq.acks import AcknowledgeType  # type: ignore[import-not-found]
from taskiq.api import run_receiver_task  # type: ignore[import-not-found]
from taskiq_aio_pika import AioPikaBroker  # type: ignore[import-not-found]

from bench.peers.driver import Driver, drive
from bench.peers.rabbit_queue import drop, waiting
from bench.peers.starts import started

PREFETCH = 100
QUEUE = "taskiq"


class Taskiq(Driver):
    packages = ("taskiq", "taskiq-aio-pika", "aio-pika", "uvloop")
    settings = f"quorum queue (default), prefetch {PREFETCH}, acknowledged when done, publisher confirms"
    keeps = "nothing of a task that has ended"
    bulk = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._broker = AioPikaBroker(url or None, qos=PREFETCH)
        self._noop = self._broker.register_task(_noop, task_name="noop")
        self._probe = self._broker.register_task(_probe, task_name="probe")

    async def prepare(self) -> None:
        drop(self.url, QUEUE, f"{QUEUE}.delay", f"{QUEUE}.dead_letter")
        await self.open()
        await self.close()

    async def open(self) -> None:
        await self._broker.startup()

    async def close(self) -> None:
        await self._broker.shutdown()

    async def submit(self) -> None:
        await self._noop.kiq()

    async def probe(self, sent: float) -> None:
        await self._probe.kiq(sent)

    def counter(self) -> Callable[[], int]:
        """Only of those that no worker has taken yet; what was taken is as many at any time of a drain."""
        return waiting(self.url, QUEUE)

    def work(self) -> None:
        uvloop.run(self._work())

    async def _work(self) -> None:
        self._broker.is_worker_process = True
        await run_receiver_task(
            self._broker, run_startup=True, max_async_tasks=PREFETCH, ack_time=AcknowledgeType.WHEN_EXECUTED
        )


async def _noop() -> None:
    pass


async def _probe(sent: float) -> None:
    started(sent)


if __name__ == "__main__":
    drive(Taskiq)
