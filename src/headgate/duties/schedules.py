"""Ticks of schedules, each fired once; and the ends of what they began, written into their logs."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from headgate.core.cron import GRACE, due_ticks
from headgate.core.errors import HeadgateError, Unavailable
from headgate.core.schedule import Schedule
from headgate.duties.duty import Duty
from headgate.settings import Settings
from headgate.store.schedules.schedules import FIRST
from headgate.store.schedules.ticks import Firing
from headgate.store.store import Store
from headgate.threads import InThread

BATCH = 500  # schedules looked at together
MOST_TICKS = 1000  # in one transaction, unless one schedule has more to make good
PAGE = 1000
LOOK_SECONDS = 0.5
LOOK_SHARE = 0.1  # of the time, at most, is spent on looking at runs in progress
log = logging.getLogger("headgate.schedules")


class UnfiredSchedule(NamedTuple):
    """A schedule that could not be fired: in which version, and the last tick for which its own log says so."""

    version: int
    logged_tick: datetime | None


class TickPage(NamedTuple):
    """Of what was due at `now`; `end` is where more may follow."""

    now: datetime
    firings: list[Firing]
    unreadable: list[tuple[Schedule, Exception]]
    end: tuple[datetime, int] | None


class FireSchedules(Duty):
    """Fires what is due, a batch a turn, and sleeps until the next tick. `on_calls` is called when there are calls."""

    name = "schedules"
    pause = 1.0  # any process may create an earlier tick, without a wake-up

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, on_calls: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(store, settings, in_thread)
        self._schedules = store.schedules
        self._on_calls = on_calls
        self._behind, self._until = FIRST, FIRST[0]  # where the round of due schedules is, and where it ends
        self._left_due = False
        self._unfired: dict[int, UnfiredSchedule] = {}  # until they are fired here
        self._after = 0  # the run that was looked at last
        self._round_began = self._look_at = float("-inf")

    async def turn(self) -> int:
        self.next_in = await self._in_thread(self._schedules.next_due)
        done = 0
        if self.next_in is not None and self.next_in <= 0:
            done = await self._fire_page()
            if self._left_due:
                self.next_in = None  # what cannot be fired is not waited for
        else:
            self._behind = FIRST
        return done + await self._end_runs()

    async def _fire_page(self) -> int:
        """A page of what is due, round after round: what stays due is passed by, and tried again in the next."""
        beginning = self._behind == FIRST
        page = await self._in_thread(self._page)
        if beginning:
            self._until, self._left_due = page.now, False
        fired = 0
        for batch in batches(page.firings):
            fired += await self._fire(batch)
        for schedule, error in page.unreadable:
            await self._note_unfired(schedule, page.now, error)
        more = page.end is not None and page.end[0] <= self._until
        self._behind = page.end if page.end is not None and more else FIRST
        return max(fired, more)

    def _page(self) -> TickPage:
        due, now = self._schedules.due(BATCH, self._behind)
        unreadable: list[tuple[Schedule, Exception]] = []
        firings = list(due_firings(due, now, lambda *found: unreadable.append(found)))
        last = due[-1] if len(due) == BATCH else None
        return TickPage(now, firings, unreadable, (last.next_tick, last.id) if last and last.next_tick else None)

    async def _note_unfired(self, schedule: Schedule, now: datetime, error: Exception) -> None:
        """It stays due. Log it once until it fires or is edited, and once per missed tick in the schedule's own log."""
        self._left_due = True
        known = self._unfired.get(schedule.id)
        if known is None or known.version != schedule.version:
            _log_unfired(schedule, error)
            self._unfired[schedule.id] = known = UnfiredSchedule(schedule.version, None)
        tick = schedule.next_tick
        if tick is not None and tick != known.logged_tick and now - tick > GRACE:
            await self._write_to_log(schedule, error)
            self._unfired[schedule.id] = known._replace(logged_tick=tick)

    async def _write_to_log(self, schedule: Schedule, error: Exception) -> None:
        """Note it in the schedule's own log. Its tenant reads that log, and may not see errors of others."""
        known = isinstance(error, HeadgateError)
        reason = str(error) if known else f"{type(error).__name__}, of which the scheduler's log says more"
        try:
            await self._in_thread(self._schedules.log_unfired, schedule, reason)
        except Unavailable:
            raise
        except Exception as failure:
            log.error("the log of a schedule could not be written: schedule=%d error=%s", schedule.id, failure)

    async def _fire(self, batch: Sequence[Firing]) -> int:
        """A schedule that cannot be fired does not hold up the others."""
        try:
            fired = await self._in_thread(self._schedules.fire, batch)
        except Unavailable:
            raise
        except Exception as error:
            if len(batch) > 1:
                return sum([await self._fire([firing]) for firing in batch])
            await self._note_unfired(batch[0].schedule, batch[0].now, error)
            return 0
        for firing in batch:
            self._unfired.pop(firing.schedule.id, None)
        if fired.calls:
            self._on_calls()
        return fired.schedules

    async def _end_runs(self) -> int:
        """Look at a page of runs in progress, round after round."""
        now = self.monotonic()
        if not self._after:
            if now < self._look_at:
                return 0
            self._round_began = now
        ended, after = await self._in_thread(self._schedules.end_runs, self._after, PAGE)
        self._after = after or 0
        if after is None:
            now = self.monotonic()
            self._look_at = now + max(LOOK_SECONDS, (now - self._round_began) / LOOK_SHARE)
        return ended + (after is not None)


def _log_unfired(schedule: Schedule, error: Exception) -> None:
    log.error("tick could not be run: schedule=%d error=%s", schedule.id, error)


def due_firings(
    due: Iterable[Schedule], now: datetime, unreadable: Callable[[Schedule, Exception], None] = _log_unfired
) -> Iterator[Firing]:
    """What is to be done about each; one whose zone this machine does not know is left to others."""
    for schedule in due:
        if schedule.next_tick is None:
            continue
        try:
            firing = Firing(
                schedule, now, due_ticks(schedule.definition.cron, schedule.next_tick, now, schedule.definition.missed)
            )
        except Exception as error:
            unreadable(schedule, error)
        else:
            yield firing


def batches(firings: Iterable[Firing]) -> Iterator[list[Firing]]:
    """As many as go well into one transaction."""
    batch: list[Firing] = []
    size = 0
    for firing in firings:
        count = len(firing.ticks.fire)
        if batch and size + count > MOST_TICKS:
            yield batch
            batch, size = [], 0
        batch.append(firing)
        size += count
    if batch:
        yield batch


def fire_due(store: Store) -> int:
    """Fire everything that is due, here and now; of how many schedules."""
    fired = 0
    for batch in batches(due_firings(*store.schedules.due(BATCH))):
        fired += store.schedules.fire(batch).schedules
    return fired
