"""Submits of many requests at once, taken to the store together: one thread and one commit for all of a key's.

Tenants take turns: however much one of them submits, another waits for one batch of it at most.
"""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.routing import Header
from headgate.api.shapes import TaskOut, new_task_out, task_out
from headgate.core.errors import Busy, Invalid, NotFound, Refused
from headgate.core.task import NewTask, Task
from headgate.environment import monotonic
from headgate.events.telemetry import about_task, submitting
from headgate.store.store import Store
from headgate.store.tasks.idempotency import Idempotency
from headgate.store.tasks.submit import Submitted
from headgate.threads import InThread

Key = Annotated[
    str | None,
    Header("Idempotency-Key"),
    Meta(description="A repeated request with the same key creates nothing new.", min_length=1, max_length=255),
]
MOST_TOGETHER = 500  # tasks
ALONE_AT_ONCE = 4  # submits that go each by itself
MOST_HELD = ALONE_AT_ONCE - 1  # of one tenant, of those that wait long for a lock, each with a connection
MOST_BATCHES = 2 + 2 * ALONE_AT_ONCE  # at the store at once, over all lanes
LOCK_SECONDS = 0.1  # the first wait for a lock; whatever does not get it by then waits apart
HELD_LOCK_SECONDS = 1.0  # each further wait; then it is the turn of others that wait for a lock
MOST_WAIT_SECONDS = 60.0  # in all


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


@dataclass(slots=True, eq=False)
class _Submission:
    new_tasks: Sequence[NewTask]
    actor: str
    once: Idempotency | None
    keys: frozenset[tuple[object, ...]]
    answer: "asyncio.Future[list[SubmitResult]]" = field(repr=False)
    give_up_at: float = field(default_factory=lambda: monotonic() + MOST_WAIT_SECONDS)

    @property
    def tenant_id(self) -> int:
        return self.new_tasks[0].tenant_id


@dataclass(slots=True)
class _Lane:
    """Where submits wait; `at_once` batches of them, of `most` tasks, are at the store at a time."""

    at_once: int
    most: int
    lock_seconds: float | None
    of_one: int  # tenant at once
    waiting: deque[_Submission] = field(default_factory=deque)
    running: list[list[_Submission]] = field(default_factory=list)
    _last_turns: dict[int, int] = field(default_factory=dict)  # of tenants that wait
    _turns: int = 0

    def next(self, taken: set[tuple[object, ...]]) -> list[_Submission]:
        """A batch of the tenant whose last turn was longest ago, of those that have one whose keys are not taken."""
        running = Counter(batch[0].tenant_id for batch in self.running)
        tenants = dict.fromkeys(submission.tenant_id for submission in self.waiting)
        self._last_turns = {tenant: self._last_turns.get(tenant, 0) for tenant in tenants}
        for tenant in sorted(tenants, key=self._last_turns.__getitem__):  # those that never had one as they came
            if running[tenant] < self.of_one and (batch := self._next_of(tenant, set(taken))):
                self._turns += 1
                self._last_turns[tenant] = self._turns
                return batch
        return []

    def _next_of(self, tenant: int, taken: set[tuple[object, ...]]) -> list[_Submission]:
        """The tenant's first whose keys are not taken, and those of its actor that may go along.

        Calls of one key keep their order.
        """
        batch: list[_Submission] = []
        passed_over: list[_Submission] = []
        size = 0
        while self.waiting:
            submission = self.waiting[0]
            goes = submission.tenant_id == tenant and taken.isdisjoint(submission.keys)
            if goes:
                size += len(submission.new_tasks)
                if batch and (submission.actor != batch[0].actor or size > self.most):
                    break
            (batch if goes else passed_over).append(self.waiting.popleft())
            taken |= submission.keys
        self.waiting.extendleft(reversed(passed_over))
        return batch

    def put_last(self, submission: _Submission) -> None:
        """Behind all others but those of its keys, which keep their order."""
        behind = [other for other in self.waiting if not submission.keys.isdisjoint(other.keys)]
        others = [other for other in self.waiting if submission.keys.isdisjoint(other.keys)]
        self.waiting = deque([*others, submission, *behind])


