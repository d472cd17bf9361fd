"""Submits of many requests at once, taken to the store together: one thread and one commit for all of them."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from litestar.params import HeaderParameter

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
Made = list[tuple[Submitted, Task]]
MOST_TOGETHER = 500  # tasks


@dataclass(slots=True)
class _Asked:
    wishes: Sequence[NewTask]
    actor: str
    once: Idempotency | None
    answer: "asyncio.Future[Made]" = field(repr=False)


class Submits:
    """Whoever comes while others are at the store goes with the next ones: a thread for each would cost more."""

    def __init__(self, store: Store, aside: Aside) -> None:
        self._store = store
        self._aside = aside
        self._waiting: deque[_Asked] = deque()
        self._going: asyncio.Task[None] | None = None

    async def make(self, wishes: Sequence[NewTask], actor: str, key: str | None) -> Made:
        """Make the tasks, all or none, and look each up as it was then. The same key makes nothing twice."""
        once = None
        if key is not None:
            once = Idempotency(key, hashlib.sha256(msgspec.json.encode(wishes)).hexdigest())
        with submitting(wishes) as wishes:
            asked = _Asked(wishes, actor, once, asyncio.get_running_loop().create_future())
            self._waiting.append(asked)
            if self._going is None:
                self._going = asyncio.create_task(self._go())
            return await asked.answer

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

    def _make_together(self, together: list[_Asked]) -> list["Made | Exception"]:
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

    def _make(self, wishes: Sequence[NewTask], actor: str, once: Idempotency | None) -> Made:
        made = self._store.submit_many(wishes, actor=actor, once=once)
        found = self._store.get_many([done.id for done in made])
        if once is not None and (gone := [done.id for done in made if done.id not in found]):
            raise NotFound(f"task {gone[0]}, which this key made, has been purged since")
        return [(done, found[done.id]) for done in made]


def _tell(together: Sequence[_Asked], answers: Sequence["Made | BaseException"]) -> None:
    for asked, answer in zip(together, answers, strict=True):
        if asked.answer.done():  # who asked is gone
            continue
        if isinstance(answer, BaseException):
            asked.answer.set_exception(answer)
        else:
            asked.answer.set_result(answer)
