"""I12 and I13: what the broker was given, and what came of it. Without a broker there is nothing to judge.

I12: no more is handed over than live consumers have free slots, each message names an execution as the store has it,
and is acknowledged when the store waits for its start no longer. I13: every event of a task is on the exchange, those
of a task in their order, and every final failure in the dead-letter queue as well. Only events without a listener may
be left out: an event of the same kind, type and tenant came back after this one had happened.
"""

from collections.abc import Iterator

from headgate.broker.topology import DEAD, EVENTS, TASKS
from headgate.core.states import State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.evidence import Row

FINAL_FAILURES = frozenset({"failed", "dead_lettered"})
Topic = tuple[str, tuple[str, int] | None]  # a kind of event; the type and tenant of the task


def judge_broker(case: Case) -> Iterator[Violation]:
    if case.evidence.messages is not None:
        yield from _judge_handovers(case)
        yield from _judge_sent(case)
        yield from _judge_acknowledged(case)
        yield from _judge_events(case)


def _judge_handovers(case: Case) -> Iterator[Violation]:
    """Only a claim that took something counts: slots for what was taken before may be gone."""
    rows, last = {row.id: row for row in case.evidence.rows}, 0
    for handover in case.evidence.handovers:
        row, is_new, last = rows.get(handover.row), handover.row != last, handover.row
        took = is_new and row is not None and row.kind == "scheduled" and row.actor in handover.actors
        if took and handover.in_broker > handover.free:
            text = f"at row {handover.row} there are {handover.in_broker} tasks in the broker for {handover.free} slots"
            yield Violation("I12", text, row and row.task_id)


def _judge_sent(case: Case) -> Iterator[Violation]:
    for entry in case.evidence.messages or ():
        if entry.what != "sent" or entry.exchange != TASKS:
            continue
        tenure = case.tenures.get(entry.message_id)
        if tenure is None or tenure.task_id != entry.task_id:
            text = f"a message has task {entry.task_id} started under {entry.message_id}, which does not hold it"
            yield Violation("I12", text, entry.task_id)


def _judge_acknowledged(case: Case) -> Iterator[Violation]:
    waits = _waits(case)
    for entry in case.evidence.messages or ():
        if entry.what != "acknowledged":
            continue
        since, until = waits.get(entry.message_id, (0, 0))
        if entry.task_id is None:
            yield Violation("I12", f"the message {entry.message_id}, which names no task, was acknowledged")
        elif since <= entry.row and (until is None or entry.row < until):
            text = f"the message {entry.message_id} was acknowledged before task {entry.task_id} was started"
            yield Violation("I12", text, entry.task_id)


def _waits(case: Case) -> dict[str, tuple[int, int | None]]:
    """By exec_id: the row from which the store waited for its start, and the one that ended that."""
    found: dict[str, tuple[int, int | None]] = {}
    for path in case.paths.values():
        waiting: str | None = None
        for row in path:
            if waiting is not None and row.after != State.SCHEDULING:
                found[waiting] = (found[waiting][0], row.id)
                waiting = None
            if row.before != State.SCHEDULING and row.after == State.SCHEDULING and row.exec_id is not None:
                waiting = row.exec_id
                found[waiting] = (row.id, None)
    return found


def _judge_events(case: Case) -> Iterator[Violation]:
    messages = case.evidence.messages or ()
    taken = [(entry.exchange, entry.message_id) for entry in messages if entry.what in ("taken", "dropped")]
    places = {message: place for place, message in reversed(list(enumerate(taken)))}  # the first of each
    unheard = _unheard(case)
    last: dict[int, tuple[int, int]] = {}
    for row in case.evidence.rows:
        if row.task_id is None:
            continue
        place = places.get((EVENTS, f"event-{row.id}"))
        if any(asked >= row.id and _is_same(topic, _topic(case, row)) for topic, asked in unheard.items()):
            pass
        elif place is None:
            yield Violation("I13", f"row {row.id} ({row.kind}) of task {row.task_id} was never published", row.task_id)
        elif row.seq:
            before, other = last.get(row.task_id, (-1, 0))
            if place < before:
                text = f"row {row.id} of task {row.task_id} was published before row {other}"
                yield Violation("I13", text, row.task_id)
            last[row.task_id] = (place, row.id)
        if row.kind in FINAL_FAILURES and (DEAD, f"dead-{row.id}") not in places:
            text = f"row {row.id}, the failure of task {row.task_id}, is not in the dead-letter queue"
            yield Violation("I13", text, row.task_id)


def _unheard(case: Case) -> dict[Topic, int]:
    """The topics without a listener, and the last row that there was when that was last found."""
    rows = {f"event-{row.id}": row for row in case.evidence.rows}
    found: dict[Topic, int] = {}
    for entry in case.evidence.messages or ():
        if entry.what == "returned" and entry.exchange == EVENTS and entry.message_id in rows:
            found[_topic(case, rows[entry.message_id])] = entry.row
    return found


def _topic(case: Case, row: Row) -> Topic:
    task = case.tasks.get(row.task_id or 0)
    return row.kind, None if task is None else (task.type, task.tenant_id)


def _is_same(one: Topic, other: Topic) -> bool:
    """Whether two topics may be the same: the type of a task that retention has removed is unknown."""
    return one[0] == other[0] and (one[1] == other[1] or None in (one[1], other[1]))
