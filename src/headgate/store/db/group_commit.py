"""Sharing one commit among callers: one of them leads, and takes along everything that waits."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class SharedCall(Generic[Item, Result]):
    """One caller's wish, and what became of it."""

    __slots__ = ("_result", "called", "done", "error", "item")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.done = False
        self.error: BaseException | None = None
        self.called = threading.Lock()  # held until the call is done, or its caller is called upon to lead
        self.called.acquire()

    def succeed(self, result: Result) -> None:
        self._result, self.done = result, True
        self.called.release()

    def fail(self, error: BaseException) -> None:
        self.error, self.done = error, True
        self.called.release()

    def result(self) -> Result:
        if self.error is not None:
            raise self.error
        return self._result


class GroupCommit(Generic[Item, Result]):
    """Groups calls from any number of threads; `run` serves as many calls of the inbox as it likes, at least the first.

    A lone caller pays for no hand-over. A served caller returns at once, and leadership passes to the first caller that
    still waits, so no caller leads more than one run.
    """

    def __init__(self, run: Callable[[deque[SharedCall[Item, Result]]], None]) -> None:
        self._run = run
        self._inbox: deque[SharedCall[Item, Result]] = deque()
        self._door = threading.Lock()
        self._led = False

    def call(self, item: Item) -> Result:
        call: SharedCall[Item, Result] = SharedCall(item)
        with self._door:
            self._inbox.append(call)
            leads, self._led = not self._led, True
        if not leads:
            call.called.acquire()
        if not call.done:
            try:
                self._run(self._inbox)
            finally:
                self._hand_over()
        return call.result()

    def _hand_over(self) -> None:
        with self._door:
            if self._inbox:
                self._inbox[0].called.release()
            else:
                self._led = False
