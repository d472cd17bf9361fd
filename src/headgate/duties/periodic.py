"""Ticks of schedules, each fired once; and the ends of what they began, written into their logs."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from headgate.core.cron import GRACE, reckon
from headgate.core.errors import HeadgateError, Unavailable
from headgate.core.schedule import Schedule
from headgate.outside import draw, monotonic
from headgate.service import Aside, Service
from headgate.store.base import Store
from headgate.store.schedules import FIRST
from headgate.store.ticks import Fired, Firing

BATCH = 500  # schedules looked at together
MOST_TICKS = 1000  # in one transaction, unless one schedule has more to make good
PAGE = 1000
LONGEST_SECONDS = 1.0  # a nearer tick may be made by anybody, and nobody tells
SHORTEST_SECONDS = 0.01
SPREAD_SECONDS = 0.02  # so that of many processes one comes first, and the others find it done
LOOK_SECONDS = 0.5
LOOK_SHARE = 0.1  # of the time at most is spent on looking at what goes on
log = logging.getLogger("headgate.periodic")


class Ailing(NamedTuple):
    """A schedule that could not be fired: as of which edit, and the tick of which its log was told."""

    version: int
    told: datetime | None


class Page(NamedTuple):
    """Of what was due at `now`; `end` is where more may follow."""

    now: datetime
    firings: list[Firing]
    unreadable: list[tuple[Schedule, Exception]]
    end: tuple[datetime, int] | None


class Periodic(Service):
    """Fires what is due, a batch a turn, and sleeps until the next tick. `on_calls` hears that calls are to be made."""

    name = "periodic"

    def __init__(
        self,
        store: Store,
        aside: Aside,
        on_calls: Callable[[], None] = lambda: None,
        *,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(LONGEST_SECONDS)
        self._schedules = store.schedules
        self._aside = aside
        self._on_calls = on_calls
        self._monotonic = monotonic
        self._ahead: float | None = None
        self._behind, self._until = FIRST, FIRST[0]  # where the round of what is due has come to, and where it ends
        self._left_due = False
        self._ailing: dict[int, Ailing] = {}  # until they are fired here
        self._after = 0  # the run that was looked at last
        self._round_began = self._look_at = float("-inf")

    async def turn(self) -> int:
        self._ahead = await self._aside(self._schedules.next_due)
        done = 0
        if self._ahead is not None and self._ahead <= 0:
            done = await self._fire_page()
        else:
            self._behind = FIRST
        return done + await self._end_runs()

    async def _fire_page(self) -> int:
        """A page of what is due, round after round: what stays due is passed by, and tried again in the next."""
        beginning = self._behind == FIRST
        page = await self._aside(self._page)
        if beginning:
            self._until, self._left_due = page.now, False
        fired = 0
        for portion in portions(page.firings):
            fired += await self._fire(portion)
        for schedule, error in page.unreadable:
            await self._ails(schedule, page.now, error)
        goes_on = page.end is not None and page.end[0] <= self._until
        self._behind = page.end if page.end is not None and goes_on else FIRST
        return max(fired, goes_on)

    def _page(self) -> Page:
        due, now = self._schedules.due(BATCH, self._behind)
        unreadable: list[tuple[Schedule, Exception]] = []
        firings = list(reckoned(due, now, lambda *found: unreadable.append(found)))
        last = due[-1] if len(due) == BATCH else None
        return Page(now, firings, unreadable, (last.next_tick, last.id) if last and last.next_tick else None)

    async def _ails(self, schedule: Schedule, now: datetime, error: Exception) -> None:
        """It stays due: this process says so once until it is well or edited; its own log, once it was missed."""
        self._left_due = True
        known = self._ailing.get(schedule.id)
        if known is None or known.version != schedule.version:
            _tell(schedule, error)
            self._ailing[schedule.id] = known = Ailing(schedule.version, None)
        tick = schedule.next_tick
        if tick is not None and tick != known.told and now - tick > GRACE:
            await self._say(schedule, error)
            self._ailing[schedule.id] = known._replace(told=tick)

    async def _say(self, schedule: Schedule, error: Exception) -> None:
        """In its own log, which is its tenant's: what others' errors say may not be for everybody."""
        known = isinstance(error, HeadgateError)
        reason = str(error) if known else f"{type(error).__name__}, of which the scheduler's log says more"
        try:
            await self._aside(self._schedules.say_unfired, schedule, reason)
        except Unavailable:
            raise
        except Exception as failure:
            log.error("the log of periodic task %d cannot be written: %s", schedule.id, failure)

    async def _fire(self, portion: Sequence[Firing]) -> int:
        """One that cannot be fired holds up nobody else."""
        try:
            fired: Fired = await self._aside(self._schedules.fire, portion)
        except Unavailable:
            raise
        except Exception as error:
            if len(portion) > 1:
                return sum([await self._fire([firing]) for firing in portion])
            await self._ails(portion[0].schedule, portion[0].now, error)
            return 0
        for firing in portion:
            self._ailing.pop(firing.schedule.id, None)
        if fired.calls:
            self._on_calls()
        return fired.schedules

    async def _end_runs(self) -> int:
        """A page of what goes on, round after round."""
        now = self._monotonic()
        if not self._after:
            if now < self._look_at:
                return 0
            self._round_began = now
        ended, after = await self._aside(self._schedules.end_runs, self._after, PAGE)
        self._after = after or 0
        if after is None:
            now = self._monotonic()
            self._look_at = now + max(LOOK_SECONDS, (now - self._round_began) / LOOK_SHARE)
        return ended + (after is not None)  # type: ignore[no-any-return]

    def _next_pause(self) -> float:
        """Until the next tick that is known; what cannot be fired is not waited for."""
        pause = super()._next_pause()
        if self._failures or self._ahead is None or (self._ahead <= 0 and self._left_due):
            return pause
        return min(max(self._ahead, SHORTEST_SECONDS) + SPREAD_SECONDS * draw(), pause)


def _tell(schedule: Schedule, error: Exception) -> None:
    log.error("periodic task %d cannot be fired: %s", schedule.id, error)


def reckoned(
    due: Iterable[Schedule], now: datetime, unreadable: Callable[[Schedule, Exception], None] = _tell
) -> Iterator[Firing]:
    """What is to be done about each; one whose zone this machine does not know is left to others."""
    for schedule in due:
        if schedule.next_tick is None:
            continue
        try:
            firing = Firing(schedule, now, reckon(schedule.said.cron, schedule.next_tick, now, schedule.said.missed))
        except Exception as error:
            unreadable(schedule, error)
        else:
            yield firing


def portions(firings: Iterable[Firing]) -> Iterator[list[Firing]]:
    """As many as go well into one transaction."""
    portion: list[Firing] = []
    size = 0
    for firing in firings:
        count = len(firing.reckoning.fire)
        if portion and size + count > MOST_TICKS:
            yield portion
            portion, size = [], 0
        portion.append(firing)
        size += count
    if portion:
        yield portion


def fire_due(store: Store) -> int:
    """Fire everything that is due, here and now; of how many schedules."""
    fired = 0
    for portion in portions(reckoned(*store.schedules.due(BATCH))):
        fired += store.schedules.fire(portion).schedules
    return fired
