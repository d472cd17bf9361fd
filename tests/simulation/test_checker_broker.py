"""What the checker lets pass and what it catches of tasks and events that go by way of the broker (I12, I13)."""

from collections.abc import Iterable
from typing import Any

import pytest

from headgate.broker.topology import DEAD, EVENTS, TASKS
from headgate.simulation.checker import check
from headgate.simulation.evidence import Handover, MessageEntry
from tests.simulation.runs import Run

DISPATCHER = "worker:9"


def delivered(after: str = "succeeded") -> Run:
    """A task that went through the broker: row 2 hands it over, row 3 starts it, row 4 ends it."""
    run = Run()
    run.submit(1)
    run.step(1, "scheduled", "scheduling", "x", actor=DISPATCHER)
    run.step(1, "started", "running", "x", actor="worker:1")
    run.record("start", 1, "x")
    run.end(1, "failed" if after == "failed" else "completed", after)
    return run


def message(row: int, what: str, **wrong: Any) -> MessageEntry:
    return MessageEntry(row, what, TASKS, "x", 1)._replace(**wrong)


def published(run: Run, ids: Iterable[int] | None = None) -> list[MessageEntry]:
    """These events of a run, or all of them."""
    rows = [row for row in run.rows if row.task_id is not None]
    ids = [row.id for row in rows] if ids is None else ids
    dead = [message(9, "taken", exchange=DEAD, message_id=f"dead-{row.id}") for row in rows if row.kind == "failed"]
    return [*(message(9, "taken", exchange=EVENTS, message_id=f"event-{row_id}") for row_id in ids), *dead]


def broken(run: Run, *messages: MessageEntry, events: list[MessageEntry] | None = None, **more: Any) -> list[str]:
    events = published(run) if events is None else events
    found = check(run.evidence(messages=[*messages, *events], **more))
    assert {violation.invariant for violation in found} <= {"I12", "I13"}
    return [violation.text for violation in found]


SENT = [message(2, "sent"), message(2, "taken")]


def test_a_task_that_was_delivered_is_clean_however_often_its_message_came():
    """Spec: X5, D1, D2"""
    run = delivered()
    assert broken(run, *SENT, message(3, "acknowledged")) == []
    assert broken(run, *SENT, message(3, "sent"), message(3, "acknowledged"), message(4, "acknowledged")) == []


def test_an_acknowledgement_before_the_start_is_caught():
    """Spec: X5, D1"""
    [text] = broken(delivered(), *SENT, message(2, "acknowledged"))
    assert text == "the message x was acknowledged before task 1 was started"


def test_an_acknowledgement_of_what_names_no_task_is_caught():
    """Spec: X5, D1"""
    [text] = broken(delivered(), message(3, "acknowledged", message_id="garbage", task_id=None))
    assert "names no task" in text


@pytest.mark.parametrize("wrong", [{"message_id": "y"}, {"task_id": 2}])
def test_a_message_under_an_exec_id_that_the_store_did_not_give_is_caught(wrong):
    """Spec: X5, D1"""
    [text] = broken(delivered(), *SENT, message(2, "sent", **wrong))
    assert "does not hold it" in text


def test_more_tasks_in_the_broker_than_free_slots_are_caught_where_they_were_taken():
    """Spec: X5, D2"""
    run = delivered()
    assert broken(run, *SENT, handovers=[Handover(2, 1, 1, (DISPATCHER,))]) == []
    assert broken(run, *SENT, handovers=[Handover(1, 1, 0, (DISPATCHER,))]) == []  # which took nothing
    [text] = broken(run, *SENT, handovers=[Handover(2, 1, 0, (DISPATCHER,))] * 2)
    assert text == "at row 2 there are 1 tasks in the broker for 0 slots"


def test_events_that_come_again_are_clean():
    """Spec: X5, D5"""
    run = delivered()
    assert broken(run, events=published(run, [1, 2, 1, 2, 3, 4, 4])) == []


def test_an_event_that_was_never_published_is_caught():
    """Spec: X5, D5"""
    run = delivered()
    assert broken(run, events=published(run, [1, 2, 4])) == ["row 3 (started) of task 1 was never published"]


def test_events_of_a_task_out_of_their_order_are_caught():
    """Spec: X5, D5"""
    run = delivered()
    assert broken(run, events=published(run, [1, 3, 2, 3, 4])) == ["row 3 of task 1 was published before row 2"]


def test_a_final_failure_that_is_not_in_the_dead_letter_queue_is_caught():
    """Spec: X5, D6"""
    run = delivered("failed")
    assert broken(run) == []
    events = [entry for entry in published(run) if entry.exchange == EVENTS]
    assert broken(run, events=events) == ["row 4, the failure of task 1, is not in the dead-letter queue"]


def test_rows_that_retention_removed_must_have_been_published_but_need_not_have_been_read():
    """Spec: X5, D5"""
    run, ids = delivered(), {1, 2, 3, 4}
    assert broken(run, feed_ids=[1], removed_ids=ids) == []
    [text] = broken(run, events=published(run, [1, 2, 3]), feed_ids=[1], removed_ids=ids)
    assert "row 4" in text
