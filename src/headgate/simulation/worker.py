"""A worker in a simulated process: the real one, except that its threads are tasks of the virtual loop."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from headgate.pauses import wait
from headgate.simulation.process import current_process
from headgate.worker.beat import HURRIED_SHARE, Beat
from headgate.worker.loop_watch import LoopWatch
from headgate.worker.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")


class LoopWorker(Worker):
    async def in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await current_process.get().in_thread(work, *args, **kwargs)


class LoopBeat(Beat):
    """Beats on the loop: there are no threads."""

    def begin(self) -> None:
        self._awake = asyncio.Event()
        self._task = asyncio.create_task(self._beat_on())

    def now(self) -> None:
        self._awake.set()

    def stop(self) -> None:
        self._ended = True
        self._awake.set()

    async def _beat_on(self) -> None:
        while not self._ended:
            await wait(self._awake, self._seconds * (HURRIED_SHARE if self._failed else 1.0))
            self._awake.clear()
            if self._worker_id and not self._ended:
                await current_process.get().in_thread(self.turn)


class UnwatchedLoop(LoopWatch):
    """A virtual loop is never blocked."""

    def begin(self) -> None: ...
