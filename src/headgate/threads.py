"""Threads beside the event loop, for work that blocks."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs blocking work with these arguments somewhere else, and returns its result: `Threads`, as a rule."""

    def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


class Threads:
    """`most` threads at most. Call it with blocking work; the work sees the caller's context variables."""

    def __init__(self, name: str, most: int) -> None:
        self.most = most
        self._executor = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        in_context = partial(copy_context().run, work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, in_context)

    def start(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """The same from any thread, and with nothing of the caller's context."""
        return self._executor.submit(work, *args, **kwargs)

    def close(self, *, wait: bool = True) -> None:
        """Wait for all work; or drop what has not begun, without waiting for the rest."""
        self._executor.shutdown(wait, cancel_futures=not wait)


async def inline(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in this thread: for simulations and tests, where it holds up nothing else."""
    return work(*args, **kwargs)
