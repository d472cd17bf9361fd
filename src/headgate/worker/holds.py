"""Waiting for resources that handlers hold for a part of their run. On the worker's event loop, however they run."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from headgate.core.errors import HeadgateError, StaleExecution, Unavailable
from headgate.core.holds import YIELD_SECONDS, Turn
from headgate.environment import monotonic
from headgate.pauses import Backoff, wait
from headgate.store.store import Store
from headgate.threads import InThread
from headgate.worker.context import Paused
from headgate.worker.run import Run, Stop

RELEASES = Backoff(0.2, 5.0, jitter=0.2)  # while the store is away
log = logging.getLogger("headgate.worker")


class HoldLine:
    """The handlers of a worker that wait for resources, in line. When a resource may have room, the first handler
    looks, and the next one when the first has left the line. The first also looks every `poll_seconds`, in case no
    bell rang.

    No handler waits longer than `most_seconds`.
    """

    def __init__(
        self, store: Store, in_thread: InThread, poll_seconds: float = math.inf, most_seconds: float = math.inf
    ) -> None:
        self.store = store
        self.in_thread = in_thread
        self.poll_seconds = poll_seconds
        self.most_seconds = most_seconds
        self.rings = 0
        self._bells: dict[str, dict[int, asyncio.Event]] = defaultdict(dict)  # by resource and order of asking

    @contextmanager
    def waiting(self, resource: str, number: int, rings: int) -> Iterator[asyncio.Event]:
        """Stand in line while the block runs; yields a bell. It rings at once if it was rung since `rings` was read."""
        line, bell = self._bells[resource], asyncio.Event()
        line[number] = bell
        if self.rings != rings:
            bell.set()
        try:
            yield bell
        finally:
            del line[number]
            self.ring([resource])

    def is_first(self, resource: str, number: int) -> bool:
        return min(self._bells[resource]) == number

    def ring(self, resources: Collection[str] | None) -> None:
        """There may be room in these resources, or in any of them."""
        self.rings += 1
        for resource in [*self._bells] if resources is None else resources:
            if line := self._bells.get(resource):
                line[min(line)].set()


class RunHolds:
    """The resources that one execution holds for a part of its run."""

    def __init__(self, line: HoldLine, run: Run) -> None:
        self._line = line
        self._run = run
        self._ids = (run.execution.id, run.execution.exec_id)
        self._taken: set[str] = set()  # or about to be
        self._releases: dict[str, asyncio.Task[None]] = {}  # under way, by resource
        self._bells: set[asyncio.Event] = set()
        run.on_pause = self._end_waits

    async def take(self, resource: str, timeout_seconds: float | None, keeps: Sequence[str] = ()) -> None:
        """Wait until the resource is held; `TimeoutError` if that takes too long, `Deadlock` if it would never end
        while what it `keeps` is held. A pause requested meanwhile takes effect here, as at a checkpoint."""
        seconds = min(self._line.most_seconds, timeout_seconds or math.inf)
        ends = monotonic() + seconds
        if (releasing := self._releases.get(resource)) is not None:
            await self._released(releasing, resource, seconds)
        self._taken.add(resource)
        try:
            turn = await self._wait(resource, seconds, ends, keeps)
        except BaseException:
            await self.release(resource)
            raise
        if turn.number is None:
            self._taken.discard(resource)

    async def release(self, resource: str) -> None:
        """Release a resource; one that the type uses is released only when the execution ends.

        What the handler did with it is done: while the store is away, the release is tried again in the background.
        """
        if resource in self._taken:
            self._taken.discard(resource)
            tried = asyncio.Event()
            self._releases[resource] = releasing = asyncio.create_task(self._release(resource, tried))
            await tried.wait()
            if releasing.done():
                releasing.result()

    async def close(self) -> None:
        """Release everything that is still held."""
        for releasing in self._releases.values():
            releasing.cancel()
        if left := sorted(self._taken | self._releases.keys()):
            try:
                await self._line.in_thread(self._line.store.holds.release, *self._ids, left)
            except HeadgateError as error:
                log.warning("resources not released before the task ends: task=%d error=%s", self._ids[0], error)

    async def _release(self, resource: str, tried: asyncio.Event) -> None:
        """Release a resource, however long the store is away; what it held ends with the execution, at the latest."""
        try:
            for pause in RELEASES.pauses():
                try:
                    await self._line.in_thread(self._line.store.holds.release, *self._ids, [resource])
                    return
                except Unavailable as error:
                    log.warning(
                        "resource not released yet: task=%d resource=%s error=%s", self._ids[0], resource, error
                    )
                tried.set()
                await asyncio.sleep(pause)
                if self._run.ended is not None:
                    return
        finally:
            del self._releases[resource]
            tried.set()

    async def _released(self, releasing: "asyncio.Task[None]", resource: str, seconds: float) -> None:
        """Wait for a release that is under way: it must not end what is taken after it."""
        done, _ = await asyncio.wait([releasing], timeout=None if seconds == math.inf else seconds)
        if not done:
            raise _late(resource, seconds)

    async def _wait(self, resource: str, seconds: float, ends: float, keeps: Sequence[str]) -> Turn:
        rings = self._line.rings
        turn = await self._look(resource, keeps)
        if turn.held or turn.number is None:
            return turn
        with self._line.waiting(resource, turn.number, rings) as bell, self._pausing(bell):
            while not turn.held:
                if self._run.pausing:
                    raise Paused
                left = ends - monotonic()
                if turn.yields:
                    await asyncio.sleep(min(YIELD_SECONDS, max(left, 0.0)))
                elif left <= 0:
                    raise _late(resource, seconds)
                elif not await self._rung(resource, turn, bell, left):
                    continue
                bell.clear()
                turn = await self._look_again(resource, turn)
        return turn

    async def _rung(self, resource: str, turn: Turn, bell: asyncio.Event, seconds: float) -> bool:
        """Wait for the bell; returns whether to look: the bell rang, or we are first and it was silent for too long."""
        if await wait(bell, min(self._line.poll_seconds, seconds)):
            return not self._run.pausing
        return self._line.is_first(resource, turn.number or 0)

    async def _look_again(self, resource: str, turn: Turn) -> Turn:
        try:
            return await self._look(resource, insist=turn.yields)
        except Unavailable as error:
            log.warning("still waiting for a resource: task=%d resource=%s error=%s", self._ids[0], resource, error)
            return Turn(turn.number, held=False)

    async def _look(self, resource: str, keeps: Sequence[str] = (), *, insist: bool = False) -> Turn:
        """Take the resource if it is our turn. A call that has begun is finished: we must know what to release."""
        look = self._line.in_thread(self._line.store.holds.take, *self._ids, resource, keeps=keeps, insist=insist)
        looking = asyncio.ensure_future(look)
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            await asyncio.gather(looking, return_exceptions=True)
            raise
        except StaleExecution:
            self._run.stop(Stop.LOST)
            raise

    @contextmanager
    def _pausing(self, bell: asyncio.Event) -> Iterator[None]:
        self._bells.add(bell)
        try:
            yield
        finally:
            self._bells.discard(bell)

    def _end_waits(self) -> None:
        for bell in self._bells:
            bell.set()


def _late(resource: str, seconds: float) -> TimeoutError:
    return TimeoutError(f"resource {resource} was not free within {seconds:g} s")
