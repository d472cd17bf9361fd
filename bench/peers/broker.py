"""Headgate with RabbitMQ between dispatcher and workers, through its public door and its command line."""

import json
import os
import time

from bench.peers import tasks
from bench.peers.driver import LONGEST, drive
from bench.peers.headgate import COMMAND, Headgate
from headgate.core.task import DEFAULT_LANE
from headgate.store.store import open_store

CONCURRENCY = 1600  # 400 is slower: a task has its slot from the claim on, and is longer on its way


class Broker(Headgate):
    """Its URL is that of the database, a space, and that of the broker."""

    settings = (
        f"headgate work --concurrency {CONCURRENCY}, broker_prefetch 0 (the slots), quorum queues, "
        "publisher confirms, acknowledged when the start is committed; `headgate duties` beside the workers"
    )

    def __init__(self, url: str) -> None:
        database, _, self._broker = url.partition(" ")
        super().__init__(database)

    async def fill(self, count: int) -> None:
        """They wait until the workers take them from the broker: before, they would claim them."""
        await super().fill(count)
        with open_store(self.url) as store:
            store.lanes.pause(DEFAULT_LANE)

    def await_workers(self, count: int) -> None:
        end = time.monotonic() + LONGEST
        with open_store(self.url) as store:
            while sum(json.loads(each.detail or "{}").get("fed", False) for each in store.workers.all()) < count:
                if time.monotonic() > end:
                    raise TimeoutError(f"no broker fed the workers within {LONGEST:g} s")
                time.sleep(0.05)
            store.lanes.resume(DEFAULT_LANE)

    def work(self) -> None:
        self._execute("work", tasks.__name__, "--concurrency", str(CONCURRENCY))

    def work_beside(self) -> None:
        self._execute("duties")

    def _execute(self, *words: str) -> None:
        options = ("--url", self.url, "--broker", self._broker)
        os.execve(COMMAND, [COMMAND, *words, *options], os.environ | {"HEADGATE_BROKER_PREFETCH": "0"})


if __name__ == "__main__":
    drive(Broker)
