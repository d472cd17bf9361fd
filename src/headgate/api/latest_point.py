"""The newest figures, for everybody who listens."""

from collections.abc import Awaitable, Callable
from typing import Any

from headgate.environment import monotonic
from headgate.store.reading.series import Point
from headgate.store.store import Store

FRESH_SECONDS = 1.0
InThread = Callable[..., Awaitable[Any]]


class LatestPoint:
    """The newest point of the series: however many ask, the store is asked once a second at most."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store = store
        self._in_thread = in_thread
        self._point: Point | None = None
        self._until = -1e18

    async def get(self) -> Point | None:
        if monotonic() >= self._until:
            self._until = monotonic() + FRESH_SECONDS
            self._point = await self._in_thread(self._store.series.newest)
        return self._point
