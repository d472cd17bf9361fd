"""A process that does nothing but send callbacks, with short leases: python -m tests.stories.sender URL LEASE"""

import asyncio
import logging
import signal
import sys

from headgate.duties import Callbacks
from headgate.settings import Settings
from headgate.store.store import open_store


async def send(url: str, lease_seconds: float) -> None:
    settings = Settings(url=url, callback_allow="127.0.0.0/8", poll_seconds=0.2)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    with open_store(url) as store:
        duty = Callbacks(store, settings, asyncio.to_thread)
        duty.lease_seconds = lease_seconds
        duty.start()
        await ended.wait()
        await duty.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s: %(message)s")
    asyncio.run(send(sys.argv[1], float(sys.argv[2])))
