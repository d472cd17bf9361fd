"""Tasks whose start time has come are queued."""

from headgate.environment import random_number
from headgate.service import InThread, Service
from headgate.store.store import Store

BATCH = 1000
LONGEST_SECONDS = 1.0  # a nearer time may be submitted by anybody, and nobody tells
SHORTEST_SECONDS = 0.01
SPREAD_SECONDS = 0.02  # so that of many processes one comes first, and the others find it done


class BringDue(Service):
    """Queues due tasks a batch at a time, and sleeps until the next one's time."""

    name = "due"

    def __init__(self, store: Store, in_thread: InThread) -> None:
        super().__init__(LONGEST_SECONDS)
        self._store = store
        self._in_thread = in_thread
        self._ahead: float | None = None

    async def turn(self) -> int:
        self._ahead = await self._in_thread(self._store.due.next_in)
        if self._ahead is None or self._ahead > 0:
            return 0
        moved: int = await self._in_thread(self._store.due.bring, BATCH)
        return moved

    def _next_pause(self) -> float:
        """Until the next start time that is known."""
        pause = super()._next_pause()
        if self._failures or self._ahead is None:
            return pause
        return min(max(self._ahead, SHORTEST_SECONDS) + SPREAD_SECONDS * random_number(), pause)
