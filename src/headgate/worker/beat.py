"""The beat: renews a worker's lease, once for all its tasks, and hears what is asked of them."""

import logging
import threading
import time
from collections.abc import Callable, Collection

from headgate.core.errors import HeadgateError, WorkerLost
from headgate.store.base import Store
from headgate.store.workers import Asked

log = logging.getLogger("headgate.worker")
SAFE_SHARE = 0.8  # of a lease: who could not renew it for so long stops by itself
HURRIED_SHARE = 0.2  # of the pause, while the lease is running out


class Beat:
    """In a thread of its own: a handler that blocks the event loop does not cost the worker its lease.

    `asked` gets what is asked of running tasks; `lost` is called when the worker was declared lost, `unsafe` when the
    lease may soon be over: whatever runs must stop. All three are called in this thread.
    """

    def __init__(
        self,
        store: Store,
        seconds: float,
        lease_seconds: float,
        held: Callable[[], Collection[int]],
        asked: Callable[[list[Asked]], None],
        lost: Callable[[], None],
        unsafe: Callable[[], None],
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._lease_seconds = lease_seconds
        self._held = held
        self._asked = asked
        self._lost = lost
        self._unsafe = unsafe
        self._worker_id = 0
        self._renewed_at = 0.0
        self._failed = False
        self._ended = False
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def signed_on(self, worker_id: int, at: float) -> None:
        """Beat for this worker from now on; its lease began at `at`, by the monotonic clock."""
        self._worker_id, self._renewed_at = worker_id, at
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="headgate beat", daemon=True)
            self._thread.start()

    def now(self) -> None:
        """Beat at once: something may be asked, or the worker may be lost."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread; a beat under way is waited for."""
        self._ended = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def turn(self) -> None:
        """Beat once."""
        worker_id, begun = self._worker_id, time.monotonic()
        try:
            asked = self._store.beat(worker_id, self._held())
        except WorkerLost:
            if worker_id == self._worker_id:  # else it has signed on anew meanwhile
                self._worker_id = 0
                self._lost()
        except HeadgateError as error:
            if not self._failed:
                log.warning("cannot renew the lease, trying again: %s", error)
            self._failed = True
            if time.monotonic() - self._renewed_at > SAFE_SHARE * self._lease_seconds:
                self._unsafe()
        else:
            self._renewed_at, self._failed = begun, False
            self._asked(asked)

    def _loop(self) -> None:
        while not self._ended:
            self._woken.wait(self._seconds * (HURRIED_SHARE if self._failed else 1.0))
            self._woken.clear()
            if self._worker_id and not self._ended:
                try:
                    self.turn()
                except Exception:  # a beat that is skipped costs nothing, a thread that dies costs the lease
                    log.exception("a beat failed")
