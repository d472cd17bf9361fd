"""Finished tasks leave for history; history, and what else is kept for a while, leaves after its time."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from headgate.core.cron import zone_of
from headgate.core.states import State
from headgate.outside import utc_now
from headgate.service import Aside, Service
from headgate.settings import Settings
from headgate.store.base import Store

BATCH = 1000
PERIOD_SECONDS = 5.0
KEEP_SECONDS = 60.0
DAY_SECONDS = 24 * 3600.0
RETENTION = "retention"  # the kind of audit row that says it was done
ACTOR = "system:archive"


class Archive(Service):
    """Moves finished tasks to history when they are `keep_seconds` old, and once a day removes what is old enough.

    A batch a turn. A day whose hour nobody was there for is made up for when somebody is.
    """

    name = "archive"
    breath = 0.05

    def __init__(
        self,
        store: Store,
        settings: Settings,
        aside: Aside,
        *,
        keep_seconds: float = KEEP_SECONDS,
        batch: int = BATCH,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(PERIOD_SECONDS)
        self._store = store
        self._aside = aside
        self._keep = keep_seconds
        self._batch = batch
        self._clock = clock
        self._hour = settings.retention_hour
        self._zone = zone_of(settings.timezone)
        self._longest = max(settings.retention_succeeded_days, settings.retention_failed_days) * DAY_SECONDS
        self._kept = (
            ((State.SUCCEEDED, State.PARTIAL, State.RESOLVED), settings.retention_succeeded_days * DAY_SECONDS),
            ((State.FAILED, State.CANCELLED), settings.retention_failed_days * DAY_SECONDS),
        )
        self._done_at: datetime | None = None
        self._removed = 0

    async def turn(self) -> int:
        moved: int = await self._aside(partial(self._store.archive, seconds=self._keep, limit=self._batch))
        return moved + await self._daily()

    async def _daily(self) -> int:
        """A batch of the day's work; 0 when it is done, here or elsewhere."""
        due = latest(self._hour, self._zone, self._clock())
        if self._done_at is None or self._done_at < due:
            self._done_at = await self._aside(self._store.last_act, RETENTION)
        if self._done_at is not None and self._done_at >= due:
            return 0
        if removed := await self._remove():
            return removed
        await self._aside(self._store.make_partitions)
        await self._aside(self._store.drop_partitions, due - timedelta(seconds=self._longest))
        told, self._removed = json.dumps({"removed": self._removed}), 0
        await self._aside(partial(self._store.record_act, RETENTION, told, actor=ACTOR))
        self._done_at = due  # whatever the store's clock says
        return 0

    async def _remove(self) -> int:
        for states, seconds in self._kept:
            purge = partial(self._store.purge, states, seconds=seconds, limit=self._batch)
            if removed := await self._aside(purge):
                self._removed += removed
                return int(removed)
        forget = partial(self._store.forget_outdated, seconds=DAY_SECONDS, limit=self._batch)
        acts = partial(self._store.forget_acts, seconds=self._longest, limit=self._batch)
        logs = partial(self._store.schedules.forget_logs, seconds=self._longest, limit=self._batch)
        return int(await self._aside(forget) or await self._aside(acts) or await self._aside(logs))


def latest(hour: int, zone: tzinfo, now: datetime) -> datetime:
    """The last time that it was `hour` o'clock there."""
    local = now.astimezone(zone)
    for day in (local, local - timedelta(days=1)):
        struck = day.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0).astimezone(UTC)
        if struck <= now:
            break
    return struck
