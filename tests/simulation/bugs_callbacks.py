"""Bugs of callbacks to be planted: each as a tired colleague might have written it."""

from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

import headgate.core.machine as machine
import headgate.duties.callbacks as duty
import headgate.store.callbacks.deliveries as deliveries
import headgate.store.tasks.transitions as transitions
from headgate.core.callbacks import Attempt, CallbackKind, Delivery, delivery_after
from headgate.core.machine import Change, Discarded, Event, Subject
from headgate.core.task import Task, TaskType
from headgate.duties.callbacks import Callbacks
from headgate.environment import new_ids
from headgate.outward.callback import Destination
from headgate.simulation.plan import DUTIES, WORKERS, Move
from headgate.simulation.process import SimulatedConnection
from headgate.store.callbacks.deliveries import DeliveryOutcome, Leased
from headgate.store.callbacks.outbox import owe
from headgate.store.db.statement import Db, Row
from tests.simulation.bugs import BUGS, Patch, bug, faults, submits

ALL = BUGS  # those of the other file, and these
CALLBACKS = submits(1.0, 6, "told")
FAILING = [Move(0.5, "fall_ill", {"how": "fails", "seconds": 6.0})]


@bug("I1", "I6", more=[*CALLBACKS, *faults("crash_after", WORKERS, 1.1, within="Executions.settle_and_claim")])
def a_callback_is_owed_after_its_transition(patch: Patch) -> None:
    """The task ends in one transaction; that somebody is to be told is written in the next."""
    later: ContextVar[list[tuple[CallbackKind, list[int]]]] = ContextVar("later")
    write = SimulatedConnection.write

    def note(db: Db, kind: CallbackKind, ids: Collection[int]) -> None:
        later.get().append((kind, sorted(ids)))

    def write_twice(self: SimulatedConnection, operation: Callable[[Any], Any], *args: Any, **options: Any) -> Any:
        noted: list[tuple[CallbackKind, list[int]]] = []
        later.set(noted)
        result = write(self, operation, *args, **options)
        for kind, ids in noted:
            write(self, partial(_owe, kind, ids))
        return result

    patch.setattr(transitions, "owe", note)
    patch.setattr(SimulatedConnection, "write", write_twice)


def _owe(kind: CallbackKind, ids: Collection[int], db: Db) -> None:
    owe(db, kind, ids)


@bug("I6", more=[*CALLBACKS, *FAILING])
def what_is_sent_is_taken_for_delivered(patch: Patch) -> None:
    """It is on record as delivered when it goes out: who would not take it?"""
    send = Callbacks._send

    async def sent(self: Callbacks, leased: Leased, place: Destination) -> None:
        self._ended.append(DeliveryOutcome(leased, place.host, Attempt(200, 0.0), Delivery.DELIVERED))
        await send(self, leased, place)

    patch.setattr(Callbacks, "_send", sent)


@bug("I6", more=[*CALLBACKS, *FAILING])
def any_answer_is_an_arrival(patch: Patch) -> None:
    """Whoever answers has received it."""

    def lenient(attempt: Attempt, attempts: int, draw: float) -> tuple[Delivery, float]:
        if attempt.status is not None:
            return Delivery.DELIVERED, 0.0
        return delivery_after(attempt, attempts, draw)

    patch.setattr(duty, "delivery_after", lenient)


@bug("I6", more=[*CALLBACKS, *FAILING])
def each_attempt_has_an_id_of_its_own(patch: Patch) -> None:
    """An id is made where it is needed: in front of the request."""
    make = deliveries._leased

    def fresh(row: Row, task: Task) -> Leased:
        return make(row, task)._replace(webhook_id=f"msg_{new_ids(1)[0]}")

    patch.setattr(deliveries, "_leased", fresh)


@bug(
    "I1",
    "I6",
    more=[*CALLBACKS, *faults("crash_after", [WORKERS[0], DUTIES], 1.2, within="Deliveries.record_and_lease")],
)
def a_lease_is_for_good(patch: Patch) -> None:
    """Whoever took it will send it."""
    lease = deliveries._lease
    patch.setattr(deliveries, "_lease", lambda db, wanted, _, last: lease(db, wanted, 1e6, last))


@bug("I1", "I6", more=[*CALLBACKS, *FAILING])
def a_failure_is_not_tried_again(patch: Patch) -> None:
    """One attempt is enough; the rest is the receiver's business."""

    def once(attempt: Attempt, attempts: int, draw: float) -> tuple[Delivery, float]:
        return delivery_after(attempt, 20, draw)

    patch.setattr(duty, "delivery_after", once)


@bug("I6", more=submits(1.0, 3, "told-manual", ends=["fail"]))
def a_discarded_task_is_told_again(patch: Patch) -> None:
    """It is failed now, and failed tasks are told."""
    given_up = machine._callback_for
    real = machine.decide

    def decide(task: Subject, event: Event, rules: TaskType) -> Change:
        change = real(task, event, rules)
        return replace(change, callback=given_up(change.status, rules)) if isinstance(event, Discarded) else change

    patch.setattr(transitions, "decide", decide)


@bug(
    "I6",
    more=[
        *CALLBACKS,
        *FAILING,
        *(Move(2.0 + n / 10, "cancel", {"client": "client 1", "pick": n / 8}) for n in range(8)),
    ],
)
def a_cancelled_task_is_told_as_a_success(patch: Patch) -> None:
    """What is owed is owed."""
    patch.setattr(transitions, "call_off", lambda db, ids: None)


@bug("I6", more=submits(1.0, 3, "told", ends=["fail"]))
def an_error_is_told_by_nobody(patch: Patch) -> None:
    """Callbacks are for results."""
    patch.setattr(machine, "_callback_for", lambda end, rules: CallbackKind.SUCCESS if end == "notifying" else None)


@bug("I6", more=[*CALLBACKS, *FAILING])
def a_task_is_done_when_its_callback_is_given_up_for_the_moment(patch: Patch) -> None:
    """Somebody will send it sooner or later: the task need not wait."""
    ends = deliveries._ENDS | {Delivery.PENDING}
    patch.setattr(deliveries, "_ENDS", ends)