class Submits:
    """Calls that arrive while others are at the store share the next transaction: a thread for each would cost more.

    A call that waits for a lock delays only calls of the same key, which run one after the other.
    """

    def __init__(self, store: Store, in_thread: InThread, reading: InThread) -> None:
        """Batches go to the store `in_thread`; what is read for one request goes another way."""
        self._store = store
        self._in_thread = in_thread
        self._reading = reading
        self._plain = _Lane(1, MOST_TOGETHER, None, 1)
        self._keyed = _Lane(1, MOST_TOGETHER, LOCK_SECONDS, 1)  # unique, mutex, parent: others may hold them
        self._once = _Lane(ALONE_AT_ONCE, 0, LOCK_SECONDS, ALONE_AT_ONCE)  # with an idempotency key: each by itself
        self._held = _Lane(
            ALONE_AT_ONCE, 0, HELD_LOCK_SECONDS, MOST_HELD
        )  # whose key somebody was found to hold: in turns
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, new_tasks: Sequence[NewTask], actor: str, key: str | None) -> list[SubmitResult]:
        """Make the tasks, all or none. The same key makes nothing twice."""
        once = None
        if key is not None:
            once = Idempotency(key, hashlib.sha256(msgspec.json.encode(new_tasks)).hexdigest())
        with submitting(new_tasks) as new_tasks:
            keys = self._store.tasks.keys_of(new_tasks, once)
            lane = self._once if once else self._keyed if keys else self._plain
            submission = _Submission(new_tasks, actor, once, keys, asyncio.get_running_loop().create_future())
            lane.waiting.append(submission)
            self._send_off(lane)
            made = await submission.answer
        if len(made) == 1:
            about_task(made[0].done.id)
        return made

    async def task(self, made: SubmitResult) -> Task:
        """The task that was made."""
        if made.task is not None:
            return made.task
        return await self._reading(self._store.tasks.get, made.done.id)

    def _send_off(self, *lanes: _Lane) -> None:
        """Take to the store what waits, as far as may be."""
        for lane in lanes:
            while len(lane.running) < lane.at_once and (batch := lane.next(self._taken(lane))):
                lane.running.append(batch)
                task = asyncio.create_task(self._run(lane, batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _taken(self, lane: _Lane) -> set[tuple[object, ...]]:
        """The keys that no call of this lane may use now."""
        if lane is self._plain:
            return set()
        others = [*self._keyed.running, *self._once.running, *self._held.running]
        if lane is not self._held:
            others.append([*self._held.waiting])
        return {key for batch in others for submission in batch for key in submission.keys}

    async def _run(self, lane: _Lane, batch: list[_Submission]) -> None:
        answers: Sequence[list[SubmitResult] | BaseException] = []
        try:
            answers = await self._in_thread(self._submit_together, batch, lane.lock_seconds)
        except BaseException as error:
            if _may_go_again(batch, error):
                for submission in batch:
                    self._held.put_last(submission)
            else:  # they may have been made: what is not known is not tried again
                answers = [error] * len(batch)
            if not isinstance(error, Exception):
                raise
        finally:
            lane.running.remove(batch)
            _resolve(batch, answers)
        self._send_off(self._plain, self._keyed, self._once, self._held)

    def _submit_together(self, batch: list[_Submission], lock_seconds: float | None) -> list[list[SubmitResult]]:
        new_tasks, first = [new for submission in batch for new in submission.new_tasks], batch[0]
        submitted = self._store.tasks.submit_many(
            new_tasks, actor=first.actor, once=first.once, lock_seconds=lock_seconds
        )
        unknown = [done.id for done in submitted if done.initial is None]
        found = self._store.tasks.get_many(unknown) if unknown else {}
        if first.once is not None and (gone := [task_id for task_id in unknown if task_id not in found]):
            raise NotFound.of("task-purged", task_id=gone[0])
        made = (SubmitResult(new, done, found.get(done.id)) for new, done in zip(new_tasks, submitted, strict=True))
        return [[next(made) for _ in submission.new_tasks] for submission in batch]


def _may_go_again(batch: Sequence[_Submission], error: BaseException) -> bool:
    """Nothing was made, and each of them by itself may have better luck."""
    if isinstance(error, Busy):
        return len(batch) > 1 or monotonic() < batch[0].give_up_at
    return len(batch) > 1 and isinstance(error, Invalid | NotFound | Refused)


def _resolve(batch: Sequence[_Submission], answers: Sequence["list[SubmitResult] | BaseException"]) -> None:
    for submission, answer in zip(batch, answers, strict=False):  # none, if they are to go again one by one
        if submission.answer.done():  # who asked is gone
            continue
        if isinstance(answer, BaseException):
            submission.answer.set_exception(answer)
        else:
            submission.answer.set_result(answer)
