"""Which handlers of a worker wait for which tasks."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Waits:
    """Pairs of a running task and one that its handler waits for. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pairs: Counter[tuple[int, int]] = Counter()  # a handler may wait for a task several times at once

    @contextmanager
    def waiting(self, waiter: int, task_id: int) -> Iterator[None]:
        """A handler waits for a task while the block runs."""
        with self._lock:
            self._pairs[waiter, task_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._pairs -= Counter([(waiter, task_id)])  # which drops what is zero

    @property
    def waiters(self) -> set[int]:
        """The tasks whose handlers wait."""
        with self._lock:
            return {waiter for waiter, _ in self._pairs}

    @property
    def awaited(self) -> set[int]:
        """The tasks that are waited for."""
        with self._lock:
            return {task_id for _, task_id in self._pairs}

    def waiters_of(self, task_id: int) -> set[int]:
        """The tasks that cannot continue until a task has ended: they wait for it, directly or through other tasks."""
        with self._lock:
            pairs = [*self._pairs]
        found = {task_id}
        while more := {waiter for waiter, awaited in pairs if awaited in found} - found:
            found |= more
        return found - {task_id}
