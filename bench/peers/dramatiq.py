"""Dramatiq on RabbitMQ."""

import signal
import threading
from collections.abc import Callable

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.rabbitmq import RabbitmqBroker  # type: ignore[import-not-found]

from bench.peers.driver import Driver, drive
from bench.peers.rabbit_queue import drop, for_pika, waiting
from bench.peers.starts import started

THREADS = 8  # its default; for tasks this short 1, 4 and 16 are no quicker
QUEUE = "default"


class Dramatiq(Driver):
    packages = ("dramatiq", "pika")
    settings = f"{THREADS} threads, acknowledged when done (its only way), publisher confirms"
    keeps = "nothing of a task that has ended"
    bulk = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._connect(confirm=True)

    def _connect(self, confirm: bool) -> None:
        self._broker = RabbitmqBroker(url=for_pika(self.url), confirm_delivery=confirm)
        self._noop = dramatiq.actor(_noop, actor_name="noop", broker=self._broker)
        self._probe = dramatiq.actor(_probe, actor_name="probe", broker=self._broker)

    async def prepare(self) -> None:
        drop(self.url, QUEUE, f"{QUEUE}.DQ", f"{QUEUE}.XQ")

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._broker.close()

    async def submit(self) -> None:
        self._noop.send()

    async def fill(self, count: int) -> None:
        self._connect(confirm=False)
        await super().fill(count)

    async def probe(self, sent: float) -> None:
        self._probe.send(sent)

    def counter(self) -> Callable[[], int]:
        """Only of those that no worker has taken yet; what was taken is as many at any time of a drain."""
        return waiting(self.url, QUEUE)

    def work(self) -> None:
        worker, over = dramatiq.Worker(self._broker, worker_threads=THREADS), threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        worker.start()
        over.wait()
        worker.stop()


def _noop() -> None:
    pass


def _probe(sent: float) -> None:
    started(sent)


if __name__ == "__main__":
    drive(Dramatiq)
