"""The mutex queues, put in order whatever a bug or a crash left."""

from headgate.service import InThread, Service
from headgate.store.store import Store

PAGE = 100
ROUND_SECONDS = 60.0
START = (-(1 << 63), "")


class RepairMutexes(Service):
    """Repairs every mutex queue, a page a turn; 0 at the end of the round."""

    name = "lines"
    pause_after_work = 0.5

    def __init__(self, store: Store, in_thread: InThread, *, page: int = PAGE) -> None:
        super().__init__(ROUND_SECONDS)
        self._store = store
        self._in_thread = in_thread
        self._page = page
        self._after = START

    async def turn(self) -> int:
        after = await self._in_thread(self._store.mutexes.repair, self._after, self._page)
        self._after = after or START
        return 0 if after is None else self._page
