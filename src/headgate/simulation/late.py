"""A transaction that stays open for a while, as one of a slow process does: others commit past it (PostgreSQL)."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.core.task import NewTask
from headgate.simulation.database import name_of
from headgate.store.db.deferred import Deferred, settled
from headgate.store.store import Store
from headgate.store.tasks.submit import Submitted

T = TypeVar("T")
PATIENCE = 30.0  # real seconds: nothing in there waits


class LateSubmit:
    """A submit that is written now and committed when `commit` is called."""

    def __init__(self, real: Any, new: NewTask) -> None:
        self.dialect: str = real.dialect
        self.one_writer: bool = real.one_writer
        self._store = Store(self)  # type: ignore[arg-type]
        self._real = real
        self._new = new
        self._written, self._wanted = threading.Event(), threading.Event()
        self._made: list[Submitted] = []
        self.on_news: Callable[[Any], None]
        self._store.types.by_code()  # what it has to know is read beforehand
        self._thread = threading.Thread(target=self._submit, daemon=True)
        self._thread.start()
        if not self._written.wait(PATIENCE):
            raise TimeoutError("a submit was not written")

    def commit(self) -> Submitted:
        self._wanted.set()
        self._thread.join(PATIENCE)
        return self._made[0]

    def _submit(self) -> None:
        try:
            self._made.append(self._store.tasks.submit(self._new))
        finally:
            self._written.set()

    def listen(self) -> None:
        """Nothing here waits for news."""

    def read(self, operation: Callable[[Any], T]) -> T:
        return self._real.read(operation)  # type: ignore[no-any-return]

    def write(
        self,
        operation: Callable[[Any], "T | Deferred[T]"],
        timeout: float | None = None,
        *,
        lock_seconds: float | None = None,
    ) -> T:
        if name_of(operation) != "Tasks.submit_together":  # a stream it needs, which everybody is to see
            return self._real.write(operation)  # type: ignore[no-any-return]
        return self._real.write(lambda db: self._hold(settled(operation(db))))  # type: ignore[no-any-return]

    def _hold(self, result: T) -> T:
        self._written.set()
        self._wanted.wait(PATIENCE)
        return result
