"""A background loop: turn, wake, start, stop. Written once; every duty is one `turn()`."""

import asyncio
import logging
from contextlib import suppress

from headgate.core.errors import HeadgateError
from headgate.environment import random_number
from headgate.pauses import Backoff, wait

LONGEST_PAUSE = 30.0
JITTER = 0.1  # so that processes do not run in lockstep
SHORTEST_SECONDS = 0.01
SPREAD_SECONDS = 0.02  # so that of many processes one comes first, and the others find it done
log = logging.getLogger("headgate")


class Service:
    """One named loop. `turn` does what there is to do and returns how much that was; 0 means: nothing now.

    After a turn that did something, the next follows in `pause_after_work` seconds; else after `pause` seconds, on a
    `wake`, or in `next_in` seconds if the turn found something due then. A turn is idempotent and may be run by any
    number of processes. A failing turn is logged once until it succeeds again, and is tried again with growing pauses.
    """

    name = "service"
    pause = 1.0
    pause_after_work = 0.0

    def __init__(self) -> None:
        self.next_in: float | None = None
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False
        self._failures = 0

    async def turn(self) -> int:
        raise NotImplementedError

    def wake(self) -> None:
        """There may be something to do. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended, and this with it
                self._loop.get_loop().call_soon_threadsafe(self._woken.set)

    def start(self) -> None:
        """Begin to turn, at once and then again and again."""
        self._stopping = False
        self._loop = asyncio.create_task(self._run(), name=f"headgate {self.name}")

    async def stop(self) -> None:
        """End the loop; a turn under way is waited for."""
        self._stopping = True
        self._woken.set()
        if self._loop is not None:
            await asyncio.wait([self._loop])

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()  # before the turn, or a wake-up during it is lost
            done = await self._safe_turn()
            await asyncio.sleep(0)  # a turn that never waits must not starve the others
            await wait(self._woken, self.pause_after_work if done else self._next_pause())

    async def _safe_turn(self) -> int:
        try:
            done = await self.turn()
        except Exception as error:
            self._failed(error)
            return 0
        if self._failures:
            log.info("%s: recovered", self.name)
        self._failures = 0
        return done

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > 1:
            return
        if isinstance(error, HeadgateError):
            log.warning("%s: turn failed, retrying: %s", self.name, error)
        else:
            log.error("%s: turn failed, retrying", self.name, exc_info=error)

    def _next_pause(self) -> float:
        """Until the next turn, when this one found nothing to do or failed."""
        pause = Backoff(self.pause, max(LONGEST_PAUSE, self.pause), jitter=JITTER).pause(self._failures)
        if self._failures or self.next_in is None:
            return pause
        return min(max(self.next_in, SHORTEST_SECONDS) + SPREAD_SECONDS * random_number(), pause)
