"""The beat: renews a worker's lease, once for all its tasks, and fetches the requests to cancel or pause them."""

import logging
import threading
from collections.abc import Callable, Mapping

from headgate.core.errors import WorkerLost
from headgate.environment import monotonic
from headgate.store.execution.workers import Request
from headgate.store.store import Store

log = logging.getLogger("headgate.worker")
HURRIED_SHARE = 0.2  # of the pause, while the lease is running out
STOP_SECONDS = 5.0


class Beat:
    """In a thread of its own: a handler that blocks the event loop does not cost the worker its lease.

    `held` gives the executions of the worker (exec_id: task id), `detail` the worker's report on itself. `on_requests`
    gets the requests to cancel or pause them, `on_revoked` the exec_ids that no longer own their task, and `on_lost` is
    called when the worker was declared lost. All three are called in this thread.
    """

    def __init__(
        self,
        store: Store,
        seconds: float,
        held: Callable[[], Mapping[str, int]],
        on_requests: Callable[[list[Request]], None],
        on_revoked: Callable[[set[str]], None],
        on_lost: Callable[[], None],
        detail: Callable[[], str],
    ) -> None:
        self.renewed_at = 0.0  # by the monotonic clock
        self._store = store
        self._seconds = seconds
        self._held = held
        self._on_requests = on_requests
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._detail = detail
        self._worker_id = 0
        self._failed = False
        self._begun = False
        self._ended = False
        self._is_over: Callable[[], bool] = lambda: False
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def signed_on(self, worker_id: int, at: float) -> None:
        """Beat for this worker from now on; its lease began at `at`, by the monotonic clock."""
        self._worker_id, self.renewed_at = worker_id, at
        if not self._begun:
            self._begun = True
            self.begin()

    def begin(self) -> None:
        """Beat periodically until `stop`."""
        self._thread = threading.Thread(target=self._loop, name="headgate beat", daemon=True)
        self._thread.start()

    def now(self) -> None:
        """Beat at once: there may be requests, or the worker may be lost."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread; waits briefly for a beat under way."""
        self._ended = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def stop_when(self, ended: Callable[[], bool]) -> None:
        """End the thread once `ended`, which is called before each beat, returns true; until then renew the lease."""
        self._is_over = ended

    def turn(self) -> None:
        """Beat once."""
        worker_id, held, begun = self._worker_id, self._held(), monotonic()
        try:
            requests = self._store.workers.beat(worker_id, list(held.values()), self._detail())
            owned = self._store.workers.owned(worker_id, list(held.values()))
        except WorkerLost:
            if worker_id == self._worker_id:  # else the worker has signed on again meanwhile
                self._worker_id = 0
                self._on_lost()
        except Exception as error:  # a beat that is skipped costs little, a thread that dies costs the lease
            if not self._failed:
                log.warning("cannot renew the lease, retrying: error=%s", error)
            self._failed = True
        else:
            self.renewed_at, self._failed = begun, False
            self._on_requests(requests)
            self._on_revoked(set(held) - owned)

    def _loop(self) -> None:
        while not self._ended:
            self._woken.wait(self._seconds * (HURRIED_SHARE if self._failed else 1.0))
            self._woken.clear()
            if self._is_over():
                return
            if self._worker_id and not self._ended:
                self.turn()
