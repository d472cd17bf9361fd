"""Ticks of schedules, each fired once; and the ends of what they began, written into their logs."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from headgate.core.cron import reckon
from headgate.core.errors import Invalid, Unavailable
from headgate.core.schedule import Schedule
from headgate.outside import draw, monotonic
from headgate.service import Aside, Service
from headgate.store.base import Store
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
        self._after = 0  # the run that was looked at last
        self._round_began = self._look_at = float("-inf")

    async def turn(self) -> int:
        self._ahead = await self._aside(self._schedules.next_due)
        fired = 0
        if self._ahead is not None and self._ahead <= 0:
            for portion in portions(await self._aside(self._reckoned)):
                fired += await self._fire(portion)
        return fired + await self._end_runs()

    def _reckoned(self) -> list[Firing]:
        return list(reckoned(*self._schedules.due(BATCH)))

    async def _fire(self, portion: Sequence[Firing]) -> int:
        """One that cannot be fired holds up nobody else."""
        try:
            fired: Fired = await self._aside(self._schedules.fire, portion)
        except Unavailable:
            raise
        except Exception as error:
            if len(portion) > 1:
                return sum([await self._fire([firing]) for firing in portion])
            log.error("a tick of periodic task %d cannot be fired: %s", portion[0].schedule.id, error)
            return 0
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
        """Until the next tick that is known."""
        pause = super()._next_pause()
        if self._failures or self._ahead is None:
            return pause
        return min(max(self._ahead, SHORTEST_SECONDS) + SPREAD_SECONDS * draw(), pause)


def reckoned(due: Iterable[Schedule], now: datetime) -> Iterator[Firing]:
    """What is to be done about each; one whose zone this machine does not know is left to others."""
    for schedule in due:
        try:
            cron = schedule.said.cron
        except Invalid as error:
            log.error("periodic task %d: %s", schedule.id, error)
            continue
        if schedule.next_tick is not None:
            yield Firing(schedule, now, reckon(cron, schedule.next_tick, now, schedule.said.missed))


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
