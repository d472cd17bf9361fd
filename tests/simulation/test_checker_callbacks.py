"""What the checker lets pass and what it catches of callbacks (I6)."""

from typing import Any

import pytest

from headgate.core.callbacks import MAX_ATTEMPTS
from headgate.simulation.checker import check
from headgate.simulation.evidence import DeliveryRow, Evidence, Receipt
from tests.simulation.runs import Run

BOTH = {"plain": ("success", "error")}
ACTOR = "system:callbacks"


def notified() -> Run:
    """A task that succeeded, and was told of at once."""
    run = Run()
    run.submit(1)
    run.start(1, "x")
    run.end(1, "completed", "notifying")
    run.step(1, "notified", "succeeded", actor=ACTOR)
    return run


def delivery(run: Run, **wrong: Any) -> DeliveryRow:
    seq = next(row.seq for row in run.rows if row.after in ("notifying", "failed", "dead"))
    kind = "success" if any(row.after == "notifying" for row in run.rows) else "error"
    return DeliveryRow(1, "msg_1", 1, kind, seq, "delivered", 1)._replace(**wrong)


def received(**wrong: Any) -> Receipt:
    return Receipt(3, "msg_1", "{}", 204)._replace(**wrong)


def evidence(run: Run, *deliveries: DeliveryRow, receipts: Any = (), **more: Any) -> Evidence:
    return run.evidence(deliveries=list(deliveries), received=list(receipts), callbacks=BOTH, **more)


def broken(*arguments: Any, **more: Any) -> list[str]:
    found = check(evidence(*arguments, **more))
    assert {violation.invariant for violation in found} <= {"I6"}
    return [violation.text for violation in found]


def failed(after: str = "failed") -> Run:
    run = Run()
    run.submit(1)
    run.start(1, "x")
    run.end(1, "failed" if after == "failed" else "dead_lettered", after)
    return run


def test_callbacks_that_arrived_are_clean_however_often_they_were_sent():
    """Spec: X5, B6"""
    run = notified()
    assert broken(run, delivery(run), receipts=[received()]) == []
    again = [received(status=500), received(status=None), received(), received()]
    assert broken(run, delivery(run, attempts=4), receipts=again) == []
    assert broken(failed(), delivery(failed()), receipts=[received()]) == []
    assert broken(failed(), delivery(failed(), status="undeliverable"), receipts=[received(status=410)]) == []
    given_up = delivery(failed(), status="undeliverable", attempts=MAX_ATTEMPTS)
    assert broken(failed(), given_up, receipts=[received(status=500)]) == []
    assert check(run.evidence()) == []  # nobody looked


@pytest.mark.parametrize("end", [notified, failed, lambda: failed("dead")])
def test_an_end_whose_callback_nobody_owes_is_caught(end):
    """Spec: X5, B6"""
    [text] = broken(end())
    assert "asks for a" in text
    assert "none is owed" in text


def test_a_type_without_callbacks_owes_none():
    """Spec: X5, B6"""
    run = failed()
    assert check(run.evidence(deliveries=[], callbacks={})) == []
    [text] = [
        violation.text
        for violation in check(run.evidence(deliveries=[delivery(run)], callbacks={}, received=[received()]))
    ]
    assert "was asked for by no transition" in text


def test_a_discard_owes_no_second_callback():
    """Spec: X5, B6"""
    run = failed("dead")
    run.step(1, "discarded", "failed")
    assert broken(run, delivery(run), receipts=[received()]) == []
    second = delivery(run, id=2, webhook_id="msg_2", seq=run.rows[-1].seq)
    [text] = broken(run, delivery(run), second, receipts=[received(), received(webhook_id="msg_2")])
    assert text == "the error callback 2 of task 1 was asked for by no transition"


@pytest.mark.parametrize(
    ("wrong", "receipts", "text"),
    [
        ({}, [], "is delivered, but was never received"),
        ({}, [received(status=500)], "is delivered, but was never received"),
        ({"status": "pending"}, [received()], "is pending at the end"),
        ({"status": "undeliverable"}, [received(status=500), received()], "was given up after 1 attempts"),
        ({"status": "dropped"}, [received()], "was dropped without a reason"),
        ({}, [received(), received(body="other")], "was sent with two bodies under one id"),
        (
            {},
            [received(), received(webhook_id="msg_9")],
            "something was received under msg_9, which is not a known callback",
        ),
        ({}, [received(row=99)], "before its callback was received"),
    ],
)
def test_what_is_wrong_with_a_callback_is_caught(wrong, receipts, text):
    """Spec: X5, B6"""
    run = notified()
    assert any(text in found for found in broken(run, delivery(run, **wrong), receipts=receipts))


def test_two_for_one_transition_are_caught():
    """Spec: X5, B6"""
    run = notified()
    twice = [delivery(run), delivery(run, id=2, webhook_id="msg_2")]
    assert "two callbacks are owed for one transition" in broken(
        run, *twice, receipts=[received(), received(webhook_id="msg_2")]
    )


def ended_by_hand(kind: str, after: str) -> Run:
    run = Run()
    run.submit(1)
    run.start(1, "x")
    run.end(1, "completed", "notifying")
    run.step(1, kind, after)
    return run


@pytest.mark.parametrize(("kind", "after"), [("resolved", "resolved"), ("cancelled", "cancelled")])
def test_a_person_may_end_notifying_and_then_it_is_called_off(kind, after):
    """Spec: X5, B6"""
    run = ended_by_hand(kind, after)
    assert broken(run, delivery(run, status="dropped")) == []
    texts = broken(run, delivery(run), receipts=[received()])
    assert bool(texts) is (after == "cancelled")  # what was resolved may be sent again by hand
