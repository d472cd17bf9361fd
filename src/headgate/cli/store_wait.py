"""Waiting, at the start of a process, for a database server that cannot be reached."""

import asyncio
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from headgate.cli.exits import message_of
from headgate.cli.formatting import one_line
from headgate.core.errors import Unreachable
from headgate.pauses import wait
from headgate.settings import Settings
from headgate.store.store import configured_store
from headgate.threads import Threads

log = logging.getLogger("headgate")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
AGAIN_SECONDS = 1.0


async def wait_for_store(settings: Settings, *, has_parent: bool) -> bool:
    """Wait until the database server answers; False if this process is told to stop before that.

    Any other error is raised: waiting would not fix it.
    """
    if settings.url.startswith("sqlite:"):
        return True
    stopped = asyncio.Event()
    with _told_to_stop(stopped, has_parent), closing(_Probe(settings)) as probe:
        reason = ""
        while (problem := await probe.problem(stopped)) and not stopped.is_set():
            if problem != reason:
                log.warning("waiting for the store: %s", problem)
                reason = problem
            await wait(stopped, AGAIN_SECONDS)
        if reason and not stopped.is_set():
            log.info("the store answers")
    return not stopped.is_set()


class _Probe:
    """Asks the server in a thread, so that a signal need not wait for the answer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._in_thread = Threads("headgate store", 1)

    async def problem(self, stopped: asyncio.Event) -> str:
        """Why the server cannot be reached, or nothing; returns at once when `stopped` is set."""
        asking = asyncio.ensure_future(self._in_thread(self._ask))
        stopping = asyncio.ensure_future(stopped.wait())
        await asyncio.wait([asking, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if asking.done():
            return asking.result()
        asking.cancel()
        return ""

    def _ask(self) -> str:
        try:
            with configured_store(self._settings) as store:
                store.migration_plan()
        except Unreachable as error:
            return one_line(message_of(error))
        return ""

    def close(self) -> None:
        self._in_thread.close(wait=False)


@contextmanager
def _told_to_stop(stopped: asyncio.Event, has_parent: bool) -> Iterator[None]:
    """Set `stopped` on a signal, or when the parent process is gone, which a worker hears by its stdin."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    if has_parent:
        loop.add_reader(sys.stdin.fileno(), stopped.set)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        if has_parent:
            loop.remove_reader(sys.stdin.fileno())
