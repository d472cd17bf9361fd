"""The progress that agents report: an event at most once a second for each execution, and always of the last report."""

import asyncio
import logging
import threading
from collections import OrderedDict
from typing import NamedTuple

from headgate.core.errors import HeadgateError, StaleExecution
from headgate.environment import monotonic
from headgate.store.claim.contract import Control
from headgate.store.store import Store
from headgate.threads import InThread

EVENT_SECONDS = 1.0
MOST_KNOWN = 10_000
log = logging.getLogger("headgate.agents")


class Report(NamedTuple):
    """A progress report."""

    task_id: int
    exec_id: str
    progress: str
    actor: str


class LateProgress:
    """What this server was told less than a second after the last event: its own event is written a moment later."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self._lock = threading.Lock()
        self._told_at: OrderedDict[str, float] = OrderedDict()  # by exec_id
        self._late: dict[str, Report] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def keep(self, report: Report) -> Control:
        """Keep a report; what is asked of its execution. It blocks."""
        with self._lock:
            event = monotonic() - self._told_at.get(report.exec_id, -EVENT_SECONDS) >= EVENT_SECONDS
            if not event:
                self._late[report.exec_id] = report
        control = self._store.executions.progress(*report[:3], actor=report.actor, event=event)
        if event:
            with self._lock:
                self._told_at[report.exec_id] = monotonic()
                self._told_at.move_to_end(report.exec_id)
                while len(self._told_at) > MOST_KNOWN:
                    self._told_at.popitem(last=False)
        return control

    def of(self, exec_id: str) -> str | None:
        """The progress of an execution that has no event yet."""
        with self._lock:
            report = self._late.get(exec_id)
        return None if report is None else report.progress

    def write_later(self, exec_id: str) -> None:
        """Write the event of what came too soon after the last one. On the event loop."""
        if exec_id in self._late and exec_id not in self._timers:
            self._timers[exec_id] = asyncio.get_running_loop().call_later(EVENT_SECONDS, self._begin, exec_id)

    async def close(self) -> None:
        """Write what is still to be written."""
        for exec_id, timer in list(self._timers.items()):
            timer.cancel()
            self._begin(exec_id)
        if self._writing:
            await asyncio.wait(self._writing)

    def _begin(self, exec_id: str) -> None:
        del self._timers[exec_id]
        with self._lock:
            report = self._late.pop(exec_id, None)
        if report is not None:
            writing = asyncio.create_task(self._in_thread_write(report))
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)

    async def _in_thread_write(self, report: Report) -> None:
        await self._in_thread(self._write, report)

    def _write(self, report: Report) -> None:
        task_id, exec_id, progress, actor = report
        try:
            self._store.executions.progress(task_id, exec_id, progress, actor=actor, event=True)
        except StaleExecution:  # it has ended meanwhile, perhaps at another server
            self._store.executions.note_late_progress(task_id, exec_id, progress, actor=actor)
        except HeadgateError as error:
            log.warning("task %d: the progress event was not stored: %s", task_id, error)
