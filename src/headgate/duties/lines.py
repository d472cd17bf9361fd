"""The lines of the mutexes, put in order whatever a bug or a crash left."""

from headgate.service import Aside, Service
from headgate.store.base import Store

PAGE = 100
ROUND_SECONDS = 60.0
START = (-(1 << 63), "")


class Lines(Service):
    """Repairs every line, a page a turn; 0 at the end of the round."""

    name = "lines"
    breath = 0.5

    def __init__(self, store: Store, aside: Aside, *, page: int = PAGE) -> None:
        super().__init__(ROUND_SECONDS)
        self._store = store
        self._aside = aside
        self._page = page
        self._after = START

    async def turn(self) -> int:
        after = await self._aside(self._store.repair_lines, self._after, self._page)
        self._after = after or START
        return 0 if after is None else self._page
