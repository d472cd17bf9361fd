"""I6, for callbacks: each end that asks for one has one, under one id, until it has arrived or a person has acted."""

from collections import defaultdict
from collections.abc import Iterator

from headgate.core.callbacks import MAX_ATTEMPTS, CallbackKind, Delivery
from headgate.core.states import State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.evidence import DeliveryRow, Receipt, Row

ACTOR = "system:callbacks"
_FAILED = frozenset({State.FAILED, State.DEAD})


def judge_callbacks(case: Case) -> Iterator[Violation]:
    if case.evidence.deliveries is None:
        return
    received: dict[str, list[Receipt]] = defaultdict(list)
    for receipt in case.evidence.received:
        received[receipt.webhook_id].append(receipt)
    by_transition = {(each.task_id, each.seq): each for each in case.evidence.deliveries}
    if len(by_transition) < len(case.evidence.deliveries):
        yield Violation("I6", "two callbacks are owed for one transition")
    yield from _judge_transitions(case, by_transition)
    for each in case.evidence.deliveries:
        for wrong in _judge_delivery(case, each, received[each.webhook_id]):
            yield Violation("I6", f"the {each.kind} callback {each.id} of task {each.task_id} {wrong}", each.task_id)
    known = {each.webhook_id for each in case.evidence.deliveries}
    for webhook_id in received.keys() - known:
        yield Violation("I6", f"something was received under {webhook_id}, which is not a known callback")
    yield from _judge_notifying(case, by_transition, received)


def callback_for(row: Row, callbacks: tuple[str, ...]) -> CallbackKind | None:
    """The callback that a transition asks for, where its type has these `callbacks`."""
    if row.after == State.NOTIFYING and row.before != State.NOTIFYING:
        return CallbackKind.SUCCESS
    if row.after in _FAILED and row.before not in _FAILED and CallbackKind.ERROR in callbacks:
        return CallbackKind.ERROR
    return None


def _judge_transitions(case: Case, by_transition: dict[tuple[int, int], DeliveryRow]) -> Iterator[Violation]:
    expected: set[tuple[int, int]] = set()
    for task_id, path in case.paths.items():
        task = case.tasks.get(task_id)
        if task is None:
            continue
        callbacks = case.evidence.callbacks.get(task.type, ())
        for row in path:
            kind = callback_for(row, callbacks)
            if kind is None:
                continue
            expected.add((task_id, row.seq))
            found = by_transition.get((task_id, row.seq))
            if found is None or found.kind != kind:
                yield Violation(
                    "I6", f"row {row.id} of task {task_id} asks for a {kind} callback: none is owed", task_id
                )
    for (task_id, seq), each in by_transition.items():
        if (task_id, seq) not in expected and task_id in case.tasks:
            text = f"the {each.kind} callback {each.id} of task {task_id} was asked for by no transition"
            yield Violation("I6", text, task_id)


def _judge_delivery(case: Case, each: DeliveryRow, receipts: list[Receipt]) -> Iterator[str]:
    if len({receipt.body for receipt in receipts}) > 1:
        yield "was sent with two bodies under one id"
    arrived = any(receipt.arrived for receipt in receipts)
    called_off = _left_notifying_by_hand(case, each)
    match each.status:
        case Delivery.DELIVERED if not arrived:
            yield "is delivered, but was never received"
        case Delivery.PENDING if case.evidence.at_rest:
            yield f"is pending at the end, after {each.attempts} attempts, and is never sent"
        case Delivery.UNDELIVERABLE if each.attempts < MAX_ATTEMPTS and not any(r.status == 410 for r in receipts):
            yield f"was given up after {each.attempts} attempts"
        case Delivery.DROPPED if not called_off:
            yield "was dropped without a reason"


def _left_notifying_by_hand(case: Case, each: DeliveryRow) -> bool:
    return any(row.before == State.NOTIFYING != row.after and row.actor != ACTOR for row in case.paths[each.task_id])


def _judge_notifying(
    case: Case, by_transition: dict[tuple[int, int], DeliveryRow], received: dict[str, list[Receipt]]
) -> Iterator[Violation]:
    """A task leaves `notifying` when its callback has arrived, or because a person says so."""
    for task_id, path in case.paths.items():
        each: DeliveryRow | None = None
        for row in path:
            if row.before != State.NOTIFYING and row.after == State.NOTIFYING:
                each = by_transition.get((task_id, row.seq))
            if row.before != State.NOTIFYING or row.after == State.NOTIFYING or each is None:
                continue
            if row.actor == ACTOR:
                receipts = received[each.webhook_id]
                if not any(receipt.arrived and receipt.row < row.id for receipt in receipts):
                    text = f"row {row.id} ends the notifying of task {task_id} before its callback was received"
                    yield Violation("I6", text, task_id)
            elif row.after == State.CANCELLED and each.status != Delivery.DROPPED:
                text = f"task {task_id} was cancelled by row {row.id}, and its success callback is {each.status}"
                yield Violation("I6", text, task_id)
