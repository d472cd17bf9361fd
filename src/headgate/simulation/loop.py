"""An event loop whose time is a number: nothing waits, and the same steps come in the same order every time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any


class _NoWait(selectors.BaseSelector):
    """Where a loop would wait for input, or for its next timer, the clock is put forward instead."""

    def __init__(self, forward: Callable[[float], None]) -> None:
        self._forward = forward
        self._files: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._files[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing is going to happen")
        self._forward(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files


class VirtualLoop(asyncio.SelectorEventLoop):
    """Everything runs in this thread; `on_task` is called with every task that is made."""

    def __init__(self, on_task: Callable[["asyncio.Task[Any]"], None]) -> None:
        self._now = 0.0
        super().__init__(_NoWait(self._forward))
        self._on_task = on_task
        self.set_task_factory(self._make)  # type: ignore[arg-type]
        self.set_exception_handler(lambda loop, context: None)  # errors of killed processes are expected

    def time(self) -> float:
        return self._now

    def _forward(self, seconds: float) -> None:
        self._now += max(seconds, 0.0)

    def _write_to_self(self) -> None:
        """Nothing to wake up: the loop never sleeps."""

    def _make(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **options)
        self._on_task(task)
        return task
