"""Fifteen states, which of them are final, and what each view calls them."""

from enum import StrEnum


class State(StrEnum):
    """Where a task is on its way."""

    PENDING = "pending"  # created, its start_time is ahead
    BLOCKED = "blocked"  # due, but another task of its mutex is ahead
    QUEUED = "queued"  # due, waiting for its gates
    SCHEDULING = "scheduling"  # handed to an agent or the broker, start not yet confirmed
    RUNNING = "running"  # an executor holds it, under exec_id and a deadline
    WAITING = "waiting"  # its own code is done, its children are not
    PAUSED = "paused"  # held by a person or the system
    RETRYING = "retrying"  # failed, will run again at start_time
    NOTIFYING = "notifying"  # succeeded, its callback is not delivered yet
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"  # a parent some of whose children failed
    FAILED = "failed"
    DEAD = "dead"  # gave up; waits for a person
    RESOLVED = "resolved"  # a person dealt with it
    CANCELLED = "cancelled"


FINAL = frozenset({State.SUCCEEDED, State.PARTIAL, State.FAILED, State.RESOLVED, State.CANCELLED})
OPEN = frozenset(State) - FINAL - {State.DEAD}  # what a parent waits for: a dead child counts as failed
HELD = frozenset({State.SCHEDULING, State.RUNNING})  # an exec_id owns it; it fills lane, resources and mutex
TIMED = frozenset({State.PENDING, State.RETRYING})  # waits for its start_time

# One word per state for the views A (manual tasks), B (task server), C (requests) and D (message queue).
# A word missing from a view is the engine's own.
_VIEWS: dict[str, dict[State, str]] = {
    "A": {
        State.PENDING: "pending", State.BLOCKED: "queued", State.QUEUED: "queued", State.SCHEDULING: "queued",
        State.RUNNING: "running", State.WAITING: "running", State.PAUSED: "paused", State.RETRYING: "pending",
        State.NOTIFYING: "completed", State.SUCCEEDED: "completed", State.PARTIAL: "completed",
        State.FAILED: "failed", State.DEAD: "failed", State.RESOLVED: "completed", State.CANCELLED: "cancelled",
    },
    "B": {
        State.PENDING: "New", State.BLOCKED: "New", State.QUEUED: "New", State.SCHEDULING: "New",
        State.RUNNING: "Executing", State.WAITING: "Executing", State.RETRYING: "Error",
        State.NOTIFYING: "Completed", State.SUCCEEDED: "Success", State.PARTIAL: "Success",
        State.FAILED: "Failure", State.DEAD: "Pending", State.RESOLVED: "ManuallyProcessed",
        State.CANCELLED: "Cancelled",
    },
    "C": {
        State.PENDING: "queued", State.BLOCKED: "queued", State.QUEUED: "queued", State.SCHEDULING: "queued",
        State.RUNNING: "running", State.WAITING: "running", State.PAUSED: "paused", State.RETRYING: "queued",
        State.NOTIFYING: "done", State.SUCCEEDED: "done", State.PARTIAL: "done", State.FAILED: "failed",
        State.DEAD: "failed", State.RESOLVED: "done", State.CANCELLED: "canceled",
    },
    "D": {
        State.PENDING: "QUEUED", State.BLOCKED: "QUEUED", State.QUEUED: "QUEUED", State.SCHEDULING: "QUEUED",
        State.RUNNING: "RUNNING", State.WAITING: "RUNNING", State.RETRYING: "RETRYING",
        State.NOTIFYING: "COMPLETED", State.SUCCEEDED: "COMPLETED", State.PARTIAL: "COMPLETED_WITH_ERRORS",
        State.FAILED: "FAILED", State.DEAD: "DEAD_LETTER", State.CANCELLED: "CANCELLED",
    },
}  # fmt: skip

# A task that failed before and is due again still shows its failure in B and D.
_AFTER_AN_ERROR = {"B": "Error", "D": "RETRYING"}
_DUE = frozenset({State.BLOCKED, State.QUEUED, State.SCHEDULING})

VIEWS = tuple(_VIEWS)


def word(view: str, state: State, error_count: int = 0) -> str:
    """The word `view` uses for a task in `state` that has failed `error_count` times."""
    if error_count > 0 and state in _DUE and view in _AFTER_AN_ERROR:
        return _AFTER_AN_ERROR[view]
    return _VIEWS[view].get(state, state.value)


def meaning(view: str, said: str) -> list[tuple[State, bool | None]]:
    """The states `said` stands for in `view`, each with whether it needs an earlier error (None: either way)."""
    found: list[tuple[State, bool | None]] = []
    for state in State:
        fresh, failed = word(view, state, 0) == said, word(view, state, 1) == said
        if fresh or failed:
            found.append((state, None if fresh and failed else failed))
    return found
