"""A worker in a process of its own, with short leases: python -m tests.stories.fleet URL LEDGER"""

import argparse
import asyncio
import logging
import os
import signal
from contextlib import closing

from headgate.duties import light_duties
from headgate.settings import Settings
from headgate.threads import Threads
from headgate.worker.worker import Worker
from tests.stories.ledger import VARIABLE


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("ledger")
    parser.add_argument("--lease", type=float, default=1.5)
    parser.add_argument("--beat", type=float, default=0.4)
    parser.add_argument("--reap", type=float, default=0.3)
    parser.add_argument("--poll", type=float, default=0.2)
    parser.add_argument("--shutdown", type=float, default=10.0)
    parser.add_argument("--slots", type=int, default=100)
    return parser.parse_args()


async def serve(settings: Settings, slots: int) -> None:
    from tests.stories.bodies import app  # when the environment says where its ledger is

    app._settings = settings
    worker = Worker(app.store, app._registry, settings, concurrency=slots, threads=6, children=2)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    with closing(Threads("duties", 2)) as in_thread:
        duties = light_duties(app.store, settings, in_thread)
        for duty in duties:
            duty.start()
        try:
            await worker.run()
        finally:
            for duty in duties:
                await duty.stop()
            app.close()


def main() -> None:
    arguments = parsed_arguments()
    os.environ[VARIABLE] = arguments.ledger
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s: %(message)s")
    settings = Settings(
        url=arguments.url,
        lease_seconds=arguments.lease,
        beat_seconds=arguments.beat,
        reap_seconds=arguments.reap,
        poll_seconds=arguments.poll,
        shutdown_seconds=arguments.shutdown,
    )
    asyncio.run(serve(settings, arguments.slots))


if __name__ == "__main__":
    main()
