"""Finished tasks leave for history; history, and what else is kept for a while, leaves after its time."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from headgate.core.cron import zone_of
from headgate.core.states import FINAL, State
from headgate.duties.batch_size import BatchSize
from headgate.duties.duty import Duty
from headgate.environment import utc_now
from headgate.settings import Settings
from headgate.store.history.history import ArchiveCursor, Batch
from headgate.store.store import Store
from headgate.threads import InThread

BATCH = 1000
RESTART_AFTER = timedelta(minutes=1)
DAY_SECONDS = 24 * 3600.0
RETENTION = "retention"  # the kind of audit row that says it was done
ACTOR = "system:archive"


class Archive(Duty):
    """Moves finished tasks to history when they are `keep_seconds` old, and once a day removes what is old enough.

    One batch a turn, smaller where batches take long. If no process ran at the daily hour, the next one to run makes up
    for it.
    """

    name = "archive"
    pause = 5.0
    keep_seconds = 60.0

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__(store, settings, in_thread)
        self.clock: Callable[[], datetime] = utc_now
        self.batch_size = BatchSize(BATCH)
        self._zone = zone_of(settings.timezone)
        self._retention_seconds = {
            state: retention_days(settings, state) * DAY_SECONDS for state in State if state in FINAL
        }
        self._moved_to: ArchiveCursor | None = None
        self._began_at: datetime | None = None
        self._removed_to: dict[State, ArchiveCursor | None] = {}
        self._removed = 0
        self._done_at: datetime | None = None

    async def turn(self) -> int:
        return await self._move() + await self._daily()

    async def _move(self) -> int:
        """A batch to history, from where the last one ended, and once a minute from the start.

        It returns to the start for children whose parents have ended since. It does so only once a minute: moved rows
        leave entries in the index for a while, which should not be walked over each time.
        """
        now = self.clock()
        if self._began_at is None or not timedelta() <= now - self._began_at < RESTART_AFTER:
            self._began_at, self._moved_to = now, None
        page = await self._page(partial(self._store.history.move, seconds=self.keep_seconds, after=self._moved_to))
        self._moved_to = page.after
        return max(page.count, page.more)

    async def _page(self, work: Callable[..., Batch]) -> Batch:
        page = await self._in_thread(self.batch_size.run, work)
        self.pause_after_work = self.batch_size.rest
        return page

    async def _daily(self) -> int:
        """A batch of the day's work; 0 when it is done, here or elsewhere."""
        due = last_time_at(self._settings.retention_hour, self._zone, self.clock())
        if self._done_at is None or self._done_at < due:
            self._done_at = await self._in_thread(self._store.events.last_act, RETENTION)
        if self._done_at is not None and self._done_at >= due:
            return 0
        if removed := await self._remove():
            return removed
        await self._in_thread(self._store.events.make_partitions)
        if dropped := await self._in_thread(
            self._store.events.drop_partitions, due - timedelta(seconds=max(self._retention_seconds.values()))
        ):
            return len(dropped)
        detail, self._removed, self._removed_to = json.dumps({"removed": self._removed}), 0, {}
        await self._in_thread(self._store.events.record, RETENTION, detail, actor=ACTOR)
        self._done_at = due  # whatever the store's clock says
        return 0

    async def _remove(self) -> int:
        for state, seconds in self._retention_seconds.items():
            after = self._removed_to.get(state)
            page = await self._page(partial(self._store.history.remove, state, seconds=seconds, after=after))
            self._removed_to[state] = page.after
            self._removed += page.count
            if page.count or page.more:  # more may follow a page of which everything stays
                return max(page.count, page.more)
        longest = max(self._retention_seconds.values())
        for forget, seconds in (
            (self._store.history.forget_outdated, DAY_SECONDS),
            (self._store.history.forget_acts, longest),
            (self._store.schedules.forget_logs, longest),
        ):
            if forgotten := await self._in_thread(forget, seconds=seconds, limit=self.batch_size.most):
                return forgotten
        return 0


def retention_days(settings: Settings, state: State) -> float:
    """How long a task with this end is kept."""
    if state in (State.FAILED, State.CANCELLED):
        return settings.retention_failed_days
    return settings.retention_succeeded_days


def last_time_at(hour: int, zone: tzinfo, now: datetime) -> datetime:
    """The last time that it was `hour` o'clock there."""
    local = now.astimezone(zone)
    for day in (local, local - timedelta(days=1)):
        moment = day.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0).astimezone(UTC)
        if moment <= now:
            break
    return moment
