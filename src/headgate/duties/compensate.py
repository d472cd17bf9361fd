"""Starts that got lost between the store and an agent go through the agent's start queue again."""

import logging
from collections.abc import Callable
from functools import partial

from headgate.core.compensation import CompensationSettings
from headgate.environment import monotonic, random_number
from headgate.events.log_lines import FIELDS
from headgate.service import InThread, Service
from headgate.settings import Settings
from headgate.store.execution.compensation import PollingStatus, PollResult
from headgate.store.store import Store

SHORTEST_SECONDS = 0.01
SPREAD_SECONDS = 0.05  # so that of many processes one comes first, and the others find it done
log = logging.getLogger("headgate.compensation")


class Compensate(Service):
    """Polls when it is time to, by a clock that all processes share, and says every minute how that stands.

    It looks at that clock once in a base interval at least: somebody may have brought the next poll forward.
    """

    name = "compensation"

    def __init__(
        self, store: Store, settings: Settings, in_thread: InThread, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        self._figures = settings.compensation
        super().__init__(self._figures.base)
        self._compensation = store.compensation
        self._in_thread = in_thread
        self._monotonic = monotonic
        self._started = False
        self._status_logged_at = monotonic()
        self._left = 0.0

    async def turn(self) -> int:
        if not self._started:
            await self._in_thread(self._compensation.begin)
            self._started = True
        found = 0
        self._left = await self._in_thread(self._compensation.wait, self._figures)
        if not self._left:
            found = await self._poll()
            self._left = await self._in_thread(self._compensation.wait, self._figures)
        await self._log_status()
        return found

    async def _poll(self) -> int:
        poll: PollResult | None = await self._in_thread(self._compensation.poll, self._figures)
        found = 0
        while poll is not None:
            log_poll(poll)
            found += len(poll.found)
            poll = await self._in_thread(self._compensation.poll_on, self._figures) if poll.more else None
        return found

    async def _log_status(self) -> None:
        if self._status_in() <= 0:
            log.info("%s", status_line(await self._in_thread(self._compensation.status, self._figures)))
            self._status_logged_at = self._monotonic()

    def _status_in(self) -> float:
        return self._status_logged_at + self._figures.status_seconds - self._monotonic()

    def _next_pause(self) -> float:
        """Until the next poll, or the next word about it."""
        pause = super()._next_pause()
        if self._failures:
            return pause
        return min(max(min(self._left, self._status_in()), SHORTEST_SECONDS) + SPREAD_SECONDS * random_number(), pause)


def trigger(store: Store, figures: CompensationSettings, actor: str) -> int:
    """Poll now, for a person who asked for it; how many lost starts were found."""
    log.info("Manually triggering task start compensation")
    poll = store.compensation.trigger(figures, actor=actor)
    found = 0
    while True:
        log_poll(poll)
        found += len(poll.found)
        if not poll.more:
            return found
        poll = store.compensation.poll_on(figures)


def log_poll(poll: PollResult) -> None:
    """Log what a poll did."""
    if poll.skipped:
        log.info("Task start queue has %d pending tasks, skipping compensation", poll.queue_size)
    if poll.found:
        log.info("Found %d tasks need compensation", len(poll.found))
    for one in poll.found:
        info = partial(log.info, extra={FIELDS: {"task_id": one.task_id}})
        info("Compensating task start: taskId=%d, waitingTime=%dms", one.task_id, _ms(one.waited_seconds))
        info("Task compensation executed immediately" if one.at_once else "Task compensation queued due to rate limit")


def status_line(status: PollingStatus) -> str:
    """The status in one line; a poll that never was is at 0."""
    last_poll = 0.0 if status.last_poll is None else status.last_poll.timestamp()
    left = status.next_poll_in_seconds or 0.0
    return (
        f"Task compensation polling status: interval={_ms(status.interval_seconds)}ms, multiplier={status.multiplier}, "
        f"queueSize={status.queue_size}, lastPoll={_ms(last_poll)}, nextPollIn={_ms(left)}ms"
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
