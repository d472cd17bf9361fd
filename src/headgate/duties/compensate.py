"""Starts that got lost between the store and an agent go through the agent's start queue again."""

import logging
from collections.abc import Callable
from functools import partial

from headgate.core.compensation import CompensationSettings
from headgate.duties.duty import Duty
from headgate.events.log_lines import FIELDS
from headgate.settings import Settings
from headgate.store.execution.compensation import Compensation, PollingStatus, PollResult
from headgate.store.store import Store
from headgate.threads import InThread

log = logging.getLogger("headgate.compensation")


class Compensate(Duty):
    """Polls when a poll is due, by a clock that all processes share, and logs its status every minute.

    It looks at that clock at least once per base interval: another process may have moved the next poll forward.
    """

    name = "compensation"

    def __init__(self, store: Store, settings: Settings, in_thread: InThread) -> None:
        super().__init__(store, settings, in_thread)
        self._compensation = store.compensation
        self._figures = settings.compensation
        self.pause = self._figures.base
        self._status_at: float | None = None

    async def turn(self) -> int:
        if self._status_at is None:
            await self._in_thread(self._compensation.begin)
            self._status_at = self.monotonic() + self._figures.status_seconds
        found = 0
        left = await self._in_thread(self._compensation.wait, self._figures)
        if not left:
            found = await self._in_thread(poll_all, self._compensation, self._figures, self._compensation.poll)
            left = await self._in_thread(self._compensation.wait, self._figures)
        if self.monotonic() >= self._status_at:
            log.info("%s", status_line(await self._in_thread(self._compensation.status, self._figures)))
            self._status_at = self.monotonic() + self._figures.status_seconds
        self.next_in = min(left, self._status_at - self.monotonic())
        return found


def trigger(store: Store, figures: CompensationSettings, actor: str) -> int:
    """Poll now, for a person who asked for it; how many lost starts were found."""
    log.info("Manually triggering task start compensation")
    return poll_all(store.compensation, figures, partial(store.compensation.trigger, actor=actor))


def poll_all(
    compensation: Compensation,
    figures: CompensationSettings,
    first: Callable[[CompensationSettings], PollResult | None],
) -> int:
    """Poll page by page, the `first` in its own way; how many lost starts were found."""
    found, poll = 0, first(figures)
    while poll is not None:
        log_poll(poll)
        found += len(poll.found)
        poll = compensation.poll_on(figures) if poll.more else None
    return found


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
