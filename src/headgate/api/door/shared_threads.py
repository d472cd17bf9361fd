"""Store threads for requests: each key and each tenant has its share of them, and waits for a turn beyond that."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from headgate.api.door.shares import Account
from headgate.api.door.visit import Visit, current_visit
from headgate.api.problems import Rejected
from headgate.store.db.permits import for_caller
from headgate.threads import Threads

P = ParamSpec("P")
T = TypeVar("T")


class _Call:
    """Work of a request, which may have to wait for its turn."""

    __slots__ = ("answer", "key", "tenant", "visit", "work")

    def __init__(self, visit: Visit, work: Callable[[], Any]) -> None:
        self.visit = visit
        self.key, self.tenant = visit.accounts
        self.work = work
        self.answer: Future[Any] = Future()

    def run(self) -> None:
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            if self.visit.is_gone and not self.visit.has_begun:
                raise Rejected(400, "the client has hung up")
            self.visit.has_begun = True
            self.answer.set_result(self.work())
        except BaseException as error:
            self.answer.set_exception(error)


class SharedThreads:
    """Call it with blocking work of a request. No request is refused here: it may be half done."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: dict[Account, dict[Account, deque[_Call]]] = {}  # by tenant and key, whose turn it is first

    async def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        visit = current_visit.get()
        if visit is None or not visit.accounts:
            return await self._without_share(partial(work, *args, **kwargs))
        call = _Call(visit, partial(copy_context().run, for_caller, visit.caller, work, *args, **kwargs))
        with self._lock:
            if call.key.has_thread and call.tenant.has_thread:
                self._count(call, 1)
                self._start(call)
            else:
                self._waiting.setdefault(call.tenant, {}).setdefault(call.key, deque()).append(call)
        answer: T = await asyncio.wrap_future(call.answer)
        return answer

    async def _without_share(self, work: Callable[[], T]) -> T:
        with self._lock:
            self._running += 1
        try:
            return await self._threads(work)
        finally:
            with self._lock:
                self._running -= 1

    def _count(self, call: _Call, change: int) -> None:
        self._running += change
        call.key.threads += change
        call.tenant.threads += change

    def _start(self, call: _Call) -> None:
        self._threads.start(self._run, call).add_done_callback(partial(_cancel_if_dropped, call))

    def _run(self, call: _Call) -> None:
        """Run a call, and those that wait for its turn to end: by way of the event loop a turn would stand empty."""
        next_call: _Call | None = call
        while next_call is not None:
            next_call.run()
            next_call = self._next(next_call)

    def _next(self, ended: _Call) -> _Call | None:
        """The call that has the turn now, if it is for this thread; where others wait for threads, it goes last."""
        with self._lock:
            self._count(ended, -1)
            call = self._first_waiting(ended.tenant)
            if call is None:
                return None
            self._count(call, 1)
            if self._running <= self._threads.most:
                return call
            self._start(call)
            return None

    def _first_waiting(self, tenant: Account) -> _Call | None:
        """The keys of a tenant take turns."""
        by_key = self._waiting.get(tenant, {})
        key = next((key for key in by_key if key.has_thread), None)
        if key is None:
            return None
        calls = by_key.pop(key)
        call = calls.popleft()
        if calls:
            by_key[key] = calls
        elif not by_key:
            del self._waiting[tenant]
        return call


def _cancel_if_dropped(call: _Call, started: "Future[None]") -> None:
    """The threads were closed before the work began: the caller must not wait forever."""
    if started.cancelled():
        call.answer.cancel()
