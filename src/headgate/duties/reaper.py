"""Leases that are over, tasks past their deadline, mutexes held too long, resources of ended executions."""

import logging
from datetime import datetime

from headgate.core.errors import HeadgateError
from headgate.duties.duty import Duty
from headgate.duties.standstill import Standstill
from headgate.events.end_lines import log_overdue
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.threads import InThread

PAGE = 500
SWEEP_SECONDS = 60.0
log = logging.getLogger("headgate.reaper")


class Reaper(Duty):
    """Takes tasks away from executors that are gone or too late. Its period is fixed, whatever the load.

    It trusts only its own clock: a lease is over when it has not changed for its whole length.
    """

    name = "reaper"

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__(store, settings, in_thread)
        self.pause = settings.reap_seconds
        self._sweep_at = 0.0  # what ended executions held does not count, but those who wait need a wake-up
        self._leases: Standstill[tuple[int, datetime]] = Standstill()

    async def turn(self) -> int:
        """Look once, and take a page of each kind. A step that fails does not stop the others."""
        done, errors = 0, []
        for step in (self._declare_lost, self._rescue, self._end_overdue):
            try:
                done += await step()
            except HeadgateError as error:
                errors.append(error)
        if done or self.monotonic() >= self._sweep_at:
            self._sweep_at = self.monotonic() + SWEEP_SECONDS
            done += await self._in_thread(self._store.holds.sweep)
        if errors:
            raise errors[0]
        return done

    async def _declare_lost(self) -> int:
        began, lost = self.monotonic(), 0
        workers = await self._in_thread(self._store.workers.all)
        leases = ((worker.id, worker.lease_until) for worker in workers)
        still = self._leases.look(leases, self.pause, began, self.monotonic())
        for worker in workers:
            late = still[worker.id, worker.lease_until] >= worker.lease_seconds
            if late and await self._in_thread(self._store.workers.mark_lost, worker.id, worker.lease_until):
                lost += 1
                log.warning("worker lost, its lease was not renewed: worker=%d name=%s", worker.id, worker.name)
        return lost

    async def _rescue(self) -> int:
        """Give back what lost workers hold, those of earlier turns and of other reapers too."""
        rescued = 0
        for worker_id in await self._in_thread(self._store.workers.lost_holders):
            page = len(await self._in_thread(self._store.executions.rescue, worker_id, limit=PAGE))
            if page:
                log.warning("tasks taken from a lost worker: worker=%d count=%d", worker_id, page)
            rescued += page
        return rescued

    async def _end_overdue(self) -> int:
        mutex_seconds = self._settings.mutex_seconds
        overdue = await self._in_thread(self._store.executions.end_overdue, limit=PAGE, mutex_seconds=mutex_seconds)
        for task in overdue:
            log_overdue(task)
        return len(overdue)
