"""Fifteen states, which of them are final, and the word each view has for them."""

from enum import StrEnum


class State(StrEnum):
    """Where a task is on its way."""

    PENDING = "pending"  # created, the start time has not come yet
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


class View(StrEnum):
    """A set of words for the states; `?view=` takes its letter."""

    LIFECYCLE = "A"  # manual tasks
    SERVER = "B"  # the task server
    REQUESTS = "C"  # the request queue
    BROKER = "D"  # the message queue


# A state missing from a view is called as in the engine itself.
_WORDS: dict[View, dict[State, str]] = {
    View.LIFECYCLE: {
        State.PENDING: "pending", State.BLOCKED: "queued", State.QUEUED: "queued", State.SCHEDULING: "queued",
        State.RUNNING: "running", State.WAITING: "running", State.PAUSED: "paused", State.RETRYING: "pending",
        State.NOTIFYING: "completed", State.SUCCEEDED: "completed", State.PARTIAL: "completed",
        State.FAILED: "failed", State.DEAD: "failed", State.RESOLVED: "completed", State.CANCELLED: "cancelled",
    },
    View.SERVER: {
        State.PENDING: "New", State.BLOCKED: "New", State.QUEUED: "New", State.SCHEDULING: "New",
        State.RUNNING: "Executing", State.WAITING: "Executing", State.RETRYING: "Error",
        State.NOTIFYING: "Completed", State.SUCCEEDED: "Success", State.PARTIAL: "Success",
        State.FAILED: "Failure", State.DEAD: "Pending", State.RESOLVED: "ManuallyProcessed",
        State.CANCELLED: "Cancelled",
    },
    View.REQUESTS: {
        State.PENDING: "queued", State.BLOCKED: "queued", State.QUEUED: "queued", State.SCHEDULING: "queued",
        State.RUNNING: "running", State.WAITING: "running", State.PAUSED: "paused", State.RETRYING: "queued",
        State.NOTIFYING: "done", State.SUCCEEDED: "done", State.PARTIAL: "done", State.FAILED: "failed",
        State.DEAD: "failed", State.RESOLVED: "done", State.CANCELLED: "canceled",
    },
    View.BROKER: {
        State.PENDING: "QUEUED", State.BLOCKED: "QUEUED", State.QUEUED: "QUEUED", State.SCHEDULING: "QUEUED",
        State.RUNNING: "RUNNING", State.WAITING: "RUNNING", State.RETRYING: "RETRYING",
        State.NOTIFYING: "COMPLETED", State.SUCCEEDED: "COMPLETED", State.PARTIAL: "COMPLETED_WITH_ERRORS",
        State.FAILED: "FAILED", State.DEAD: "DEAD_LETTER", State.CANCELLED: "CANCELLED",
    },
}  # fmt: skip

# In these views a task that failed before and is due again still shows its failure.
_AFTER_AN_ERROR = {View.SERVER: "Error", View.BROKER: "RETRYING"}
_DUE = frozenset({State.BLOCKED, State.QUEUED, State.SCHEDULING})


def status_word(view: View, state: State, error_count: int = 0) -> str:
    """The word `view` uses for a task in `state` that has failed `error_count` times."""
    if error_count > 0 and state in _DUE and view in _AFTER_AN_ERROR:
        return _AFTER_AN_ERROR[view]
    return _WORDS[view].get(state, state.value)


def states_of_word(view: View, word: str) -> list[tuple[State, bool | None]]:
    """The states that `word` means in `view`, each with whether it needs an earlier error (None: either way)."""
    found: list[tuple[State, bool | None]] = []
    for state in State:
        fresh, failed = status_word(view, state, 0) == word, status_word(view, state, 1) == word
        if fresh or failed:
            found.append((state, None if fresh and failed else failed))
    return found
