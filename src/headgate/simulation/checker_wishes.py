"""I1: what was answered is there, once; what was not answered is there once or not at all."""

from collections.abc import Iterator

from headgate.core.states import FINAL, State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.checker_ticks import is_of_a_tick
from headgate.simulation.evidence import Wish

MADE, REFUSED, UNKNOWN = "made", "refused", "unknown"
ENDED = FINAL | {State.DEAD}  # a dead task waits for a person, and for nothing else


def judge_wishes(case: Case) -> Iterator[Violation]:
    for wish in case.evidence.wishes:
        if wish.answer == MADE:
            yield from _judge_made(case, wish)
    yield from _judge_keys(case)
    yield from _judge_unasked(case)
    if case.evidence.at_rest:
        for known in case.evidence.tasks:
            if known.status not in ENDED:
                yield Violation("I1", f"task {known.id} is {known.status}, and nothing will happen to it", known.id)


def _judge_made(case: Case, wish: Wish) -> Iterator[Violation]:
    named = _named(wish)
    for task_id in wish.task_ids:
        if task_id not in case.tasks and not case.may_be_gone(task_id):
            yield Violation("I1", f"task {task_id} was answered as made by {named} and is nowhere", task_id)


def _judge_keys(case: Case) -> Iterator[Violation]:
    by_key: dict[str, list[Wish]] = {}
    for wish in case.evidence.wishes:
        if wish.key is not None:
            by_key.setdefault(wish.key, []).append(wish)
    for key, wishes in by_key.items():
        answers = {wish.task_ids for wish in wishes if wish.answer == MADE}
        kept = case.evidence.keys.get(key, ())
        if len(answers) > 1:
            yield Violation("I1", f"the key {key!r} was answered with different tasks: {_listed(answers)}")
        elif answers:
            [answer] = answers
            if kept and kept != answer:
                yield Violation("I1", f"the key {key!r} was answered with {answer}, and the store has {kept} for it")
        elif not any(wish.answer == UNKNOWN for wish in wishes):
            if kept:
                yield Violation("I1", f"the key {key!r} was refused, and made {kept} all the same", kept[0])
        elif kept and len(kept) != max(wish.size for wish in wishes):
            asked = max(wish.size for wish in wishes)
            yield Violation("I1", f"nobody answered the key {key!r}, which asked for {asked}: it made {kept}", kept[0])
        if not answers:
            for task_id in kept:
                if task_id not in case.tasks and not case.may_be_gone(task_id):
                    yield Violation("I1", f"task {task_id}, made under the key {key!r}, is nowhere", task_id)


def _judge_unasked(case: Case) -> Iterator[Violation]:
    """No task that nobody asked for; whoever got no answer and had no key may have asked for any.

    Tasks of schedules are judged with their ticks.
    """
    wishes = case.evidence.wishes
    if not wishes or any(wish.key is None and wish.answer == UNKNOWN for wish in wishes):
        return
    asked = {task_id for wish in wishes for task_id in wish.task_ids}
    for wish in wishes:
        if wish.key is not None:
            asked.update(case.evidence.keys.get(wish.key, ()))
    for known in case.evidence.tasks:
        if known.id not in asked and known.parent_id is None and known.retry_of is None and not is_of_a_tick(known):
            yield Violation("I1", f"nobody asked for task {known.id}, which is {known.status}", known.id)


def _named(wish: Wish) -> str:
    return "a wish without a key" if wish.key is None else f"the key {wish.key!r}"


def _listed(answers: set[tuple[int, ...]]) -> str:
    return " and ".join(str(answer) for answer in sorted(answers))
