"""Watches the event loop from a thread of its own: which run blocks it, for how long, and which runs are held up."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headgate.environment import monotonic
from headgate.events.log_lines import FIELDS
from headgate.events.telemetry import task_fields
from headgate.worker.context import current
from headgate.worker.run import Run
from headgate.worker.stacks import thread_stack

log = logging.getLogger("headgate.worker")
LOOK_SECONDS = 0.1
BLOCKED_SECONDS = 0.25  # anything shorter looks like a busy loop
LOG_SECONDS = 1.0
MOST_KEPT = 100
HELD_UP_SHARE = 0.1  # of a run's time: a run that lost this much to others is not blamed for being late


@dataclass(slots=True)
class Blockage:
    """A time in which the loop did nothing else, by the monotonic clock; `by` whom, if that could be seen."""

    since: float
    by: Run | None = None
    until: float | None = None  # None: it is not over

    def seconds_within(self, begin: float, end: float) -> float:
        return max(0.0, min(end, self.until or end) - max(begin, self.since))


class LoopWatch:
    """Pings the loop periodically while something is `held` that needs it.

    `on_stuck` gets a run that blocks the loop, once its deadline has passed `grace` seconds ago; in this thread.
    """

    def __init__(self, held: Callable[[], Iterable[Run]], grace: float, on_stuck: Callable[[Run, str], None]) -> None:
        self._held = held
        self._grace = grace
        self._on_stuck = on_stuck
        self._blockages: deque[Blockage] = deque(maxlen=MOST_KEPT)
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0

    def begin(self) -> None:
        """Watch the running loop from now on."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._watch, name="headgate loop watch", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def held_up(self, run: Run) -> bool:
        """Whether others blocked the loop when the run's deadline came, or for much of its time."""
        now = monotonic()
        others = [blockage for blockage in [*self._blockages] if blockage.by is not run]
        at_deadline = any(blockage.since <= run.deadline <= (blockage.until or now) for blockage in others)
        seconds = sum(blockage.seconds_within(run.begun, now) for blockage in others)
        return at_deadline or seconds >= HELD_UP_SHARE * run.seconds

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if next(iter(self._held()), None) is not None:
                self._look()

    def _look(self) -> None:
        sent_at, used, answer = monotonic(), time.process_time(), threading.Event()
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(answer.set)
        except RuntimeError:  # the loop has ended
            self._ended.set()
            return
        if answer.wait(BLOCKED_SECONDS):
            return
        # If the whole process stood still, no handler is to blame.
        lost = monotonic() - sent_at - BLOCKED_SECONDS
        frozen = lost > BLOCKED_SECONDS and time.process_time() - used < lost / 2
        blockage = Blockage(sent_at, None if frozen else self._culprit())
        self._blockages.append(blockage)
        self._wait_for_end(blockage, answer)
        blockage.until = monotonic()

    def _wait_for_end(self, blockage: Blockage, answer: threading.Event) -> None:
        logged = given_up = False
        while not answer.wait(LOOK_SECONDS) and not self._ended.is_set():
            blockage.by = blockage.by or self._culprit()
            seconds, by = monotonic() - blockage.since, blockage.by
            if seconds >= LOG_SECONDS and not logged:
                logged = True
                self._log(by)
            if by is not None and not given_up and monotonic() > by.deadline + self._grace:
                given_up = True
                self._on_stuck(by, thread_stack(self._loop_thread))
        if logged:
            log.warning("event loop runs again: seconds=%.1f", monotonic() - blockage.since)

    def _log(self, by: Run | None) -> None:
        whom = "" if by is None else f": task={by.execution.id} type={by.execution.type}"
        log.warning(
            "event loop blocked, nothing else runs on it, not even timeouts%s\n%s",
            whom, thread_stack(self._loop_thread), extra={FIELDS: {} if by is None else task_fields(by.execution)},
        )  # fmt: skip

    def _culprit(self) -> Run | None:
        """Whose handler is being run on the loop right now, or a task that it made."""
        assert self._loop is not None
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        made_in = task.get_context().get(current) if hasattr(task, "get_context") else None  # Python 3.12
        return next(
            (run for run in self._held() if run.task is task or (made_in is not None and run.context is made_in)), None
        )
