"""A load on an app with a broker: tasks submitted one after the other, and the proof that each of them ended once."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headgate.app import Headgate
from tests.broker.test_scenarios import by_broker, ended, kinds
from tests.worker.conftest import until

QUEUE = "headgate.tasks.default.endure"
MOST_OPEN = 100
TERMINAL = {"completed", "failed", "dead_lettered", "cancelled"}


class Load:
    """Tasks of one type; how often each has run is counted by its number."""

    def __init__(self, app: Headgate) -> None:
        self._app = app
        self._lock = threading.Lock()
        self.tasks: list[Any] = []
        self.runs: Counter[int] = Counter()
        self._wanted = 0
        counting = threading.Lock()

        @app.task
        async def endure(number: int) -> None:
            with counting:
                self.runs[number] += 1

        self._endure = endure

    def submit(self) -> Any:
        with self._lock:
            self.tasks.append(self._endure.submit_sync(number=len(self.tasks)))
            return self.tasks[-1]

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """Submits meanwhile, as many as are awaited and a few more, so that some are open."""
        over = threading.Event()

        def submit() -> None:
            while not over.is_set():
                if len(self.tasks) < self._wanted and len(self.tasks) - len(self.runs) < MOST_OPEN:
                    self.submit()
                else:
                    over.wait(0.01)

        thread = threading.Thread(target=submit, name="submits under test")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
            assert not thread.is_alive(), "the submits did not end"

    def await_runs(self, count: int) -> None:
        self._wanted = count + MOST_OPEN
        until(lambda: len(self.runs) >= count, 120)

    def await_broker(self, seconds: float = 60.0) -> None:
        """Until what is submitted goes through the broker."""
        until(lambda: by_broker(self._app) and self._goes_by_broker(), seconds)

    def _goes_by_broker(self) -> bool:
        task = self.submit()
        until(lambda: ended(self._app, task))
        return "scheduled" in kinds(self._app, task.id)

    def assert_each_ends_once(self) -> None:
        until(lambda: ended(self._app, *self.tasks), 120)
        assert self.runs == Counter(range(len(self.tasks)))
        for task in self.tasks:
            assert [kind for kind in kinds(self._app, task.id) if kind in TERMINAL] == ["completed"]
