"""The newest figures, for everybody who listens."""

from collections.abc import Awaitable, Callable
from typing import Any

from headgate.outside import monotonic
from headgate.store.base import Store
from headgate.store.series import Point

FRESH_SECONDS = 1.0
Aside = Callable[..., Awaitable[Any]]


class Newest:
    """The newest point of the series: however many ask, the store is asked once a second at most."""

    def __init__(self, store: Store, aside: Aside) -> None:
        self._store = store
        self._aside = aside
        self._point: Point | None = None
        self._until = -1e18

    async def point(self) -> Point | None:
        if monotonic() >= self._until:
            self._until = monotonic() + FRESH_SECONDS
            self._point = await self._aside(self._store.series.newest)
        return self._point
