"""What waits and what happened, counted every few seconds for people to look at."""

from headgate.service import Aside, Service
from headgate.store.base import Store

PERIOD_SECONDS = 5.0


class Sampler(Service):
    """Takes the sample that `Store.counts` shows, and counts what has happened for the charts."""

    name = "sampler"

    def __init__(self, store: Store, aside: Aside) -> None:
        super().__init__(PERIOD_SECONDS)
        self._store = store
        self._aside = aside

    async def turn(self) -> int:
        await self._aside(self._store.take_sample)
        await self._aside(self._store.series.take)
        return 0
