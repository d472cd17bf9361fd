"""Sharing one commit among callers: whoever finds the turn free takes along everything that waits."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Call(Generic[Item, Result]):
    """One caller's wish, and what became of it."""

    __slots__ = ("_result", "done", "error", "item")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.done = False
        self.error: BaseException | None = None

    def succeed(self, result: Result) -> None:
        self._result, self.done = result, True

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True

    def result(self) -> Result:
        if self.error is not None:
            raise self.error
        return self._result


class Group(Generic[Item, Result]):
    """Callers in any number of threads; `run` serves as much of the inbox as it likes, the first one at least.

    Nobody leads more than one run, and a caller that meets no other pays for no hand-over.
    """

    def __init__(self, run: Callable[[deque[Call[Item, Result]]], None]) -> None:
        self._run = run
        self._inbox: deque[Call[Item, Result]] = deque()
        self.turn = threading.Lock()

    def call(self, item: Item) -> Result:
        call: Call[Item, Result] = Call(item)
        self._inbox.append(call)
        while not call.done:
            with self.turn:
                if not call.done:
                    self._run(self._inbox)
        return call.result()
