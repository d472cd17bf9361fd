"""Which handlers a worker process runs code of right now, kept where it can be read when the process is dead.

A coroutine is on stage while the event loop takes a step of it, a thread's handler from its start to its end. If the
process dies, a handler that was not on stage did not cause it.
"""

import mmap
import os
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_PLACES = 512
_BYTES = 8 * _PLACES
PULSE_OFFSET, _PULSE_BYTES = _BYTES, 16  # behind the places, for `pulse.py`
_LOOP = 0  # the place of the event loop; the rest are for threads


def make_stage() -> int:
    """A stage for a process to come: a file descriptor, for it to inherit."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headgate stage")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, _BYTES + _PULSE_BYTES)
    return descriptor


def on_stage(descriptor: int) -> set[int]:
    """The ids of the tasks that were on stage when the process died."""
    return set(memoryview(os.pread(descriptor, _BYTES, 0)).cast("q")) - {0}


class Stage:
    """The stage of this process; without a descriptor nothing is recorded."""

    def __init__(self, descriptor: int | None = None) -> None:
        memory = mmap.mmap(-1, _BYTES) if descriptor is None else mmap.mmap(descriptor, _BYTES)
        self._places = memoryview(memory).cast("q")
        self._free = list(range(1, _PLACES))

    @contextmanager
    def entered(self, task_id: int) -> Generator[None, None, None]:
        """Mark a handler that runs in this thread as on stage while the block runs."""
        place = self._free.pop() if self._free else _LOOP
        self._places[place] = task_id
        try:
            yield
        finally:
            self._places[place] = 0
            if place != _LOOP:
                self._free.append(place)

    def steps(self, task_id: int, coroutine: Coroutine[Any, Any, T]) -> "_Steps[T]":
        """The coroutine, to be awaited."""
        return _Steps(self._places, task_id, coroutine)


class _Steps(Generic[T]):
    """An awaitable that is on stage during each step."""

    __slots__ = ("_coroutine", "_places", "_task_id")

    def __init__(self, places: memoryview, task_id: int, coroutine: Coroutine[Any, Any, T]) -> None:
        self._places = places
        self._task_id = task_id
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        places, task_id, step = self._places, self._task_id, self._coroutine.send
        sent: Any = None
        while True:
            places[_LOOP] = task_id
            try:
                awaited = step(sent)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            finally:
                places[_LOOP] = 0
            step = self._coroutine.send
            try:
                sent = yield awaited
            except BaseException as error:
                step, sent = self._coroutine.throw, error
