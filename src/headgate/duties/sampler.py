"""What waits and what happened, counted every few seconds for people to look at."""

from headgate.service import InThread, Service
from headgate.store.store import Store

PERIOD_SECONDS = 5.0


class Sampler(Service):
    """Takes the sample that `Store.counts` shows, and counts what has happened for the charts."""

    name = "sampler"

    def __init__(self, store: Store, in_thread: InThread) -> None:
        super().__init__(PERIOD_SECONDS)
        self._store = store
        self._in_thread = in_thread

    async def turn(self) -> int:
        await self._in_thread(self._store.statistics.take_sample)
        await self._in_thread(self._store.series.take)
        return 0
