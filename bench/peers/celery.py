"""Celery on RabbitMQ."""

import os
from collections.abc import Callable

from celery import Celery as App  # type: ignore[import-not-found]

from bench.peers.driver import Driver, drive
from bench.peers.starts import started

POOL = "solo"  # for tasks this short quicker than threads and prefork
PREFETCH = 100
QUIETLY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")


class Celery(Driver):
    packages = ("celery", "kombu", "amqp")
    settings = f"RabbitMQ from Debian, pool {POOL}, prefetch {PREFETCH}, acks_late, publisher confirms"
    keeps = "nothing of a task that has ended (task_ignore_result)"
    bulk = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._app = App(broker=url)
        self._app.conf.update(
            broker_transport_options={"confirm_publish": True},
            task_acks_late=True,
            task_ignore_result=True,
            worker_prefetch_multiplier=PREFETCH,
        )
        self._noop = self._app.task(_noop, name="noop")
        self._probe = self._app.task(_probe, name="probe")

    async def prepare(self) -> None:
        with self._app.connection_for_write() as connection:
            queue = self._app.amqp.queues["celery"](connection)
            queue.delete()  # whoever was killed while consuming from it gives its messages back to nobody
            queue.declare()

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._app.close()

    async def submit(self) -> None:
        self._noop.delay()

    async def fill(self, count: int) -> None:
        self._app.conf.broker_transport_options = {}
        await super().fill(count)

    async def probe(self, sent: float) -> None:
        self._probe.delay(sent)

    def counter(self) -> Callable[[], int]:
        """Only of those that no worker has taken yet; what was taken is as many at any time of a drain."""
        channel = self._app.connection_for_read().default_channel
        return lambda: int(channel.queue_declare("celery", passive=True).message_count)

    def work(self) -> None:
        name = f"--hostname=bench{os.getpid()}@%h"
        self._app.worker_main(["worker", f"--pool={POOL}", "--concurrency=1", name, *QUIETLY])


def _noop() -> None:
    pass


def _probe(sent: float) -> None:
    started(sent)


if __name__ == "__main__":
    drive(Celery)
