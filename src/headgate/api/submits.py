"""Submits of many requests at once, taken to the store together: one thread and one commit for all of them."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from litestar.params import HeaderParameter

from headgate.api.shapes import TaskOut, shown, shown_new
from headgate.core.errors import HeadgateError, Invalid, NotFound, Refused
from headgate.core.task import NewTask, Task
from headgate.events.telemetry import submitting
from headgate.service import Aside
from headgate.store.base import Store
from headgate.store.tasks import Idempotency, Submitted

Key = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key", description="The same key makes nothing twice.", min_length=1, max_length=255
    ),
]
MOST_TOGETHER = 500  # tasks


@dataclass(slots=True)
class Made:
    """What became of a wish; the task as it was read, where the wish does not tell how it stands."""

    wish: NewTask
    done: Submitted
    task: Task | None

    def shown(self) -> TaskOut:
        """The task as it was made."""
        out = shown_new(self.wish, self.done) if self.task is None else shown(self.task)
        out.created = self.done.created
        return out


@dataclass(slots=True)
class _Asked:
    wishes: Sequence[NewTask]
    actor: str
    once: Idempotency | None
    answer: "asyncio.Future[list[Made]]" = field(repr=False)


class Submits:
    """Whoever comes while others are at the store goes with the next ones: a thread for each would cost more."""

    def __init__(self, store: Store, aside: Aside) -> None:
        self._store = store
        self._aside = aside
        self._waiting: deque[_Asked] = deque()
        self._going: asyncio.Task[None] | None = None

    async def make(self, wishes: Sequence[NewTask], actor: str, key: str | None) -> list[Made]:
        """Make the tasks, all or none. The same key makes nothing twice."""
        once = None
        if key is not None:
            once = Idempotency(key, hashlib.sha256(msgspec.json.encode(wishes)).hexdigest())
        with submitting(wishes) as wishes:
            asked = _Asked(wishes, actor, once, asyncio.get_running_loop().create_future())
            self._waiting.append(asked)
            if self._going is None:
                self._going = asyncio.create_task(self._go())
            return await asked.answer

    async def task(self, made: Made) -> Task:
        """The task that was made."""
        return made.task or await self._aside(self._store.get, made.done.id)

    async def _go(self) -> None:
        try:
            while self._waiting:
                together = self._next()
                try:
                    answers = await self._aside(self._make_together, together)
                except BaseException as error:
                    answers = [error] * len(together)
                    if not isinstance(error, Exception):
                        raise
                finally:
                    _tell(together, answers)
        finally:
            self._going = None

    def _next(self) -> list[_Asked]:
        """Those of one actor without a key, in their order; else the first alone."""
        first = self._waiting.popleft()
        together, size = [first], len(first.wishes)
        while self._waiting and first.once is None:
            asked = self._waiting[0]
            size += len(asked.wishes)
            if asked.once is not None or asked.actor != first.actor or size > MOST_TOGETHER:
                break
            together.append(self._waiting.popleft())
        return together

    def _make_together(self, together: list[_Asked]) -> list["list[Made] | Exception"]:
        wishes = [wish for asked in together for wish in asked.wishes]
        try:
            made = iter(self._make(wishes, together[0].actor, together[0].once))
            return [[next(made) for _ in asked.wishes] for asked in together]
        except (Invalid, NotFound, Refused) as error:  # nothing was made: whoever broke no rule gets theirs
            if len(together) == 1:
                return [error]
            return [answer for asked in together for answer in self._make_together([asked])]
        except HeadgateError as error:  # they may have been made: what is not known is not tried again
            return [error] * len(together)

    def _make(self, wishes: Sequence[NewTask], actor: str, once: Idempotency | None) -> list[Made]:
        made = self._store.submit_many(wishes, actor=actor, once=once)
        unknown = [done.id for done in made if done.landed is None]
        found = self._store.get_many(unknown) if unknown else {}
        if once is not None and (gone := [task_id for task_id in unknown if task_id not in found]):
            raise NotFound(f"task {gone[0]}, which this key made, has been purged since")
        return [Made(wish, done, found.get(done.id)) for wish, done in zip(wishes, made, strict=True)]


def _tell(together: Sequence[_Asked], answers: Sequence["list[Made] | BaseException"]) -> None:
    for asked, answer in zip(together, answers, strict=True):
        if asked.answer.done():  # who asked is gone
            continue
        if isinstance(answer, BaseException):
            asked.answer.set_exception(answer)
        else:
            asked.answer.set_result(answer)
