"""A background loop: turn, wake, start, stop. Written once; every duty is one `turn()`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headgate.core.errors import HeadgateError
from headgate.environment import random_number

T = TypeVar("T")
InThread = Callable[..., Awaitable[Any]]
LONGEST_PAUSE = 30.0
log = logging.getLogger("headgate")


async def inline(work: Callable[..., T], *arguments: Any) -> T:
    """Run blocking work where we are: for simulations and tests, which have nobody else to hold up."""
    return work(*arguments)


class Service:
    """One named loop. `turn` does what there is to do and says how much that was; 0 means: nothing now.

    After a turn that did something the next follows in `pause_after_work` seconds, else after `pause` seconds or a
    `wake`. A turn is idempotent and may be run by any number of processes. One that fails is logged, once until it
    succeeds again, and is tried again, later each time.
    """

    name = "service"
    pause_after_work = 0.0

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False
        self._failures = 0

    async def turn(self) -> int:
        raise NotImplementedError

    def wake(self) -> None:
        """There may be something to do. Called on the loop's own thread."""
        self._woken.set()

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
            await asyncio.sleep(0)  # a turn that never waits must not keep everybody else from theirs
            await wait(self._woken, self.pause_after_work if done else self._next_pause())

    async def _safe_turn(self) -> int:
        try:
            done = await self.turn()
        except Exception as error:
            self._failed(error)
            return 0
        if self._failures:
            log.info("%s: well again", self.name)
        self._failures = 0
        return done

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > 1:
            return
        if isinstance(error, HeadgateError):
            log.warning("%s: %s; trying again", self.name, error)
        else:
            log.error("%s failed; trying again", self.name, exc_info=error)

    def _next_pause(self) -> float:
        """The pause, a little off so that processes do not march in step; longer after each failure."""
        pause = min(self.pause * 2.0 ** min(self._failures, 6), max(LONGEST_PAUSE, self.pause))
        return pause * (0.9 + 0.2 * random_number())


async def wait(event: asyncio.Event, at_most: float) -> bool:
    """Until the event is set, or for `at_most` seconds; whether it was set."""
    try:
        async with asyncio.timeout(at_most):
            return await event.wait()
    except TimeoutError:
        return False
