"""How tasks ended, in the log: a line for each failure, and one for each other end up to 50 a second.

The rest of the second is one count: a worker ends more than ten thousand tasks a second, and a line costs more than
most of them.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from headgate.core.end_reasons import EndReason, head_of, why_not_retried
from headgate.core.machine import Event, LeaseLost, Raised
from headgate.core.states import State
from headgate.core.task import Execution, Task
from headgate.environment import monotonic, utc_now
from headgate.events.log_lines import FIELDS
from headgate.events.telemetry import task_fields
from headgate.store.claim.contract import Outcome

MOST_LINES = 50
WINDOW_SECONDS = 1.0
# Failures have lines of their own. What is missing here has not ended: it waits, or runs again.
WORDS = {
    State.SUCCEEDED: "succeeded", State.NOTIFYING: "succeeded", State.PARTIAL: "partial", State.CANCELLED: "cancelled",
}  # fmt: skip
log = logging.getLogger("headgate.tasks")
RunOf = Callable[[Outcome], tuple[float, Any]]  # how many seconds it took, and its span


class EndLines:
    """The lines of one process; from any thread."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._until = 0.0  # the end of the second that is counted
        self._left = most
        self._more: Counter[State | None] = Counter()
        self._timer: threading.Timer | None = None

    def settled(self, outcomes: Sequence[Outcome], states: Sequence[State | None], run_of: RunOf) -> None:
        """Log how executions ended, once that is committed."""
        if not outcomes or not log.isEnabledFor(logging.INFO):
            return
        for index in self._places(states):
            outcome, state = outcomes[index], states[index]
            assert state is not None
            seconds, span = run_of(outcome)
            _write(logging.INFO, f"task {WORDS[state]}", outcome.execution, seconds, WORDS[state], span=span)

    def parent_ended(self, parent: Task, state: State) -> None:
        """A parent ended with the last of its children."""
        seconds = _seconds_since_start(parent)
        if state not in WORDS:
            _write(logging.WARNING, "task failed", parent, seconds, state.value, " error=its children failed")
        elif log.isEnabledFor(logging.INFO) and self._places([state]):
            _write(logging.INFO, f"task {WORDS[state]}", parent, seconds, WORDS[state])

    def flush(self) -> None:
        """Write what was counted."""
        with self._lock:
            counted, self._more, self._timer = self._more, Counter(), None
        ends: Counter[str] = Counter()
        for state, count in counted.items():
            if state in WORDS:
                ends[WORDS[state]] += count
        if ends:
            listed = ", ".join(f"{count:,} {word}" for word, count in ends.most_common())
            tasks = "1 more task" if ends.total() == 1 else f"{ends.total():,} more tasks"
            log.info("%s finished in the last second: %s", tasks, listed)

    def close(self) -> None:
        """Write what was counted, and nothing later."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
        self.flush()

    def _places(self, states: Sequence[State | None]) -> Sequence[int]:
        """Which of these ends get a line of their own; the others are counted."""
        now = monotonic()
        if now >= self._until and self._more:
            self.flush()
        with self._lock:
            if now >= self._until:
                self._until, self._left = now + WINDOW_SECONDS, self._most
            if not self._left:
                self._count(states, now)
                return ()
            ends = [index for index, state in enumerate(states) if state in WORDS]
            mine, others = ends[: self._left], ends[self._left :]
            self._left -= len(mine)
            if others:
                self._count([states[index] for index in others], now)
            return mine

    def _count(self, states: Sequence[State | None], now: float) -> None:
        self._more.update(states)
        if self._timer is None:
            self._timer = threading.Timer(max(self._until - now, 0.0), self.flush)
            self._timer.daemon = True
            self._timer.start()


def log_failure(execution: Execution, event: Event | None, seconds: float, span: Any = None) -> None:
    """The line of an execution that failed or was lost; any other event has none."""
    match event:
        case Raised(error, None, reason):
            then = f"not retried: {why_not_retried(reason or EndReason.EXHAUSTED, execution.error_count)}"
            what, outcome = "task failed", "failed"
        case Raised(error, delay):
            then = f"retrying in {delay:g} s"
            what, outcome = "task failed", "retrying"
        case LeaseLost(error):
            then = "another execution follows, unless it was lost too often"
            what, outcome = "task lost", "lost"
        case _:
            return
    _write(logging.WARNING, what, execution, seconds, outcome, f" error={head_of(error)} ({then})", span)


def log_overdue(task: Task) -> None:
    """The line of a task that was taken from its executor, which had missed its deadline or held its mutex too long."""
    _write(logging.WARNING, "task overdue, taken from its executor", task, _seconds_since_start(task), "overdue")


def _seconds_since_start(task: Task) -> float:
    return max((utc_now() - (task.started_at or task.update_date)).total_seconds(), 0.0)


def _write(
    level: int, what: str, task: Execution | Task, seconds: float, outcome: str, more: str = "", span: Any = None
) -> None:
    text = "%s: task=%d type=%s attempt=%d seconds=%.3f%s"
    fields = task_fields(task, span) | {"seconds": round(seconds, 3), "outcome": outcome}
    log.log(level, text, what, task.id, task.type, task.attempt, seconds, more, extra={FIELDS: fields})
