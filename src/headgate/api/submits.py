"""Submits of many requests at once, taken to the store together: one thread and one commit for all of them."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.routing import Header
from headgate.api.shapes import TaskOut, new_task_out, task_out
from headgate.core.errors import HeadgateError, Invalid, NotFound, Refused
from headgate.core.task import NewTask, Task
from headgate.events.telemetry import submitting
from headgate.store.store import Store
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.submit import Submitted
from headgate.threads import InThread

Key = Annotated[
    str | None,
    Header("Idempotency-Key"),
    Meta(description="The same key makes nothing twice.", min_length=1, max_length=255),
]
MOST_TOGETHER = 500  # tasks


@dataclass(slots=True)
class SubmitResult:
    """What became of one new task; `task` is there only where it had to be read to know how it stands."""

    new: NewTask
    done: Submitted
    task: Task | None

    def task_out(self) -> TaskOut:
        """The task as it was made."""
        if self.done.initial is not None:
            out = new_task_out(self.done.id, self.done.initial)
        else:
            assert self.task is not None
            out = task_out(self.task)
        out.created = self.done.created
        return out


@dataclass(slots=True)
class _Submission:
    new_tasks: Sequence[NewTask]
    actor: str
    once: Idempotency | None
    answer: "asyncio.Future[list[SubmitResult]]" = field(repr=False)


class Submits:
    """Whoever comes while others are at the store goes with the next ones: a thread for each would cost more."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self._waiting: deque[_Submission] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, new_tasks: Sequence[NewTask], actor: str, key: str | None) -> list[SubmitResult]:
        """Make the tasks, all or none. The same key makes nothing twice."""
        once = None
        if key is not None:
            once = Idempotency(key, hashlib.sha256(msgspec.json.encode(new_tasks)).hexdigest())
        with submitting(new_tasks) as new_tasks:
            submission = _Submission(new_tasks, actor, once, asyncio.get_running_loop().create_future())
            self._waiting.append(submission)
            if self._running is None:
                self._running = asyncio.create_task(self._run())
            return await submission.answer

    async def task(self, made: SubmitResult) -> Task:
        """The task that was made."""
        if made.task is not None:
            return made.task
        return await self._in_thread(self._store.tasks.get, made.done.id)

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._next()
                answers: Sequence[list[SubmitResult] | BaseException]
                try:
                    answers = await self._in_thread(self._submit_together, batch)
                except BaseException as error:
                    answers = [error] * len(batch)
                    if not isinstance(error, Exception):
                        raise
                finally:
                    _resolve(batch, answers)
        finally:
            self._running = None

    def _next(self) -> list[_Submission]:
        """Those of one actor without a key, in their order; else the first alone."""
        first = self._waiting.popleft()
        batch, size = [first], len(first.new_tasks)
        while self._waiting and first.once is None:
            submission = self._waiting[0]
            size += len(submission.new_tasks)
            if submission.once is not None or submission.actor != first.actor or size > MOST_TOGETHER:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _submit_together(self, batch: list[_Submission]) -> list["list[SubmitResult] | Exception"]:
        new_tasks = [new for submission in batch for new in submission.new_tasks]
        try:
            made = iter(self._submit(new_tasks, batch[0].actor, batch[0].once))
            return [[next(made) for _ in submission.new_tasks] for submission in batch]
        except (Invalid, NotFound, Refused) as error:  # nothing was made: whoever broke no rule gets theirs
            if len(batch) == 1:
                return [error]
            return [answer for submission in batch for answer in self._submit_together([submission])]
        except HeadgateError as error:  # they may have been made: what is not known is not tried again
            return [error] * len(batch)

    def _submit(self, new_tasks: Sequence[NewTask], actor: str, once: Idempotency | None) -> list[SubmitResult]:
        made = self._store.tasks.submit_many(new_tasks, actor=actor, once=once)
        unknown = [done.id for done in made if done.initial is None]
        found = self._store.tasks.get_many(unknown) if unknown else {}
        if once is not None and (gone := [task_id for task_id in unknown if task_id not in found]):
            raise NotFound(f"task {gone[0]}, which this key made, has been purged since")
        return [SubmitResult(new, done, found.get(done.id)) for new, done in zip(new_tasks, made, strict=True)]


def _resolve(batch: Sequence[_Submission], answers: Sequence["list[SubmitResult] | BaseException"]) -> None:
    for submission, answer in zip(batch, answers, strict=True):
        if submission.answer.done():  # who asked is gone
            continue
        if isinstance(answer, BaseException):
            submission.answer.set_exception(answer)
        else:
            submission.answer.set_result(answer)
