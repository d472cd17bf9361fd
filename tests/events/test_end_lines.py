"""How tasks ended, in the log: each failure, and the others up to a number a second."""

import logging
import re

import pytest

from headgate.app import Headgate
from headgate.core.machine import GivenBack, Raised, Returned, Snoozed
from headgate.core.states import State
from headgate.core.task import NewTask
from headgate.events.end_lines import EndLines, log_failure
from headgate.events.log_lines import FIELDS
from headgate.settings import Settings
from headgate.store.claim.contract import Outcome
from headgate.store.store import open_store
from tests.factories import TYPES, running, settle, start
from tests.worker.conftest import until, working

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        for kind in TYPES:
            opened.types.put(kind)
        yield opened


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "headgate.tasks")
    return EndLines(most=3)


def ended(execution, event=None):
    return Outcome(execution, event or Returned())


def a_second(outcome):
    return 1.25, None


def test_each_task_that_finishes_is_one_line_with_what_it_is_about(store, lines, caplog):
    """Spec: D10"""
    execution = running(store, correlation_id=TRACE, creator=42)
    lines.settled([ended(execution)], [State.SUCCEEDED], a_second)
    assert caplog.messages == [f"task succeeded: task={execution.id} type=plain attempt=1 seconds=1.250"]
    assert getattr(caplog.records[0], FIELDS) == {
        "task_id": execution.id, "exec_id": execution.exec_id, "type": "plain", "attempt": 1, "correlation_id": TRACE,
        "trace_id": TRACE, "user": "42", "tenant_id": 0, "seconds": 1.25, "outcome": "succeeded",
    }  # fmt: skip


def test_beyond_so_many_a_second_the_rest_is_counted(store, lines, caplog):
    """Spec: D10"""
    execution = running(store)
    states = [State.SUCCEEDED] * 1200 + [State.CANCELLED, State.NOTIFYING, None, State.RETRYING]
    for _ in range(2):
        lines.settled([ended(execution)] * len(states), states, a_second)
    assert len(caplog.messages) == 3
    until(lambda: len(caplog.messages) == 4)  # by itself, at the end of the second
    assert caplog.messages[-1] == "2,401 more tasks finished in the last second: 2,399 succeeded, 2 cancelled"
    lines.close()
    assert len(caplog.messages) == 4


def test_what_was_counted_is_written_when_the_process_ends(store, lines, caplog):
    """Spec: D10"""
    lines.settled([ended(running(store))] * 4, [State.SUCCEEDED] * 4, a_second)
    lines.close()
    assert caplog.messages[3:] == ["1 more task finished in the last second: 1 succeeded"]


@pytest.mark.parametrize(("event", "state"), [
    (Raised("no"), State.FAILED), (Raised("no"), State.DEAD), (Raised("no", 60.0), State.RETRYING),
    (Snoozed(5.0), State.PENDING), (GivenBack(), State.QUEUED), (Returned(), State.WAITING), (Returned(), None),
])  # fmt: skip
def test_what_failed_has_its_own_line_and_what_goes_on_has_not_finished(store, lines, caplog, event, state):
    """Spec: D10"""
    lines.settled([ended(running(store), event)], [state], a_second)
    assert caplog.messages == []


def test_a_failure_says_what_it_was_and_whether_it_runs_again(store, caplog):
    """Spec: D10, A5"""
    execution = running(store)
    log_failure(execution, Raised("OSError: gone\n\nTraceback …", 60.0), 0.5)
    log_failure(execution, Raised("OSError: gone"), 0.5)
    log_failure(execution, Returned(), 0.5)
    about = f"task failed: task={execution.id} type=plain attempt=1 seconds=0.500 error=OSError: gone"
    assert caplog.messages == [f"{about} (retrying in 60 s)", f"{about} (not retried: it has no retries)"]


@pytest.mark.parametrize(("end", "expected"), [(Returned(), "succeeded"), (Raised("no"), "failed")])
def test_a_parent_has_its_line_when_its_children_have_ended(store, lines, caplog, end, expected):
    """Spec: D10, D7"""
    store.families.on_end = lines.parent_ended
    parent = running(store)
    store.tasks.submit(NewTask("plain", parent_id=parent.id))
    settle(store, parent, Returned())
    [child] = start(store)
    assert caplog.messages == []
    settle(store, child, end)
    [line] = caplog.messages
    assert re.match(rf"task {expected}: task={parent.id} type=plain attempt=1 seconds=\d", line)


def test_a_worker_writes_no_more_than_so_many_lines_a_second_and_misses_no_task(url, caplog):
    """Spec: D10"""
    caplog.set_level(logging.INFO, "headgate.tasks")
    app = Headgate(settings=Settings(url=url, poll_seconds=0.2))

    @app.task
    async def greet() -> None: ...

    @app.task
    async def fail() -> None:
        raise ValueError("no")

    tasks = app.submit_many_sync([greet.call() for _ in range(300)] + [fail.call() for _ in range(60)])
    with working(app):
        for task in tasks:
            task.wait_sync(120)
    app.close()
    singles = [line for line in caplog.messages if line.startswith("task succeeded: ")]
    counts = [re.match(r"([\d,]+) more tasks? finished in the last second", line) for line in caplog.messages]
    assert len(singles) + sum(int(found[1].replace(",", "")) for found in counts if found) == 300
    assert sum(line.startswith("task failed: ") for line in caplog.messages) == 60
