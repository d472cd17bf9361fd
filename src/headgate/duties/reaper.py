"""Leases that are over, tasks past their deadline, mutexes held too long."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from headgate.core.errors import HeadgateError
from headgate.environment import monotonic
from headgate.service import InThread, Service
from headgate.settings import Settings
from headgate.store.store import Store

PAGE = 500
log = logging.getLogger("headgate.reaper")


@dataclass(slots=True)
class _Watched:
    """The lease of a worker as it was last seen, and for how long it has not moved."""

    lease_until: datetime
    still: float = 0.0


class Reaper(Service):
    """Takes tasks from whoever is gone or too late. Its period is fixed, whatever the load.

    No clock but its own tells it that a lease is over: the lease stood still for as long as it lasts, over several
    looks. One look counts for two periods at most, so that a reaper that was frozen itself, together with the workers
    perhaps, looks again before it blames anybody.
    """

    name = "reaper"

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        super().__init__(settings.reap_seconds)
        self._store = store
        self._settings = settings
        self._in_thread = in_thread
        self._monotonic = monotonic
        self._watched: dict[int, _Watched] = {}
        self._looked_at: float | None = None

    async def turn(self) -> int:
        """Look once, and take a page from each. One step that fails does not keep the others from theirs."""
        done, errors = 0, []
        steps: tuple[Callable[[], Awaitable[int]], ...] = (self._declare_lost, self._rescue, self._end_overdue)
        for step in steps:
            try:
                done += await step()
            except HeadgateError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return done

    async def _declare_lost(self) -> int:
        before = self._monotonic()
        workers = await self._in_thread(self._store.workers.all)
        passed = 0.0 if self._looked_at is None else min(before - self._looked_at, 2 * self.pause)
        self._looked_at = self._monotonic()  # a lease seen for the first time was so at the latest now
        known, self._watched, lost = self._watched, {}, 0
        for worker in workers:
            watched = known.get(worker.id)
            if watched is None or watched.lease_until != worker.lease_until:
                watched = _Watched(worker.lease_until)
            else:
                watched.still += passed
            self._watched[worker.id] = watched
            late = watched.still >= worker.lease_seconds
            if late and await self._in_thread(self._store.workers.mark_lost, worker.id, worker.lease_until):
                lost += 1
                log.warning("worker %d (%s) did not renew its lease: it is lost", worker.id, worker.name)
        return lost

    async def _rescue(self) -> int:
        """Give back what lost workers hold, those of earlier turns and of other reapers too."""
        rescued = 0
        for worker_id in await self._in_thread(self._store.workers.lost_holders):
            rescued += len(await self._in_thread(partial(self._store.executions.rescue, worker_id, limit=PAGE)))
        return rescued

    async def _end_overdue(self) -> int:
        end = partial(self._store.executions.end_overdue, limit=PAGE, mutex_seconds=self._settings.mutex_seconds)
        return len(await self._in_thread(end))
