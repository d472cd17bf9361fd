"""I1: a submission that was answered exists once; one that was not answered exists once or not at all."""

from collections.abc import Iterator

from headgate.core.states import FINAL, State
from headgate.simulation.checker_case import Case, Violation
from headgate.simulation.checker_ticks import is_task_of_tick
from headgate.simulation.evidence import Submission

MADE, REFUSED, UNKNOWN = "made", "refused", "unknown"
ENDED = FINAL | {State.DEAD}  # a dead task waits for a person, and for nothing else


def judge_submissions(case: Case) -> Iterator[Violation]:
    for submission in case.evidence.submissions:
        if submission.answer == MADE:
            yield from _judge_made(case, submission)
    yield from _judge_keys(case)
    yield from _judge_unrequested(case)
    if case.evidence.at_rest:
        for task in case.evidence.tasks:
            if task.status not in ENDED:
                yield Violation("I1", f"task {task.id} is {task.status}, and nothing will happen to it", task.id)


def _judge_made(case: Case, submission: Submission) -> Iterator[Violation]:
    named = _describe(submission)
    for task_id in submission.task_ids:
        if task_id not in case.tasks and not case.may_be_gone(task_id):
            yield Violation("I1", f"task {task_id} was answered as made by {named} and is nowhere", task_id)


def _judge_keys(case: Case) -> Iterator[Violation]:
    by_key: dict[str, list[Submission]] = {}
    for submission in case.evidence.submissions:
        if submission.key is not None:
            by_key.setdefault(submission.key, []).append(submission)
    for key, submissions in by_key.items():
        answers = {submission.task_ids for submission in submissions if submission.answer == MADE}
        made = case.evidence.keys.get(key, ())
        if len(answers) > 1:
            yield Violation("I1", f"the key {key!r} was answered with different tasks: {_listed(answers)}")
        elif answers:
            [answer] = answers
            if made and made != answer:
                yield Violation("I1", f"the key {key!r} was answered with {answer}, and the store has {made} for it")
        elif not any(submission.answer == UNKNOWN for submission in submissions):
            if made:
                yield Violation("I1", f"the key {key!r} was refused, and made {made} all the same", made[0])
        elif made and len(made) != (size := max(submission.size for submission in submissions)):
            yield Violation(
                "I1", f"the key {key!r}, which asked for {size}, was never answered: it made {made}", made[0]
            )
        if not answers:
            for task_id in made:
                if task_id not in case.tasks and not case.may_be_gone(task_id):
                    yield Violation("I1", f"task {task_id}, made under the key {key!r}, is nowhere", task_id)


def _judge_unrequested(case: Case) -> Iterator[Violation]:
    """Every task has a submission; one without a key and an answer may have asked for any task.

    Tasks of schedules are judged with their ticks.
    """
    submissions = case.evidence.submissions
    if not submissions or any(submission.key is None and submission.answer == UNKNOWN for submission in submissions):
        return
    requested = {task_id for submission in submissions for task_id in submission.task_ids}
    for submission in submissions:
        if submission.key is not None:
            requested.update(case.evidence.keys.get(submission.key, ()))
    for task in case.evidence.tasks:
        if task.id not in requested and task.parent_id is None and task.retry_of is None and not is_task_of_tick(task):
            yield Violation("I1", f"task {task.id}, which is {task.status}, was never submitted", task.id)


def _describe(submission: Submission) -> str:
    return "a wish without a key" if submission.key is None else f"the key {submission.key!r}"


def _listed(answers: set[tuple[int, ...]]) -> str:
    return " and ".join(str(answer) for answer in sorted(answers))
