"""Permits to use one of a few connections: callers take turns, and none has all of them."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from headgate.core.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

_caller: ContextVar[Hashable] = ContextVar("headgate_store_caller", default=None)  # None: the process itself


def for_caller(caller: Hashable, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in this thread; what it asks of the store is on behalf of this caller."""
    token = _caller.set(caller)
    try:
        return work(*args, **kwargs)
    finally:
        _caller.reset(token)


class Permits:
    """`count` permits, of which one caller has `most_of_one` at most; the process itself may have all of them.

    Callers that wait take turns, each with its own work in the order of asking. While a permit is free, all that wait
    have as many as they may.
    """

    def __init__(self, count: int, most_of_one: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._most_of_one = most_of_one
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[threading.Event]] = {}  # by caller, whose turn it is first

    @contextmanager
    def one(self, seconds: float) -> Iterator[None]:
        """Have a permit while the block runs; `Unavailable` if there is none within so many seconds."""
        caller = _caller.get()
        self._take(caller, seconds)
        try:
            yield
        finally:
            self._give_back(caller)

    def _take(self, caller: Hashable, seconds: float) -> None:
        with self._lock:
            if self._may_take(caller):
                self._count(caller)
                return
            granted = threading.Event()
            self._waiting.setdefault(caller, deque()).append(granted)
        try:
            granted.wait(seconds)
        except BaseException:
            if not self._leave_line(caller, granted):
                self._give_back(caller)
            raise
        if self._leave_line(caller, granted):
            raise Unavailable("every connection to the store is in use")

    def _give_back(self, caller: Hashable) -> None:
        with self._lock:
            self._free += 1
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]
            for following in self._waiting:
                if self._may_take(following):
                    self._grant_next(following)
                    return

    def _may_take(self, caller: Hashable) -> bool:
        return self._free > 0 and (caller is None or self._taken[caller] < self._most_of_one)

    def _count(self, caller: Hashable) -> None:
        self._free -= 1
        self._taken[caller] += 1

    def _grant_next(self, caller: Hashable) -> None:
        line = self._waiting.pop(caller)
        line.popleft().set()
        self._count(caller)
        if line:
            self._waiting[caller] = line  # behind the others

    def _leave_line(self, caller: Hashable, granted: threading.Event) -> bool:
        """Whether it was still in line: if not, it was granted its permit."""
        with self._lock:
            if granted.is_set():
                return False
            line = self._waiting[caller]
            line.remove(granted)
            if not line:
                del self._waiting[caller]
            return True
